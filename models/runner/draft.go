package runner

import (
	"cmp"
	"context"
	"fmt"

	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Draft is a draft model, or an EAGLE-3 head (pairs.go). It grows token trees (trees.go) and draws chains (chain.go)
// from its own distribution. Drafted tokens occupy KV slots until Commit or the next draft frees them.
type Draft struct {
	*decoder
	pairs *pairs // of a head; nil for a draft model
	trees trees
	chain chains

	rootPass    kv.Pass           // one or two pending tokens
	rootForward [2]webgpu.Program // runs their blocks and the logits of the last
	// estimators are acceptance heads, by their number of layers, and estimator is the one in use; nil: none.
	estimators [spec.MostEstimatorLayers + 1]*estimator
	estimator  *estimator

	slots    []uint32         // slots of the tokens the last draft consumed, in the order of the passes
	programs []webgpu.Program // of the run under construction
	regions  []webgpu.Region  // its readbacks
	staged   webgpu.Program   // program that consumes the staged tokens, first in the next run; 0: none
}

var _ spec.DraftModel = (*Draft)(nil)

// LoadDraft loads a draft model.
func LoadDraft(ctx context.Context, dev webgpu.Device, f *gguf.File, o graph.Options) (*Draft, error) {
	if err := completeDraft(&o); err != nil {
		return nil, err
	}
	m, err := load(ctx, dev, f, o, PlanDraft)
	if err != nil {
		return nil, err
	}
	d := newDraft(m)
	if err := d.record(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// newDraft returns a draft that runs a model.
func newDraft(m *decoder) *Draft {
	m.Graph.Options.TopK = min(m.Graph.Options.TopK, m.Graph.Options.MaxRows) // each beam is a row of a pass
	d := &Draft{decoder: m, trees: trees{programs: map[int]*treePrograms{}}}
	d.Replace(d)
	return d
}

// Replace puts another draft in the place of d, at the same address. by is not to be used afterwards.
func (d *Draft) Replace(by *Draft) {
	*d = *by
	d.trees.draft, d.chain.draft = d, d
	if d.pairs != nil {
		d.pairs.draft = d
	}
}

// completeDraft sets the defaults of a draft's options and checks its limits.
func completeDraft(o *graph.Options) error {
	if o.MaxRows > graph.OnePassRows {
		return fmt.Errorf("runner: %d rows a pass of a draft; want 1 to %d", o.MaxRows, graph.OnePassRows)
	}
	o.TopK = cmp.Or(o.TopK, 16)
	return nil
}

// allocateInputs makes the buffers that a draft needs in addition to its model's.
func (d *Draft) allocateInputs() error {
	rows := d.trees.hostRows()
	inputs, err := d.Graph.Buffer("draft inputs", 4*(kv.PassWords(2, 1)+kv.PassWords(rows, maxPasses)))
	if err != nil {
		return err
	}
	d.rootPass = kv.NewPass(d.seq, inputs.Buffer, 0, 2, 1)
	d.rootPass.Committed = true
	d.trees.hostPass = kv.NewPass(d.seq, inputs.Buffer, 4*kv.PassWords(2, 1), rows, maxPasses)
	return nil
}

// record compiles the programs that every draft needs.
func (d *Draft) record() error {
	if err := d.allocateInputs(); err != nil {
		return err
	}
	d.Graph.Single = d.Graph.Options.FastStart && !d.Graph.Dev.Info().Host()
	defer func() { d.Graph.Single = false }()
	return d.makePrefill()
}

// Warm compiles the programs that a fast start left out.
func (d *Draft) Warm() error {
	if !d.Graph.Options.FastStart {
		return nil
	}
	d.Graph.Options.FastStart = false
	err := d.makePrefill()
	d.Graph.Options.FastStart = err != nil
	return err
}

// makePrefill compiles the programs of Prefill and of the root's pass.
func (d *Draft) makePrefill() error {
	d.trees.hostForward = make([]webgpu.Program, kv.Bucket(d.Graph.Options.TopK)+1)
	b := &graph.Batch{}
	d.recordPrefill(b)
	for n := 1; n <= 2; n++ {
		r := d.Graph.Recorder(fmt.Sprintf("draft root %d", n))
		d.Graph.Forward(r, &d.rootPass, n)
		d.Graph.Head(r, n-1, n, 0)
		b.Add(r, &d.rootForward[n-1])
	}
	return d.Graph.Build(b)
}

// Prepare implements spec.DraftModel.
func (d *Draft) Prepare(p spec.Programs) error {
	if err := d.estimate(p.Estimator); err != nil {
		return err
	}
	switch p.Draft {
	case spec.DraftNothing:
		return nil
	case spec.DraftChain:
		return d.chain.prepare(p.Budget.Levels)
	}
	for _, k := range p.Widths {
		var err error
		switch p.Draft {
		case spec.DraftExpanded:
			err = d.trees.prepareExpanded(p.Depth, k)
		case spec.DraftPruned:
			err = d.trees.preparePruned(p.Depth, k, p.Classifier)
		case spec.DraftDrawn:
			err = d.trees.prepareDrawn(p.Depth, k)
		default:
			_, err = d.trees.programsFor(p.Depth, k)
		}
		if err == nil && p.EntropyTop > 0 {
			err = d.trees.prepareTop(d.trees.programs[k], p.EntropyTop)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Reset empties the sequence.
func (d *Draft) Reset() {
	d.resetCache()
	if d.pairs != nil {
		d.pairs.reset()
	}
}

// resetCache empties the KV cache.
func (d *Draft) resetCache() {
	d.seq.Reset()
	d.slots, d.staged = d.slots[:0], 0
	d.clear()
}

// ReusePrefix truncates the sequence to its longest common prefix with tokens and returns the length; of a head, to
// that with pairs in the cache.
func (d *Draft) ReusePrefix(tokens []int32) int {
	if d.pairs != nil {
		return d.pairs.reusePrefix(tokens)
	}
	return d.reuseCache(tokens)
}

// reuseCache truncates the KV cache to its longest common prefix with tokens and returns the length.
func (d *Draft) reuseCache(tokens []int32) int {
	d.release()
	d.staged = 0
	return d.seq.ReusePrefix(tokens)
}

// Len returns the number of committed tokens.
func (d *Draft) Len() int {
	if d.pairs != nil {
		return d.pairs.length
	}
	return d.seq.Len()
}

// Prefill appends tokens to the sequence in chunks. A head consumes those whose features its target has computed, and
// the others with the next draft.
func (d *Draft) Prefill(ctx context.Context, tokens []int32) error {
	if d.pairs != nil {
		return d.pairs.prefill(ctx, tokens)
	}
	return d.decoder.Prefill(ctx, tokens)
}

// clear discards the last draft, whose slots are already free.
func (d *Draft) clear() {
	d.trees.last.programs, d.chain.sampled = nil, d.chain.sampled[:0]
}

// release discards the last draft and frees its slots.
func (d *Draft) release() {
	d.slots = d.seq.Release(d.slots)
	d.clear()
}

// stage commits tokens and has the next run consume them first. More tokens than fit in one pass run immediately.
func (d *Draft) stage(ctx context.Context, tokens []int32) error {
	if len(tokens) == 0 {
		return nil
	}
	if d.staged != 0 {
		if err := d.run([]webgpu.Program{d.staged}); err != nil {
			return err
		}
		d.staged = 0
	}
	if len(tokens) > d.Graph.PrefillRows() {
		return d.decoder.Prefill(ctx, tokens)
	}
	var err error
	d.staged, err = d.placeChunk(tokens)
	return err
}

// begin discards the last draft and starts a run that consumes the pending tokens: the last one or two in the
// root's pass, which it writes, and those before them in a prefill pass. Together with passes further tokens they
// must fit in the context. It returns the number of rows of the root's pass.
func (d *Draft) begin(ctx context.Context, pending []int32, passes int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	d.release()
	if err := d.checkPending(pending); err != nil {
		return 0, err
	}
	if d.pairs != nil {
		var err error
		if pending, err = d.pairs.feed(ctx, pending); err != nil {
			return 0, err
		}
	}
	if err := d.checkContext(d.seq.Len()+len(pending), passes); err != nil {
		return 0, err
	}
	if n := len(pending) - 2; n > 0 {
		if err := d.stage(ctx, pending[:n]); err != nil {
			return 0, err
		}
		pending = pending[n:]
	}
	d.programs = d.programs[:0]
	if d.staged != 0 {
		d.programs, d.staged = append(d.programs, d.staged), 0
	}
	b := &d.rootPass
	if err := b.Append(pending); err != nil {
		return 0, err
	}
	b.SetDrawn(0, uint32(d.seq.Len())) // only the last row draws
	return len(pending), b.Write(b.Capacity())
}

// checkPending returns an error if the tokens cannot begin a draft.
func (d *Draft) checkPending(pending []int32) error {
	if len(pending) == 0 || len(pending) > spec.MaxPending {
		return fmt.Errorf("runner: %d pending tokens; want 1 to %d", len(pending), spec.MaxPending)
	}
	return d.checkTokens(pending)
}

// checkContext returns an error if n committed tokens and passes drafted ones do not fit in the context.
func (d *Draft) checkContext(n, passes int) error {
	if most := d.Graph.Options.Context; n+passes > most {
		return fmt.Errorf("runner: %d drafted tokens after %d do not fit a context of %d", passes, n, most)
	}
	return nil
}

// Draft implements spec.DraftModel, in one submit and one readback. A tree drawn without replacement has at most 128
// rows including the root's, and fewer on a device whose bindings hold fewer rows of logits.
func (d *Draft) Draft(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	if r.Classifier != nil {
		return d.trees.draftPruned(ctx, &r)
	}
	return d.trees.draftLevels(ctx, &r)
}

// Extend implements spec.DraftModel, in one submit and one readback.
func (d *Draft) Extend(ctx context.Context, e spec.Extension) ([]spec.Level, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return d.trees.extend(e)
}

// Sample implements spec.DraftModel, in one submit and one readback.
func (d *Draft) Sample(ctx context.Context, r spec.SampleRequest) ([]spec.Drawn, error) {
	return d.chain.sample(ctx, r)
}

// Commit appends accepted tokens to the sequence. In a tree, beams[level] indexes the beams of that level, each
// proposed by the one before; in a chain every entry is 0. The pairs of a head's tokens run with the next draft, when
// the target has their features.
func (d *Draft) Commit(beams []int32) error {
	accepted := make([]int, 0, maxPasses)
	for level := range beams {
		at, err := d.slotOf(beams[:level+1])
		if err != nil {
			return err
		}
		accepted = append(accepted, at)
	}
	for level, at := range accepted {
		token := d.draftedToken(level, beams[level])
		if d.pairs != nil {
			d.pairs.commit(token)
			continue
		}
		d.seq.Commit(d.slots[at], token)
		d.slots[at] = kv.Committed
	}
	if d.pairs == nil {
		d.seq.MarkWritten()
	}
	d.release()
	return nil
}

// slotOf returns the index in slots of the last beam of a path of the last tree or chain.
func (d *Draft) slotOf(path []int32) (int, error) {
	if d.trees.last.programs != nil {
		return d.trees.last.slotOf(path)
	}
	level := len(path) - 1
	if beam := path[level]; beam != 0 || level >= len(d.slots) {
		return 0, fmt.Errorf("runner: committing beam %d of level %d of a chain of %d consumed tokens", beam, level,
			len(d.slots))
	}
	return level, nil
}

// draftedToken returns the token of a beam at a level of the last tree, or of the last chain.
func (d *Draft) draftedToken(level int, beam int32) int32 {
	if d.trees.last.programs == nil {
		return d.chain.sampled[level].Token
	}
	l := &d.trees.last.levels[level]
	return l.Candidates[l.Beams[beam]].Token
}

// notFinite returns an error that names the position after which the draft's logits are not finite.
func (d *Draft) notFinite(position int) error {
	return fmt.Errorf("runner: %s: the draft's logits after position %d are not finite: its weights overflow; use "+
		"another draft, or none", d.Graph.File, position)
}

// result is a range of a device buffer and its host copy, in words.
type result struct {
	buffer    webgpu.Buffer
	back      webgpu.Memory // of the complete buffer
	at, words int
}

// newResults allocates one buffer for ranges of the given sizes in words, each aligned for binding.
func newResults(g *graph.Graph, label string, words ...int) ([]result, error) {
	total := 0
	for _, n := range words {
		total += webgpu.AlignWords(n)
	}
	v, err := g.Buffer(label, 4*total)
	if err != nil {
		return nil, err
	}
	back := webgpu.NewMemory(4 * total)
	var all []result
	at := 0
	for _, n := range words {
		all = append(all, result{buffer: v.Buffer, back: back, at: at, words: webgpu.AlignWords(n)})
		at += webgpu.AlignWords(n)
	}
	return all, nil
}

// view returns the part of the range from word at on; at is a multiple of the binding alignment.
func (r *result) view(at, words int) kernels.View {
	return kernels.View{Buffer: r.buffer, Offset: 4 * (r.at + at), Size: 4 * words}
}

// memory returns the host copy of the range.
func (r *result) memory() webgpu.Memory { return r.back[r.at : r.at+r.words] }

// read adds the range to regions, merged with the last region if it is adjacent.
func (r *result) read(regions []webgpu.Region) []webgpu.Region {
	if n := len(regions) - 1; n >= 0 {
		last := &regions[n]
		if first := last.Offset / 4; last.Buffer == r.buffer && first+len(last.Dst)/4 == r.at {
			last.Dst = r.back[first : r.at+r.words].Bytes()
			return regions
		}
	}
	return append(regions, webgpu.Region{Buffer: r.buffer, Offset: 4 * r.at, Dst: r.memory().Bytes()})
}
