package llama

import (
	"context"
	"fmt"
	"math"

	"foretoken/models/gguf"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Target is a model that verifies token trees: by drawing at every node (this file), by judging
// what a draft sampled (target_chain.go, target_sampled.go), or a text by its
// log-probabilities (target_score.go). target_parts.go has the passes they share.
type Target struct {
	*Model
	parts    map[part]*partPrograms
	prepared int // trees of up to so many nodes have their programs
	chains   map[chainKey]webgpu.Program
	sampled  sampledTrees
	joint    jointRuns
	judged   judged
	shaper   shaper
	singles  webgpu.Memory          // Logits' copy of what came back
	scores   map[int]webgpu.Program // by bucket

	results results
	scratch kernels.View // kernels.Filter's

	outputs  []spec.NodeOutput
	programs []webgpu.Program // of the run being put together
	regions  []webgpu.Region  // likewise
	path     []uint32         // scratch of place
	slots    []uint32         // of the last tree's nodes
	nodes    []int32          // their tokens
}

var (
	_ spec.RejectionTarget       = (*Target)(nil)
	_ spec.DivergenceTarget      = (*Target)(nil)
	_ spec.SampledTreeTarget     = (*Target)(nil)
	_ spec.ScoringTarget         = (*Target)(nil)
	_ spec.ShapedTarget          = (*Target)(nil)
	_ spec.LogitReader           = (*Target)(nil)
	_ spec.JointTarget           = (*Target)(nil)
	_ spec.JointChainTarget      = (*Target)(nil)
	_ spec.JointDivergenceTarget = (*Target)(nil)
	_ spec.JointTreeTarget       = (*Target)(nil)
	_ spec.Keeper                = (*Target)(nil)
)

// results are what comes back of a pass, a range for each kind, in one buffer and in the
// host's copy of it.
type results struct {
	buffer   webgpu.Buffer
	size     int // of it, in bytes
	back     webgpu.Memory
	records  rowResults // kernels.Sample's output
	filtered rowResults // kernels.Filter's
	grafted  rowResults // kernels.Graft's choice
	verdicts rowResults // kernels.Reject's or kernels.JudgeTree's
	gaps     rowResults // kernels.Divergence's
	scores   rowResults // kernels.Score's
}

// rowResults are words of each row of a tree.
type rowResults struct {
	view  kernels.View
	words int // of a row
}

// from is the view of rows from a multiple of 64 on.
func (r rowResults) from(row int) kernels.View { return viewFrom(r.view, row*r.words) }

// of is the host's copy of the first n rows.
func (r *results) of(kind rowResults, n int) webgpu.Memory {
	return r.back[kind.view.Offset/4:][:kind.words*n]
}

// LoadTarget loads a model to verify with.
func LoadTarget(ctx context.Context, dev webgpu.Device, f *gguf.File, o Options) (*Target, error) {
	o.trees = true
	m, err := load(ctx, dev, f, o, planTarget)
	if err != nil {
		return nil, err
	}
	t := newTarget(m)
	if err := t.record(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func newTarget(m *Model) *Target {
	return &Target{Model: m, parts: map[part]*partPrograms{}, chains: map[chainKey]webgpu.Program{}, scores: map[int]webgpu.Program{}}
}

// layResults makes the buffers that a target has beside its model's: of the results, and the filters' scratch.
func (t *Target) layResults() error {
	rows, r := t.opts.MaxRows, &t.results
	r.records.words, r.filtered.words = kernels.SampleWords(t.opts.TopK), kernels.FilterWords
	r.verdicts.words, r.gaps.words, r.scores.words = max(kernels.RejectWords, kernels.TreeVerdictWords), kernels.DivergenceWords, 1
	r.grafted.words = 1
	kinds, words := []*rowResults{&r.records, &r.filtered, &r.grafted, &r.verdicts, &r.gaps, &r.scores}, 0
	for _, k := range kinds {
		k.view = kernels.View{Offset: 4 * words, Size: 4 * rows * k.words}
		words += alignWords(rows * k.words)
	}
	all, err := t.storage("results", 4*words)
	if err != nil {
		return err
	}
	r.buffer, r.size = all.Buffer, all.Size
	for _, k := range kinds {
		k.view.Buffer = all.Buffer
	}
	t.scratch, err = t.bound("filter scratch", kernels.FilterScratch(t.passRows()))
	return err
}

// record makes the buffers and the programs.
func (t *Target) record() error {
	if err := t.layResults(); err != nil {
		return err
	}
	rows, r := t.opts.MaxRows, &t.results
	r.back = webgpu.NewMemory(r.size)
	t.outputs = make([]spec.NodeOutput, rows)
	for i := range t.outputs {
		t.outputs[i] = spec.NodeOutput{TopIDs: make([]int32, t.opts.TopK), TopLogits: make([]float32, t.opts.TopK)}
	}
	t.path = make([]uint32, t.ancestorStride())
	if t.single = t.opts.Lean; t.single {
		defer func() { t.single = false }()
	}
	if err := t.makeFeeding(); err != nil {
		return err
	}
	if t.opts.Lean {
		return t.Prepare(1)
	}
	return t.Prepare(min(defaultRows, rows))
}

// makeFeeding makes the programs of Prefill.
func (t *Target) makeFeeding() error {
	recorders, keep := t.recordFeeding(t.forward)
	programs, err := t.build(recorders...)
	if err == nil {
		keep(programs)
	}
	return err
}

// Warm makes the programs that a lean load left out, for trees of up to rows nodes. What it has made it does not make
// again, so that larger and larger trees make it in steps.
func (t *Target) Warm(rows int) error {
	if t.opts.Lean {
		if err := t.makeFeeding(); err != nil {
			return err
		}
		t.opts.Lean = false
	}
	if err := t.makeFilter(part{0, 1}); err != nil {
		return err
	}
	return t.Prepare(rows)
}

// makeFilter makes the program of filters that a lean load left out.
func (t *Target) makeFilter(key part) error {
	p := t.parts[key]
	if p == nil || p.filter != 0 {
		return nil
	}
	r := t.recorder(fmt.Sprintf("filter %d", key.rows))
	t.recordFilter(r, key)
	programs, err := t.build(r)
	if err == nil {
		p.filter = programs[0]
	}
	return err
}

// recordFilter records the filters of a part's rows.
func (t *Target) recordFilter(r *kernels.Recorder, key part) {
	r.Filter(t.tuning.lanes, t.partLogits(key), t.work.draw, t.feeding.batch.rowsFrom(key.from).drawn, t.scratch, t.results.filtered.from(key.from))
}

// Reset empties the sequence.
func (t *Target) Reset() {
	t.Model.Reset()
	t.slots = t.slots[:0]
}

// Keep cuts the sequence to the longest prefix that tokens begin with.
func (t *Target) Keep(tokens []int32) int {
	t.release()
	return t.seq.keep(tokens)
}

// Within calls f, which may verify and must not commit, while the sequence counts as its first n tokens alone: passes
// after texts of several lengths are timed in turn without running the texts again.
func (t *Target) Within(n int, f func() error) error {
	if n < 0 || n > t.Len() {
		return fmt.Errorf("llama: the first %d of %d tokens", n, t.Len())
	}
	if err := t.seq.flush(t.dev, t.work.table); err != nil {
		return err
	}
	return t.seq.within(n, f)
}

// place fills the batch with a tree after the committed tokens.
func (t *Target) place(tree *spec.Tree) error {
	n, base := len(tree.Tokens), t.Len()
	if n == 0 || n > t.opts.MaxRows {
		return fmt.Errorf("llama: a tree of %d nodes; 1 to %d can be verified", n, t.opts.MaxRows)
	}
	if err := t.checkTokens(tree.Tokens); err != nil {
		return err
	}
	t.release()
	var err error
	if t.slots, err = t.seq.take(n, t.slots[:0]); err != nil {
		return err
	}
	t.nodes = append(t.nodes[:0], tree.Tokens...)
	for i, token := range tree.Tokens {
		depth := int(tree.Depths[i])
		if depth >= len(t.path) {
			t.release()
			return fmt.Errorf("llama: a tree of %d levels below its root; %d can be verified", depth, len(t.path)-1)
		}
		if base+depth >= t.opts.Context {
			t.release()
			return fmt.Errorf("llama: position %d does not fit a context of %d", base+depth, t.opts.Context)
		}
		for j, d := int32(i), depth; j >= 0; j, d = tree.Parents[j], d-1 {
			t.path[d] = t.slots[j]
		}
		t.feeding.batch.set(i, token, base+depth, t.slots[i], base, t.path[:depth+1]...)
	}
	rows := t.paddedRows(n)
	t.feeding.batch.pad(n, rows, t.work.trash)
	return t.feeding.batch.writeRows(t.dev, rows)
}

// release frees the slots of the last tree.
func (t *Target) release() {
	for _, s := range t.slots {
		if s != taken {
			t.seq.give(s)
		}
	}
	t.slots = t.slots[:0]
}

// begin places a tree, says how to draw from it and starts putting a run together.
func (t *Target) begin(ctx context.Context, tree *spec.Tree, s spec.Sampling) error {
	t.shaper.now, t.shaper.next = t.shaper.next, shapes{}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.Prepare(len(tree.Tokens)); err != nil {
		return err
	}
	if filters(s) && len(tree.Tokens) == 1 {
		if err := t.makeFilter(part{0, 1}); err != nil {
			return err
		}
	}
	if err := t.place(tree); err != nil {
		return err
	}
	if err := t.seq.flush(t.dev, t.work.table); err != nil {
		return err
	}
	t.programs, t.regions = t.programs[:0], t.regions[:0]
	return t.writeDraw(s, spec.StreamTarget, false)
}

// read has n rows of a kind of result come back.
func (t *Target) read(kind rowResults, n int) {
	t.regions = append(t.regions, webgpu.Region{Buffer: t.results.buffer, Offset: kind.view.Offset, Dst: t.results.of(kind, n).Bytes()})
}

// Verify runs a tree in one submit and one readback.
func (t *Target) Verify(ctx context.Context, tree *spec.Tree, s spec.Sampling) ([]spec.NodeOutput, error) {
	if err := t.begin(ctx, tree, s); err != nil {
		return nil, err
	}
	n := len(tree.Tokens)
	t.verifyParts(n, s)
	t.readOutputs(n, s)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	return t.decodeOutputs(n, s), nil
}

// verifyParts adds the programs of the pass over a tree of n nodes.
func (t *Target) verifyParts(n int, s spec.Sampling) {
	t.eachPart(n, func(key part, p *partPrograms) {
		t.pass(key, p)
		t.programs = append(t.programs, p.sample)
		if filters(s) {
			t.programs = append(t.programs, p.filter)
		}
	})
}

// readOutputs has what decodeOutputs needs come back.
func (t *Target) readOutputs(n int, s spec.Sampling) {
	t.read(t.results.records, n)
	if filters(s) {
		t.read(t.results.filtered, n)
	}
}

// decodeOutputs reads the outputs of n nodes from what came back.
func (t *Target) decodeOutputs(n int, s spec.Sampling) []spec.NodeOutput {
	records, filtered := t.results.of(t.results.records, n), t.results.of(t.results.filtered, n)
	for i := range n {
		out, got := &t.outputs[i], kernels.DecodeSample(records, i, t.opts.TopK)
		out.Token, out.LogSumExp, out.Entropy = got.Token, got.LogSumExp, got.Entropy
		out.Threshold = float32(math.Inf(-1))
		if filters(s) {
			record := filtered[kernels.FilterWords*i:]
			out.Token, out.Threshold = int32(record[0]), math.Float32frombits(record[1])
		}
		for k := range out.TopIDs {
			out.TopIDs[k], out.TopLogits[k] = int32(got.IDs[k]), got.Values[k]
		}
	}
	return t.outputs[:n]
}

// Commit appends a path of the last verified tree to the sequence.
func (t *Target) Commit(path []int32) error {
	for _, i := range path {
		if i < 0 || int(i) >= len(t.slots) || t.slots[i] == taken {
			return fmt.Errorf("llama: node %d was committed of a tree of %d", i, len(t.slots))
		}
		t.seq.commit(t.slots[i], t.nodes[i])
		t.slots[i] = taken
	}
	t.seq.ran()
	t.release()
	return nil
}

// taken marks a slot that is no longer the tree's.
const taken = ^uint32(0)
