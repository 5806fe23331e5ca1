package llama

import (
	"context"
	"fmt"

	"foretoken/models/gguf"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Target is a model that verifies token trees.
type Target struct {
	*Model
	verify []webgpu.Program // blocks and logits of every row, for each bucket
	sample []webgpu.Program // what Verify returns of each row
	filter []webgpu.Program // thresholds and draws where there are filters
	chains map[chainKey]webgpu.Program

	records, filtered kernels.View // in results: kernels.Sample's and kernels.Filter's output
	verdicts          kernels.View // kernels.Reject's
	scratch           kernels.View // kernels.Filter's

	outputs []spec.NodeOutput
	back    webgpu.Memory // what came back
	slots   []uint32      // of the last tree's nodes
}

var _ spec.RejectionTarget = (*Target)(nil)

// LoadTarget loads a model to verify with.
func LoadTarget(ctx context.Context, dev webgpu.Device, f *gguf.File, o Options) (*Target, error) {
	m, err := load(ctx, dev, f, o)
	if err != nil {
		return nil, err
	}
	t := &Target{Model: m, chains: map[chainKey]webgpu.Program{}}
	if err := t.record(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// record lays the results out and makes the programs.
func (t *Target) record() error {
	rows, words := t.opts.MaxRows, kernels.SampleWords(t.opts.TopK)
	results := [3]int{alignWords(rows * words), alignWords(rows * kernels.FilterWords), alignWords(rows * kernels.RejectWords)}
	all, err := t.storage("results", 4*(results[0]+results[1]+results[2]))
	if err != nil {
		return err
	}
	at := 0
	for i, v := range []*kernels.View{&t.records, &t.filtered, &t.verdicts} {
		*v = kernels.View{Buffer: all.Buffer, Offset: 4 * at, Size: 4 * results[i]}
		at += results[i]
	}
	if t.scratch, err = t.storage("filter scratch", kernels.FilterScratch(rows)); err != nil {
		return err
	}
	t.back = webgpu.NewMemory(4 * at)
	t.outputs = make([]spec.NodeOutput, rows)
	for i := range t.outputs {
		t.outputs[i] = spec.NodeOutput{TopIDs: make([]int32, t.opts.TopK), TopLogits: make([]float32, t.opts.TopK)}
	}
	recorders, keep := t.recordFeeding()
	programs, err := t.build(recorders...)
	if err != nil {
		return err
	}
	keep(programs)
	return t.Prepare(min(defaultRows, rows))
}

// defaultRows is the largest tree that Load prepares for.
const defaultRows = 16

// Prepare makes the programs for trees of up to rows nodes, so that the first
// round does not have to.
func (t *Target) Prepare(rows int) error {
	if rows > t.opts.MaxRows {
		return fmt.Errorf("llama: a tree of %d nodes; at most %d can be verified", rows, t.opts.MaxRows)
	}
	var recorders []*kernels.Recorder
	add := func(label string, record func(r *kernels.Recorder)) {
		r := t.recorder(label)
		record(r)
		recorders = append(recorders, r)
	}
	for i := len(t.verify); i <= bucket(rows); i++ {
		n := buckets[i]
		logits, batch, w := t.logitRows(n), &t.feeding.batch, &t.work
		add(fmt.Sprintf("verify %d", n), func(r *kernels.Recorder) {
			t.forward(r, batch, n)
			t.head(r, 0, n, w.logits, 0)
		})
		add(fmt.Sprintf("sample %d", n), func(r *kernels.Recorder) {
			r.Sample(t.tuning.lanes, logits, t.opts.TopK, kernels.RawLogits, w.draw, batch.drawn, w.scratch, t.records)
		})
		add(fmt.Sprintf("filter %d", n), func(r *kernels.Recorder) {
			r.Filter(t.tuning.lanes, logits, w.draw, batch.drawn, t.scratch, t.filtered)
		})
	}
	if len(recorders) == 0 {
		return nil
	}
	t.preparing(fmt.Sprintf("compiling for trees of %d nodes", rows))
	programs, err := t.build(recorders...)
	if err != nil {
		return err
	}
	for p := programs; len(p) > 0; p = p[3:] {
		t.verify, t.sample, t.filter = append(t.verify, p[0]), append(t.sample, p[1]), append(t.filter, p[2])
	}
	return nil
}

// Reset empties the sequence.
func (t *Target) Reset() {
	t.Model.Reset()
	t.slots = t.slots[:0]
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
	var path [64]uint32
	for i, token := range tree.Tokens {
		depth := int(tree.Depths[i])
		if base+depth >= t.opts.Context {
			t.release()
			return fmt.Errorf("llama: position %d does not fit a context of %d", base+depth, t.opts.Context)
		}
		for j, d := int32(i), depth; j >= 0; j, d = tree.Parents[j], d-1 {
			path[d] = t.slots[j]
		}
		t.feeding.batch.set(i, token, base+depth, t.slots[i], base, path[:depth+1]...)
	}
	t.feeding.batch.pad(n, buckets[bucket(n)], t.work.trash)
	return t.feeding.batch.write(t.dev, t.work.inputs.Buffer)
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

// Verify runs a tree in one submit and one readback.
func (t *Target) Verify(ctx context.Context, tree *spec.Tree, s spec.Sampling) ([]spec.NodeOutput, error) {
	if err := t.begin(ctx, tree, s); err != nil {
		return nil, err
	}
	n := len(tree.Tokens)
	at := bucket(n)
	programs := []webgpu.Program{t.verify[at], t.sample[at]}
	read := kernels.SampleWords(t.opts.TopK) * n
	if filters(s) {
		programs = append(programs, t.filter[at])
		read = t.filtered.Offset/4 + kernels.FilterWords*n
	}
	if err := t.run(programs, webgpu.Region{Buffer: t.records.Buffer, Dst: t.back[:read].Bytes()}); err != nil {
		return nil, err
	}
	for i := range n {
		out, got := &t.outputs[i], kernels.DecodeSample(t.back, i, t.opts.TopK)
		out.Token, out.LogSumExp, out.Entropy = got.Token, got.LogSumExp, got.Entropy
		if filters(s) {
			out.Token = int32(t.back[t.filtered.Offset/4+kernels.FilterWords*i])
		}
		for k := range out.TopIDs {
			out.TopIDs[k], out.TopLogits[k] = int32(got.IDs[k]), got.Values[k]
		}
	}
	return t.outputs[:n], nil
}

// begin places a tree and says how to draw from it.
func (t *Target) begin(ctx context.Context, tree *spec.Tree, s spec.Sampling) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.Prepare(len(tree.Tokens)); err != nil {
		return err
	}
	if err := t.place(tree); err != nil {
		return err
	}
	if err := t.seq.flush(t.dev, t.work.table); err != nil {
		return err
	}
	return t.writeDraw(s, spec.StreamTarget, false)
}

// chainKey is a chain program: of k drafted tokens whose distributions a draft holds.
type chainKey struct {
	draft *Draft
	k     int
}

// VerifyChain runs a chain that draft sampled and judges it by the rejection rule, in one
// submit and one readback. The draft must be on the same device.
func (t *Target) VerifyChain(ctx context.Context, chain *spec.Tree, draft spec.SamplingDraft, s spec.Sampling) ([]spec.ChainVerdict, error) {
	d, ok := draft.(*Draft)
	if !ok || d.dev != t.dev || d.opts.Vocab != t.opts.Vocab {
		return nil, fmt.Errorf("llama: rejection sampling needs a draft of the same vocabulary on the target's device")
	}
	k := len(chain.Tokens) - 1
	if k < 1 || k > len(d.sampled) {
		return nil, fmt.Errorf("llama: a chain of %d tokens; the draft sampled %d", k, len(d.sampled))
	}
	for i, token := range chain.Tokens[1:] {
		if token != d.sampled[i] || chain.Parents[i+1] != int32(i) {
			return nil, fmt.Errorf("llama: the chain to verify is not the one that the draft sampled last")
		}
	}
	program, err := t.chainProgram(chainKey{d, k})
	if err != nil {
		return nil, err
	}
	if err := t.begin(ctx, chain, s); err != nil {
		return nil, err
	}
	words := t.back[:kernels.RejectWords*(k+1)]
	programs := []webgpu.Program{t.verify[bucket(k+1)], program}
	if err := t.run(programs, webgpu.Region{Buffer: t.verdicts.Buffer, Offset: t.verdicts.Offset, Dst: words.Bytes()}); err != nil {
		return nil, err
	}
	verdicts := make([]spec.ChainVerdict, k+1)
	for i := range verdicts {
		verdicts[i] = spec.ChainVerdict{Accepted: words[2*i] == 1, Token: int32(words[2*i+1])}
	}
	return verdicts, nil
}

// chainProgram is the program that judges a chain, made at first use.
func (t *Target) chainProgram(key chainKey) (webgpu.Program, error) {
	if p, ok := t.chains[key]; ok {
		return p, nil
	}
	r, rows, drawn := t.recorder(fmt.Sprintf("reject %d", key.k)), t.logitRows(key.k+1), t.feeding.batch.drawn
	r.Filter(t.tuning.lanes, rows, t.work.draw, drawn, t.scratch, t.filtered)
	r.Reject(t.tuning.lanes, kernels.Rejection{Target: rows, Draft: key.draft.logitRows(key.k), TargetRecord: t.filtered,
		DraftRecord: key.draft.drawnRecords, DraftStride: webgpu.BindingAlign / 4, Draw: t.work.draw, Positions: drawn, Out: t.verdicts})
	p, err := t.build(r)
	if err != nil {
		return 0, err
	}
	t.chains[key] = p[0]
	return p[0], nil
}

// Commit appends a path of the last verified tree to the sequence.
func (t *Target) Commit(path []int32) error {
	for _, i := range path {
		if i < 0 || int(i) >= len(t.slots) || t.slots[i] == taken {
			return fmt.Errorf("llama: node %d was committed of a tree of %d", i, len(t.slots))
		}
		t.seq.commit(t.slots[i])
		t.slots[i] = taken
	}
	t.release()
	return nil
}

// taken marks a slot that is no longer the tree's.
const taken = ^uint32(0)
