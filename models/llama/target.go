package llama

import (
	"context"
	"fmt"
	"math"

	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
	treekernel "foretoken/webgpu/kernels/tree"
)

// Target is a target model. It verifies token trees by drawing at every node (this file) or against a draft's
// distributions (target_chain.go, target_sampled.go), drafts and verifies in one submit (target_joint.go), scores texts
// (target_score.go) and embeds them (hidden.go). target_parts.go has the passes they share.
type Target struct {
	*Model
	parts     map[part]*partPrograms
	prepared  int // largest tree whose programs are compiled, in nodes
	chains    map[chainKey]webgpu.Program
	sampled   sampledTrees
	joint     jointRuns
	answer    spec.Pass // of the last pass
	verdicts  verdictMemory
	adjuster  adjuster
	logitBack webgpu.Memory          // readback of Logits
	scores    map[int]webgpu.Program // by bucket

	results results
	scratch kernels.View // of sample.RecordFilter

	outputs  []spec.NodeOutput
	programs []webgpu.Program // of the run under construction
	regions  []webgpu.Region  // readbacks of the run under construction
	path     []uint32         // scratch of place
	slots    []uint32         // of the last tree's nodes
	nodes    []int32          // tokens of the last tree's nodes
}

var _ spec.Target = (*Target)(nil)

// results holds the outputs of a pass, one range for each kind, in one buffer with a host copy.
type results struct {
	buffer      webgpu.Buffer
	size        int // of buffer, in bytes
	back        webgpu.Memory
	records     rowResults // output of sample.Record
	filtered    rowResults // output of sample.RecordFilter
	gathered    rowResults // candidates chosen by tree.RecordGather
	verdicts    rowResults // output of sample.RecordReject or tree.RecordVerify
	divergences rowResults // output of sample.RecordDivergence
	scores      rowResults // output of sample.RecordScore
}

// rowResults holds some words for each row of a tree.
type rowResults struct {
	view  kernels.View
	words int // per row
}

// from returns the view of the rows from row on, a multiple of 64.
func (r rowResults) from(row int) kernels.View { return r.view.From(row * r.words) }

// of returns the host copy of the first n rows.
func (r *results) of(kind rowResults, n int) webgpu.Memory {
	return r.back[kind.view.Offset/4:][:kind.words*n]
}

// LoadTarget loads a target model.
func LoadTarget(ctx context.Context, dev webgpu.Device, f *gguf.File, o graph.Options) (*Target, error) {
	m, err := load(ctx, dev, f, o, Plan)
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
	return &Target{Model: m, parts: map[part]*partPrograms{}, chains: map[chainKey]webgpu.Program{},
		scores: map[int]webgpu.Program{}}
}

// allocateResults makes the buffers that a target needs in addition to its model's: the results and the filters'
// scratch.
func (t *Target) allocateResults() error {
	rows, r := t.Options.MaxRows, &t.results
	r.records.words, r.filtered.words = kernels.SampleWords(t.Options.TopK), kernels.FilterWords
	r.verdicts.words = max(sample.RejectWords, treekernel.VerdictWords)
	r.divergences.words, r.scores.words, r.gathered.words = sample.DivergenceWords, 1, 1
	kinds, words := []*rowResults{&r.records, &r.filtered, &r.gathered, &r.verdicts, &r.divergences, &r.scores}, 0
	for _, k := range kinds {
		k.view = kernels.View{Offset: 4 * words, Size: 4 * rows * k.words}
		words += webgpu.AlignWords(rows * k.words)
	}
	all, err := t.Buffer("results", 4*words)
	if err != nil {
		return err
	}
	r.buffer, r.size = all.Buffer, all.Size
	for _, k := range kinds {
		k.view.Buffer = all.Buffer
	}
	t.scratch, err = t.Binding("filter scratch", sample.FilterScratch(t.PassRows()))
	return err
}

// record makes the results and compiles the programs that every target needs.
func (t *Target) record() error {
	if err := t.allocateResults(); err != nil {
		return err
	}
	rows, r := t.Options.MaxRows, &t.results
	r.back = webgpu.NewMemory(r.size)
	t.outputs = make([]spec.NodeOutput, rows)
	for i := range t.outputs {
		k := t.Options.TopK
		t.outputs[i] = spec.NodeOutput{TopIDs: make([]int32, k), TopLogits: make([]float32, k)}
	}
	t.path = make([]uint32, t.ancestorStride())
	t.Single = t.Options.Lean && !t.Dev.Info().Host()
	defer func() { t.Single = false }()
	if err := t.makePrefill(); err != nil {
		return err
	}
	if t.Options.Lean {
		return t.prepareTrees(1)
	}
	return t.prepareTrees(min(defaultRows, rows))
}

