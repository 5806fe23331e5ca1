package llama

import (
	"context"
	"fmt"

	"foretoken/models/gguf"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Draft is a model that grows token trees. The levels of a tree run on the
// device one after the other in one submit: the candidates of a level are
// scored, the beams of the next chosen and fed without a word to the host.
type Draft struct {
	*Model
	plans map[int]*plan // by k; each as deep as was asked for so far
	last  *plan         // of the tree that Commit is about
	slots []uint32      // of its beams, level by level, k each

	// For chains sampled token by token: the distributions that VerifyChain judges
	// by stay in work.logits, row by row.
	drawnRecords kernels.View // kernels.Filter's output, one binding alignment a row
	scratch      kernels.View // kernels.Filter's
	chain        []pass
	chainRoot    [2]webgpu.Program
	chainSteps   []webgpu.Program
	sampled      []int32
	back         webgpu.Memory
}

var _ spec.SamplingDraft = (*Draft)(nil)

// LoadDraft loads a model to draft with.
func LoadDraft(ctx context.Context, dev webgpu.Device, f *gguf.File, o Options) (*Draft, error) {
	if o.TopK == 0 {
		o.TopK = 16
	}
	m, err := load(ctx, dev, f, o)
	if err != nil {
		return nil, err
	}
	d := &Draft{Model: m, plans: map[int]*plan{}}
	recorders, keep := d.recordFeeding()
	programs, err := d.build(recorders...)
	if err != nil {
		d.Close()
		return nil, err
	}
	keep(programs)
	return d, nil
}

// Reset empties the sequence.
func (d *Draft) Reset() {
	d.Model.Reset()
	d.last, d.slots, d.sampled = nil, d.slots[:0], d.sampled[:0]
}

// plan is the programs and buffers of trees of up to depth passes after the
// root's, k beams each. It is made once, before the first round that needs it;
// nothing is made while tokens flow.
type plan struct {
	depth, k int
	inputs   webgpu.Buffer
	root     pass // one or two pending tokens
	levels   []pass
	own      []kernels.View // u32 (k): the slots of each level's beams
	results  webgpu.Buffer
	records  []kernels.View // kernels.Sample's output of each pass
	picks    []kernels.View // kernels.Select's, for the next level's beams
	scores   []kernels.View // f32 (k): V of the next level's beams
	spare    []kernels.View
	roots    [2]webgpu.Program
	steps    []webgpu.Program
	back     webgpu.Memory
	tree     []spec.Level
	beams    [][]int32 // of each level that has a next one
	run      []webgpu.Program
}

// Prepare makes the programs for trees of k beams and up to depth passes after the
// root's, so that the first round does not have to.
func (d *Draft) Prepare(depth, k int) error {
	_, err := d.plan(depth, k)
	return err
}

func (d *Draft) plan(depth, k int) (*plan, error) {
	if p, ok := d.plans[k]; ok && p.depth >= depth {
		return p, nil
	}
	if k < 1 || k > d.opts.TopK || k > d.opts.MaxRows {
		return nil, fmt.Errorf("llama: %s: a top-k of %d was asked for; it drafts 1 to %d candidates a beam", d.file, k, min(d.opts.TopK, d.opts.MaxRows))
	}
	if depth < 0 || depth*k > treeSlots-2*spec.MaxPending {
		return nil, fmt.Errorf("llama: %s: a depth of %d with a top-k of %d was asked for; the KV cache has room for %d drafted tokens", d.file, depth, k, treeSlots-2*spec.MaxPending)
	}
	d.preparing(fmt.Sprintf("recording a tree of %d levels by %d", depth+1, k))
	p := &plan{depth: depth, k: k}
	if err := d.layout(p); err != nil {
		return nil, err
	}
	w, lanes := &d.work, d.tuning.lanes
	// candidates records what follows the blocks of a pass: logits of rows
	// [from, n), the k best of each, and the beams of the next level.
	candidates := func(r *kernels.Recorder, b *pass, level, from, n int) {
		d.head(r, from, n, w.logits, 0)
		rows := n - from
		r.Sample(lanes, d.logitRows(rows), k, kernels.LogProbs, w.draw, b.drawn, w.scratch, p.records[level])
		if level == depth {
			return
		}
		next := &p.levels[level]
		s := kernels.Selection{Beams: rows, K: k, Depth: level, MaxDepth: next.stride, Samples: p.records[level],
			Scores: p.scores[max(level-1, 0)], Ancestors: p.levels[max(level-1, 0)].ancestors, Slots: p.own[level],
			NextTokens: next.tokens, NextScores: p.scores[level], NextAncestors: next.ancestors, Out: p.picks[level]}
		if level == 0 { // nothing is read of the views of a level above, but they may not overlap those written
			s.Scores, s.Ancestors = p.spare[0], p.spare[1]
		}
		r.Select(s)
	}
	var recorders []*kernels.Recorder
	for n := 1; n <= 2; n++ {
		r := d.recorder(fmt.Sprintf("draft root %d", n))
		d.forward(r, &p.root, n)
		candidates(r, &p.root, 0, n-1, n)
		recorders = append(recorders, r)
	}
	for level := 1; level <= depth; level++ {
		r := d.recorder(fmt.Sprintf("draft level %d by %d", level, k))
		d.forward(r, &p.levels[level-1], k)
		candidates(r, &p.levels[level-1], level, 0, k)
		recorders = append(recorders, r)
	}
	programs, err := d.build(recorders...)
	if err != nil {
		return nil, err
	}
	p.roots, p.steps = [2]webgpu.Program{programs[0], programs[1]}, programs[2:]
	d.plans[k] = p
	return p, nil
}

// layout makes a plan's buffers.
func (d *Draft) layout(p *plan) error {
	k, depth := p.k, p.depth
	stride := max(depth, 1)
	words := passWords(2, 1) + depth*passWords(k, stride)
	inputs, err := d.storage("draft inputs", 4*words)
	if err != nil {
		return err
	}
	p.inputs = inputs.Buffer
	p.root = newPass(p.inputs, 0, 2, 1)
	at := 4 * passWords(2, 1)
	for range depth {
		p.levels = append(p.levels, newPass(p.inputs, at, k, stride))
		at += 4 * passWords(k, stride)
	}
	own, err := d.storage("draft slots", 4*max(depth, 1)*alignWords(k))
	if err != nil {
		return err
	}
	for level := range depth {
		p.own = append(p.own, kernels.View{Buffer: own.Buffer, Offset: 4 * level * alignWords(k), Size: 4 * k})
	}
	record := alignWords(k * kernels.SampleWords(k))
	pick := alignWords(kernels.SelectWords(k, k))
	results, err := d.storage("draft results", 4*((depth+1)*record+depth*pick))
	if err != nil {
		return err
	}
	p.results, p.back = results.Buffer, webgpu.NewMemory(results.Size)
	scores, err := d.storage("draft scores", 4*(depth+2)*alignWords(max(k, stride)*k))
	if err != nil {
		return err
	}
	for level := range depth + 2 { // the last two are spare
		v := kernels.View{Buffer: scores.Buffer, Offset: 4 * level * alignWords(max(k, stride)*k), Size: 4 * max(k, stride) * k}
		if level < depth {
			p.scores = append(p.scores, v)
		} else {
			p.spare = append(p.spare, v)
		}
	}
	for level := range depth + 1 {
		p.records = append(p.records, kernels.View{Buffer: p.results, Offset: 4 * level * (record + pick), Size: 4 * record})
		if level < depth {
			p.picks = append(p.picks, kernels.View{Buffer: p.results, Offset: 4 * (level*(record+pick) + record), Size: 4 * pick})
		}
		beams := k
		if level == 0 {
			beams = 1
		}
		p.tree = append(p.tree, spec.Level{Candidates: make([]spec.Candidate, beams*k), Entropies: make([]float32, beams)})
		if level < depth {
			p.beams = append(p.beams, make([]int32, k))
		}
	}
	return nil
}

// catchUp feeds all pending tokens but the last two, or all but the last.
func (d *Draft) catchUp(ctx context.Context, pending []int32) ([]int32, error) {
	if len(pending) == 0 || len(pending) > spec.MaxPending {
		return nil, fmt.Errorf("llama: %d pending tokens; want 1 to %d", len(pending), spec.MaxPending)
	}
	if err := d.checkTokens(pending); err != nil {
		return nil, err
	}
	if d.Len()+len(pending) > d.opts.Context {
		return nil, fmt.Errorf("llama: %d tokens after %d do not fit a context of %d", len(pending), d.Len(), d.opts.Context)
	}
	if n := len(pending) - 2; n > 0 {
		if err := d.Prefill(ctx, pending[:n], nil); err != nil {
			return nil, err
		}
		pending = pending[n:]
	}
	return pending, nil
}

// placeRoot commits one or two pending tokens as the rows of a root pass, whose
// last row draws.
func (d *Draft) placeRoot(b *pass, pending []int32) error {
	if err := d.append(b, pending); err != nil {
		return err
	}
	b.words[alignWords(b.capacity)] = uint32(d.Len()) // the only row that draws is the last
	return nil
}

// DraftTree feeds the pending tokens and grows the levels in one submit and one
// readback.
func (d *Draft) DraftTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := d.plan(r.Depth, r.K)
	if err != nil {
		return nil, err
	}
	d.drop()
	pending, err := d.catchUp(ctx, r.Pending)
	if err != nil {
		return nil, err
	}
	if d.Len()+len(pending)+r.Depth > d.opts.Context {
		return nil, fmt.Errorf("llama: %d levels after %d tokens do not fit a context of %d", r.Depth, d.Len()+len(pending), d.opts.Context)
	}
	if err := d.placeRoot(&p.root, pending); err != nil {
		return nil, err
	}
	if err := p.root.write(d.dev, p.inputs); err != nil {
		return nil, err
	}
	if d.slots, err = d.seq.take(r.Depth*r.K, d.slots[:0]); err != nil {
		return nil, err
	}
	d.last = p
	base := d.Len()
	for level := range r.Depth {
		own := d.slots[level*r.K:][:r.K]
		for i, slot := range own { // tokens and ancestors come from Select
			p.levels[level].set(i, 0, base+level, slot, base)
		}
		if err := p.levels[level].write(d.dev, p.inputs); err != nil {
			return nil, err
		}
		if err := d.dev.Write(p.own[level].Buffer, p.own[level].Offset, webgpu.U32Bytes(own)); err != nil {
			return nil, err
		}
	}
	if err := d.writeDraw(r.Sampling, spec.StreamTarget, r.Coupled && r.Sampling.Temperature > 0); err != nil {
		return nil, err
	}
	p.run = append(append(p.run[:0], p.roots[len(pending)-1]), p.steps[:r.Depth]...)
	end := (p.records[r.Depth].Offset + p.records[r.Depth].Size) / 4
	if err := d.run(p.run, webgpu.Region{Buffer: p.results, Dst: p.back[:end].Bytes()}); err != nil {
		return nil, err
	}
	return p.decode(r.Depth), nil
}

