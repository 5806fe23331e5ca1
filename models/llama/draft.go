package llama

import (
	"context"
	"fmt"

	"foretoken/models/gguf"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Draft is a model that drafts: it grows token trees (draft_tree.go) and draws
// chains (draft_chain.go) and trees (draft_sampled.go) from its own distribution.
// Whatever has been drafted and not committed lies in slots that Commit or the next
// draft gives back.
type Draft struct {
	*Model
	net network

	rootPass  pass              // one or two pending tokens
	rootFeed  [2]webgpu.Program // their blocks, and the logits of the last
	hostPass  pass              // rows that the host chose, for any level
	hostFeed  []webgpu.Program  // their blocks and logits, by bucket; made at first use
	plans     map[int]*plan     // by k
	tree      growth            // the last tree; without a plan there is none
	slots     []uint32          // of the last draft's consumed tokens, in feeding order
	own       []uint32          // scratch of placeLevel
	programs  []webgpu.Program  // of the run being put together
	early     webgpu.Program    // runs before it: committed tokens that are staged; 0: none
	regions   []webgpu.Region   // likewise
	head      *estimator        // the acceptance head; nil without one
	estimator *estimator        // the same where it is in use
	hidden    []webgpu.Program  // of Hidden, by bucket; nil until the first use
	pruner    pruner            // C2T's classifier
	kept      keptRows          // distributions of a tree drawn without replacement

	// For chains drawn token by token: the distributions that a target judges by stay
	// in work.logits, row by row.
	drawnRecords kernels.View // kernels.Filter's output, one binding alignment a row
	chain        chain
	sampled      []spec.Drawn // the last chain; empty after any other draft
}

// network is what a pass computes, apart from how trees are grown from it: a model's
// own blocks and output matrix, or something else that proposes tokens.
type network interface {
	// forward records the blocks of a pass of n rows.
	forward(r *kernels.Recorder, p *pass, n int)
	// normalise records what follows them: the final hidden states of all rows in work.norm.
	normalise(r *kernels.Recorder, n int)
	// head records that, and the logits of rows [from, n) in rows [to, …) of a logits view.
	head(r *kernels.Recorder, from, n int, logits kernels.View, to int)
}

var (
	_ network            = (*Model)(nil)
	_ spec.SamplingDraft = (*Draft)(nil)
	_ spec.TreeSampler   = (*Draft)(nil)
	_ spec.Pruner        = (*Draft)(nil)
	_ spec.Shaper        = (*Draft)(nil)
	_ spec.Keeper        = (*Draft)(nil)
)

// LoadDraft loads a model to draft with.
func LoadDraft(ctx context.Context, dev webgpu.Device, f *gguf.File, o Options) (*Draft, error) {
	o.draft()
	m, err := load(ctx, dev, f, o, planDraft)
	if err != nil {
		return nil, err
	}
	d := newDraft(m, m)
	if err := d.record(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// newDraft is a draft whose passes are those of net, in the workspace and the KV cache of m.
func newDraft(m *Model, net network) *Draft {
	m.opts.TopK = min(m.opts.TopK, m.opts.MaxRows) // a beam is a row of a pass
	return &Draft{Model: m, net: net, plans: map[int]*plan{}}
}

// draft completes what a draft's options leave open.
func (o *Options) draft() {
	if o.TopK == 0 {
		o.TopK = 16
	}
}

// layInputs makes the buffers that every draft has beside its model's.
func (d *Draft) layInputs() error {
	inputs, err := d.storage("draft inputs", 4*(passWords(2, 1)+passWords(d.hostRows(), maxPasses)))
	if err != nil {
		return err
	}
	d.rootPass = newPass(&d.seq, inputs.Buffer, 0, 2, 1)
	d.hostPass = newPass(&d.seq, inputs.Buffer, 4*passWords(2, 1), d.hostRows(), maxPasses)
	return nil
}

// record makes the programs that every draft begins with.
func (d *Draft) record() error {
	if err := d.layInputs(); err != nil {
		return err
	}
	if d.opts.Lean {
		return nil
	}
	return d.makeFeeding()
}

// Warm makes the programs that a lean load left out; nothing else may be asked of the draft before.
func (d *Draft) Warm() error {
	if !d.opts.Lean {
		return nil
	}
	err := d.makeFeeding()
	d.opts.Lean = err != nil
	return err
}

// makeFeeding makes the programs of Prefill and of the root's pass.
func (d *Draft) makeFeeding() error {
	d.hostFeed = make([]webgpu.Program, bucket(d.opts.TopK)+1)
	recorders, keep := d.recordFeeding(d.net.forward)
	for n := 1; n <= 2; n++ {
		r := d.recorder(fmt.Sprintf("draft root %d", n))
		d.net.forward(r, &d.rootPass, n)
		d.net.head(r, n-1, n, d.work.logits, 0)
		recorders = append(recorders, r)
	}
	programs, err := d.build(recorders...)
	if err != nil {
		return err
	}
	keep(programs[:len(programs)-2])
	d.rootFeed = [2]webgpu.Program(programs[len(programs)-2:])
	return nil
}

// hostRows is how many rows a pass of beams that the host chose has at most.
func (d *Draft) hostRows() int { return buckets[bucket(d.opts.TopK)] }

// Reset empties the sequence.
func (d *Draft) Reset() {
	d.Model.Reset()
	d.slots, d.early = d.slots[:0], 0
	d.forget()
}

// Keep cuts the sequence to the longest prefix that tokens begin with.
func (d *Draft) Keep(tokens []int32) int {
	d.drop()
	d.early = 0
	return d.seq.keep(tokens)
}

// forget ends the last draft, whose slots are free already.
func (d *Draft) forget() {
	d.tree.plan, d.sampled = nil, d.sampled[:0]
}

// drop ends the last draft and frees its slots.
func (d *Draft) drop() {
	for _, s := range d.slots {
		if s != taken {
			d.seq.give(s)
		}
	}
	d.slots = d.slots[:0]
	d.forget()
}

// stage has the next run begin with tokens that are committed by it; of more than one pass holds,
// they run at once.
func (d *Draft) stage(ctx context.Context, tokens []int32, progress func(done int)) error {
	if len(tokens) == 0 {
		return nil
	}
	if d.early != 0 {
		if err := d.run([]webgpu.Program{d.early}); err != nil {
			return err
		}
		d.early = 0
	}
	if len(tokens) > d.prefillRows() {
		return d.Prefill(ctx, tokens, progress)
	}
	var err error
	d.early, err = d.placeFeed(tokens)
	return err
}

// begin ends the last draft and puts the beginning of a run together, which feeds the pending
// tokens to the cache, all but those of the root's pass, which is written. The committed tokens and
// passes more must fit the context. It returns how many rows the root's pass has.
func (d *Draft) begin(ctx context.Context, pending []int32, passes int) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	d.drop()
	if len(pending) == 0 || len(pending) > spec.MaxPending {
		return 0, fmt.Errorf("llama: %d pending tokens; want 1 to %d", len(pending), spec.MaxPending)
	}
	if err := d.checkTokens(pending); err != nil {
		return 0, err
	}
	if err := d.checkContext(d.Len()+len(pending), passes); err != nil {
		return 0, err
	}
	if n := len(pending) - 2; n > 0 {
		if err := d.stage(ctx, pending[:n], nil); err != nil {
			return 0, err
		}
		pending = pending[n:]
	}
	d.programs = d.programs[:0]
	if d.early != 0 {
		d.programs, d.early = append(d.programs, d.early), 0
	}
	b := &d.rootPass
	if err := d.append(b, pending); err != nil {
		return 0, err
	}
	b.words[alignWords(b.capacity)] = uint32(d.Len()) // the only row that draws is the last
	return len(pending), b.write(d.dev, b.tokens.Buffer)
}

// checkContext refuses passes after n committed tokens that the context has no room for.
func (d *Draft) checkContext(n, passes int) error {
	if n+passes > d.opts.Context {
		return fmt.Errorf("llama: %d drafted tokens after %d do not fit a context of %d", passes, n, d.opts.Context)
	}
	return nil
}

// Commit appends accepted tokens to the sequence: beams[level] among those of
// the level of the last tree, each proposed by the one before, or zeros of the last chain.
func (d *Draft) Commit(beams []int32) error {
	accepted := make([]int, 0, maxPasses)
	for level, beam := range beams {
		at := level
		if d.tree.plan != nil {
			var err error
			if at, err = d.tree.slotOf(beams[:level+1]); err != nil {
				return err
			}
		} else if beam != 0 || at >= len(d.slots) {
			return fmt.Errorf("llama: beam %d of level %d was committed of a chain of which %d tokens were consumed", beam, level, len(d.slots))
		}
		accepted = append(accepted, at)
	}
	for level, at := range accepted {
		d.seq.commit(d.slots[at], d.drafted(level, beams[level]))
		d.slots[at] = taken
	}
	d.seq.ran()
	d.drop()
	return nil
}

// drafted is the token of a beam of a level of the last tree, or of the last chain.
func (d *Draft) drafted(level int, beam int32) int32 {
	if d.tree.plan == nil {
		return d.sampled[level].Token
	}
	l := &d.tree.levels[level]
	return l.Candidates[l.Beams[beam]].Token
}

// result is a range of device memory and the host's copy of it, in words.
type result struct {
	buffer    webgpu.Buffer
	back      webgpu.Memory // of the whole buffer
	at, words int
}

// newResults makes a buffer of ranges of the given words, each aligned as bindings are.
func (d *Draft) newResults(label string, words ...int) ([]result, error) {
	total := 0
	for _, n := range words {
		total += alignWords(n)
	}
	v, err := d.storage(label, 4*total)
	if err != nil {
		return nil, err
	}
	back := webgpu.NewMemory(4 * total)
	var all []result
	at := 0
	for _, n := range words {
		all = append(all, result{buffer: v.Buffer, back: back, at: at, words: alignWords(n)})
		at += alignWords(n)
	}
	return all, nil
}

// view is the part of the range that begins at word at, a multiple of a binding's alignment.
func (r *result) view(at, words int) kernels.View {
	return kernels.View{Buffer: r.buffer, Offset: 4 * (r.at + at), Size: 4 * words}
}

// memory is what came back of the range.
func (r *result) memory() webgpu.Memory { return r.back[r.at : r.at+r.words] }

// read adds the range to those to be brought back, as one with the last where it follows it.
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