// makePrefill compiles the programs of Prefill.
func (t *Target) makePrefill() error {
	b := &graph.Batch{}
	t.recordPrefill(b)
	return t.Build(b)
}

// Warm compiles the programs that a lean load left out, for trees of up to rows nodes. It skips programs that
// exist, so a caller can warm larger and larger trees in steps.
func (t *Target) Warm(rows int) error {
	if t.Options.Lean {
		t.Options.Lean = false
		if err := t.makePrefill(); err != nil {
			t.Options.Lean = true
			return err
		}
	}
	if err := t.makeFilter(part{0, 1}); err != nil {
		return err
	}
	return t.prepareTrees(rows)
}

// makeFilter compiles a part's filter program if a lean load left it out.
func (t *Target) makeFilter(key part) error {
	p := t.parts[key]
	if p == nil || p.filter != 0 {
		return nil
	}
	b := &graph.Batch{}
	t.recordFilter(b, key, p)
	return t.Build(b)
}

// recordFilter records the filters of a part's rows.
func (t *Target) recordFilter(b *graph.Batch, key part, p *partPrograms) {
	r := t.Recorder(fmt.Sprintf("filter %d from %d", key.rows, key.from))
	sample.RecordFilter(r, t.Kernels.Lanes, t.partLogits(key), t.Space.Draw, t.prefill.batch.From(key.from).Drawn,
		t.scratch, t.results.filtered.from(key.from))
	b.Add(r, &p.filter)
}

// Reset empties the sequence.
func (t *Target) Reset() {
	t.Model.Reset()
	t.slots = t.slots[:0]
}

// ReusePrefix truncates the sequence to its longest common prefix with tokens and returns the length.
func (t *Target) ReusePrefix(tokens []int32) int {
	t.release()
	return t.seq.ReusePrefix(tokens)
}

// Within calls f while the sequence consists of its first n tokens only. f may verify and must not commit. It
// allows timing passes at several context lengths after one prefill.
func (t *Target) Within(n int, f func() error) error {
	if n < 0 || n > t.Len() {
		return fmt.Errorf("llama: the first %d of %d tokens", n, t.Len())
	}
	if err := t.seq.Flush(); err != nil {
		return err
	}
	return t.seq.Within(n, f)
}

// place fills the batch with a tree after the committed tokens.
func (t *Target) place(tree *spec.Tree) error {
	n, base := len(tree.Tokens), t.Len()
	if n == 0 || n > t.Options.MaxRows {
		return fmt.Errorf("llama: a tree of %d nodes; 1 to %d can be verified", n, t.Options.MaxRows)
	}
	if err := t.checkTokens(tree.Tokens); err != nil {
		return err
	}
	t.release()
	var err error
	if t.slots, err = t.seq.Take(n, t.slots[:0]); err != nil {
		return err
	}
	t.nodes = append(t.nodes[:0], tree.Tokens...)
	for i, token := range tree.Tokens {
		depth := int(tree.Depths[i])
		if depth >= len(t.path) {
			t.release()
			return fmt.Errorf("llama: a tree of %d levels below its root; %d can be verified", depth, len(t.path)-1)
		}
		if base+depth >= t.Options.Context {
			t.release()
			return fmt.Errorf("llama: position %d does not fit a context of %d", base+depth, t.Options.Context)
		}
		for j, d := int32(i), depth; j >= 0; j, d = tree.Parents[j], d-1 {
			t.path[d] = t.slots[j]
		}
		t.prefill.batch.Set(i, token, base+depth, t.slots[i], base, t.path[:depth+1]...)
	}
	rows := t.paddedRows(n)
	t.prefill.batch.Pad(n, rows)
	return t.prefill.batch.Write(rows)
}

// release frees the slots of the last tree.
func (t *Target) release() {
	t.slots = t.seq.Release(t.slots)
}