// decode turns what came back of depth passes after the root's into levels.
func (p *plan) decode(depth int) []spec.Level {
	for level := range depth + 1 {
		l, words := &p.tree[level], p.back[p.records[level].Offset/4:]
		for beam := range l.Entropies {
			got := kernels.DecodeSample(words, beam, p.k)
			l.Entropies[beam] = got.Entropy
			for i := range p.k {
				l.Candidates[beam*p.k+i] = spec.Candidate{Token: int32(got.IDs[i]), LogQ: got.Values[i], Beam: int32(beam)}
			}
		}
		l.Beams = nil
		if level < depth {
			chosen, _ := kernels.DecodeSelect(p.back[p.picks[level].Offset/4:], len(l.Entropies), p.k)
			for i, c := range chosen {
				p.beams[level][i] = int32(c)
			}
			l.Beams = p.beams[level]
		}
	}
	return p.tree[:depth+1]
}

// drop frees the slots of the last tree.
func (d *Draft) drop() {
	for _, s := range d.slots {
		if s != taken {
			d.seq.give(s)
		}
	}
	d.slots, d.last = d.slots[:0], nil
}

// Commit appends accepted beams to the sequence: beams[level] of the last tree, or
// zeros of the last chain.
func (d *Draft) Commit(beams []int32) error {
	k := 1
	if d.last != nil {
		k = d.last.k
	}
	for level, beam := range beams {
		at := level*k + int(beam)
		if beam < 0 || int(beam) >= k || at >= len(d.slots) || d.slots[at] == taken {
			return fmt.Errorf("llama: beam %d of level %d was committed of a draft of %d levels by %d", beam, level, len(d.slots)/k, k)
		}
		d.seq.commit(d.slots[at])
		d.slots[at] = taken
	}
	d.drop()
	return nil
}

// prepareChain makes the programs that sample chains of up to k tokens.
func (d *Draft) prepareChain(k int) error {
	if k < 1 || k > d.opts.MaxRows-1 {
		return fmt.Errorf("llama: a chain of %d tokens; 1 to %d can be sampled", k, d.opts.MaxRows-1)
	}
	if len(d.chainSteps) >= k-1 && d.chain != nil {
		return nil
	}
	rows, w := d.opts.MaxRows, &d.work
	const recordBytes = webgpu.BindingAlign
	var err error
	if d.drawnRecords, err = d.storage("drawn tokens", rows*recordBytes); err != nil {
		return err
	}
	if d.scratch, err = d.storage("filter scratch", kernels.FilterScratch(1)); err != nil {
		return err
	}
	d.back = webgpu.NewMemory(rows * recordBytes)
	inputs, err := d.storage("chain inputs", 4*(passWords(2, 1)+(rows-2)*passWords(1, rows)))
	if err != nil {
		return err
	}
	d.chain = append(d.chain[:0], newPass(inputs.Buffer, 0, 2, 1))
	for i := range rows - 2 {
		d.chain = append(d.chain, newPass(inputs.Buffer, 4*(passWords(2, 1)+i*passWords(1, rows)), 1, rows))
	}
	record := func(i int) kernels.View {
		return kernels.View{Buffer: d.drawnRecords.Buffer, Offset: i * recordBytes, Size: recordBytes}
	}
	draw := func(r *kernels.Recorder, b *pass, i, from, n int) {
		d.head(r, from, n, w.logits, i)
		row := kernels.Logits{View: kernels.View{Buffer: w.logits.Buffer, Offset: 4 * i * w.stride, Size: 4 * w.stride}, Rows: 1, Vocab: d.opts.Vocab, Stride: w.stride}
		r.Filter(d.tuning.lanes, row, w.draw, b.drawn, d.scratch, record(i))
	}
	var recorders []*kernels.Recorder
	for n := 1; n <= 2; n++ {
		r := d.recorder(fmt.Sprintf("chain root %d", n))
		d.forward(r, &d.chain[0], n)
		draw(r, &d.chain[0], 0, n-1, n)
		recorders = append(recorders, r)
	}
	for i := 1; i < rows-1; i++ {
		r, b := d.recorder(fmt.Sprintf("chain step %d", i)), d.chain[i]
		b.tokens = record(i - 1) // the token drawn is the record's first word
		d.forward(r, &b, 1)
		draw(r, &b, i, 0, 1)
		recorders = append(recorders, r)
	}
	programs, err := d.build(recorders...)
	if err != nil {
		return err
	}
	d.chainRoot, d.chainSteps = [2]webgpu.Program{programs[0], programs[1]}, programs[2:]
	return nil
}