// begin starts a run over a tree: it places the tree and uploads the sampling parameters.
func (t *Target) begin(ctx context.Context, tree *spec.Tree, s spec.Sampling) error {
	t.adjuster.now, t.adjuster.next = t.adjuster.next, spec.AdjustmentKinds{}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.prepareTrees(len(tree.Tokens)); err != nil {
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
	if err := t.seq.Flush(); err != nil {
		return err
	}
	t.programs, t.regions = t.programs[:0], t.regions[:0]
	return t.writeDraw(s, spec.StreamTarget, false)
}

// read adds the readback of n rows of a result to the run.
func (t *Target) read(kind rowResults, n int) {
	t.regions = append(t.regions, webgpu.Region{Buffer: t.results.buffer, Offset: kind.view.Offset,
		Dst: t.results.of(kind, n).Bytes()})
}

// Prepare implements spec.Target.
func (t *Target) Prepare(p spec.Programs) error {
	nodes := max(p.Budget.Nodes, 1)
	if err := t.prepareTrees(nodes); err != nil {
		return err
	}
	if p.Pass != spec.PassOutputs || p.Joint && p.Model != nil {
		d, err := t.draftOf(p.Model)
		if err != nil {
			return err
		}
		if err := t.prepareJoint(d, p); err != nil {
			return err
		}
	}
	return t.prepareAdjustments(nodes, p.Adjust)
}

// Verify implements spec.Target, in one submit and one readback. To draft in the same run, the draft has to be on the
// target's device, the tree has to fit one part of a pass, and Prepare has to have compiled all programs.
func (t *Target) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	if r.Tree == nil {
		return t.draftVerify(ctx, &r)
	}
	n := len(r.Tree.Tokens)
	var d *Draft
	var err error
	switch r.Kind {
	case spec.PassChain, spec.PassDivergence:
		d, err = t.checkChain(&r)
	case spec.PassSampled:
		d, err = t.checkSampled(&r)
	}
	if err != nil {
		return nil, err
	}
	if err := t.begin(ctx, r.Tree, r.Sampling); err != nil {
		return nil, err
	}
	if r.Kind == spec.PassSampled {
		if err := t.prepareVerifiers(d, n, n); err != nil {
			return nil, err
		}
		if err := t.planSampled(r.Tree, r.Rows, d); err != nil {
			return nil, err
		}
	}
	t.addPass(&r, d, n)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	return t.decode(&r, n), nil
}

// addPass adds the pass over n nodes and its readbacks to the run. d is the draft that it compares with.
func (t *Target) addPass(r *spec.PassRequest, d *Draft, n int) {
	compares := r.Kind == spec.PassDivergence
	draws := compares || r.Kind == spec.PassOutputs // at every node, whatever the draft
	t.eachPart(n, func(key part, p *partPrograms) {
		t.pass(key, p)
		if draws {
			t.programs = append(t.programs, p.sample)
		}
		// At temperature 0 softmaxes are compared, which need no record.
		if !draws || filters(r.Sampling) || compares && r.Sampling.Temperature > 0 {
			t.programs = append(t.programs, p.filter)
		}
		switch r.Kind {
		case spec.PassChain, spec.PassDivergence:
			t.programs = append(t.programs, t.chains[chainKey{d, n - 1, compares}])
		case spec.PassSampled:
			t.programs = append(t.programs, t.sampled.verifiers[verifierKey{d, key}])
		}
	})
	if draws {
		t.read(t.results.records, n)
	} else {
		t.read(t.results.verdicts, n)
	}
	if !draws || filters(r.Sampling) {
		t.read(t.results.filtered, n)
	}
	if compares {
		t.read(t.results.divergences, n-1)
	}
}

// decode decodes the answer to a pass over n nodes.
func (t *Target) decode(r *spec.PassRequest, n int) *spec.Pass {
	a := &t.answer
	*a = spec.Pass{}
	switch r.Kind {
	case spec.PassChain:
		a.Chain = t.chainVerdicts(n)
	case spec.PassSampled:
		a.Children = t.treeVerdicts(n)
	default:
		a.Outputs = t.decodeOutputs(n, r.Sampling)
	}
	if r.Kind == spec.PassDivergence {
		a.Divergences = t.divergences(n)
	}
	return a
}

// decodeOutputs decodes the outputs of n nodes.
func (t *Target) decodeOutputs(n int, s spec.Sampling) []spec.NodeOutput {
	records, filtered := t.results.of(t.results.records, n), t.results.of(t.results.filtered, n)
	for i := range n {
		out, got := &t.outputs[i], sample.Decode(records, i, t.Options.TopK)
		out.Token, out.LogSumExp, out.Entropy = got.Token, got.LogSumExp, got.Entropy
		out.Threshold = float32(math.Inf(-1))
		if filters(s) {
			record := filtered[kernels.FilterWords*i:]
			out.Token, out.Threshold = int32(record[0]), math.Float32frombits(record[1])
		}
		for k := range out.TopIDs {
			out.TopIDs[k], out.TopLogits[k] = int32(got.IDs[k]), got.Values[k]
		}
		if !got.Finite() {
			out.Token = spec.NoToken
			for k := range out.TopIDs {
				out.TopIDs[k] = spec.NoToken
			}
		}
	}
	return t.outputs[:n]
}

// Commit appends a path of the last verified tree to the sequence.
func (t *Target) Commit(path []int32) error {
	for _, i := range path {
		if i < 0 || int(i) >= len(t.slots) || t.slots[i] == kv.Committed {
			return fmt.Errorf("llama: node %d was committed of a tree of %d", i, len(t.slots))
		}
		t.seq.Commit(t.slots[i], t.nodes[i])
		t.slots[i] = kv.Committed
	}
	t.seq.MarkWritten()
	t.release()
	return nil
}