// DraftSampled feeds the pending tokens and draws k tokens, in one submit and one readback.
func (d *Draft) DraftSampled(ctx context.Context, pending []int32, k int, s spec.Sampling) ([]int32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := d.prepareChain(k); err != nil {
		return nil, err
	}
	d.drop()
	pending, err := d.catchUp(ctx, pending)
	if err != nil {
		return nil, err
	}
	if d.Len()+len(pending)+k-1 > d.opts.Context {
		return nil, fmt.Errorf("llama: %d tokens after %d do not fit a context of %d", k, d.Len()+len(pending), d.opts.Context)
	}
	if err := d.placeRoot(&d.chain[0], pending); err != nil {
		return nil, err
	}
	if d.slots, err = d.seq.take(k-1, d.slots[:0]); err != nil {
		return nil, err
	}
	base := d.Len()
	for i := range k {
		if i > 0 {
			d.chain[i].set(0, 0, base+i-1, d.slots[i-1], base, d.slots[:i]...)
		}
		if err := d.chain[i].write(d.dev, d.chain[i].rows.Buffer); err != nil {
			return nil, err
		}
	}
	if err := d.writeDraw(s, spec.StreamDraft, false); err != nil {
		return nil, err
	}
	programs := append([]webgpu.Program{d.chainRoot[len(pending)-1]}, d.chainSteps[:k-1]...)
	const words = webgpu.BindingAlign / 4
	if err := d.run(programs, webgpu.Region{Buffer: d.drawnRecords.Buffer, Dst: d.back[:k*words].Bytes()}); err != nil {
		return nil, err
	}
	d.sampled = d.sampled[:0]
	for i := range k {
		d.sampled = append(d.sampled, int32(d.back[i*words]))
	}
	return d.sampled, nil
}
