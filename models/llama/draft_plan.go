package llama

import (
	"fmt"
	"slices"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// maxPasses is how many passes after the root's a tree is grown by at most: the
// length of the list of drafted ancestors that a row has.
const maxPasses = 64

// plan is the programs and buffers of trees of k candidates a beam. It is made, and
// made deeper, before the first round that needs it; nothing is made while tokens flow.
//
// A level's beams are chosen on the device when DraftTree and Grow run several levels
// in one submit, and fed through the level's own pass. Beams that the host chose go
// through the draft's one host pass, whatever the level, and come back in host.
//
// The results of the root and of all levels that there may be lie one after the other, at equal
// distances, so that they come back as one range and a target can find its nodes in them.
type plan struct {
	k      int
	root   proposal // of the root
	levels []planLevel
	room   planRoom
	spare  [2]kernels.View // for what the first selection has no use for
	host   []proposal      // of a host pass, by bucket; made at first use
}

// planRoom is the memory of the levels of a plan, those to come included.
type planRoom struct {
	inputs              webgpu.Buffer // of passes
	own, scores, result []result      // result[0] is the root's
	places              []result      // kernels.Keep's, of levels drawn without replacement; nil until the first use
}

// proposal is what is taken from a pass's logits: k candidates of each row.
type proposal struct {
	result    result
	rows      int
	at        int            // word of the result where the candidates are
	estimates int            // word of the result where the acceptance head's are, (rows) f32
	rank      webgpu.Program // the best candidates
	draw      webgpu.Program // those drawn without replacement; made at first use
	accept    webgpu.Program // the acceptance head; 0 without one
}

// planLevel is a level after the root's.
type planLevel struct {
	pass   pass
	own    kernels.View   // u32 (2k): the slots of the beams, and which candidates they are to be; see kernels.Selection
	scores kernels.View   // f32 (k): their V
	out    proposal       // after kernels.Select's output, which its result begins with
	choose webgpu.Program // the best k of the level above become this one's beams
	prune  webgpu.Program // or those that a classifier leaves; made by PreparePruned
	feed   webgpu.Program // their blocks and logits
	keep   webgpu.Program // the distributions that children are drawn from stay; made at first use
}

// Prepare makes the programs for trees of k candidates a beam and up to depth passes
// after the root's, by DraftTree and Grow, so that the first round does not have to.
func (d *Draft) Prepare(depth, k int) error {
	_, err := d.plan(depth, k)
	return err
}

// PrepareGrowth is Prepare, and where expand is set it makes the programs for any
// number of Expands too, of one to Limits.TopK beams each.
func (d *Draft) PrepareGrowth(depth, k int, expand bool) error {
	p, err := d.plan(depth, k)
	if err != nil || !expand {
		return err
	}
	return d.prepareHost(p, ranked, buckets[:len(d.hostFeed)]...)
}

// mostPasses is how many passes of k beams the KV cache has slots for.
func mostPasses(k int) int { return min((treeSlots-2*spec.MaxPending)/k, maxPasses) }

// batch is programs to be made together, whose kernels compile in parallel where the device can.
type batch struct {
	recorders []*kernels.Recorder
	programs  []*webgpu.Program
}

func (b *batch) add(r *kernels.Recorder, to *webgpu.Program) {
	b.recorders, b.programs = append(b.recorders, r), append(b.programs, to)
}

// make builds a batch.
func (d *Draft) make(b *batch) error {
	if len(b.recorders) == 0 {
		return nil
	}
	made, err := d.build(b.recorders...)
	if err != nil {
		return err
	}
	for i, p := range made {
		*b.programs[i] = p
	}
	return nil
}

// checkK refuses a number of candidates that a beam cannot have.
func (d *Draft) checkK(k int) error {
	if k < 1 || k > d.opts.TopK {
		return fmt.Errorf("llama: %s: a top-k of %d was asked for; it drafts 1 to %d candidates a beam", d.file, k, d.opts.TopK)
	}
	return nil
}

// plan is the plan for trees of k candidates a beam and depth passes after the root's;
// what is missing of it is made.
func (d *Draft) plan(depth, k int) (*plan, error) {
	if err := d.checkK(k); err != nil {
		return nil, err
	}
	if depth < 0 || depth > mostPasses(k) {
		return nil, fmt.Errorf("llama: %s: a depth of %d with a top-k of %d was asked for; with %d candidates a beam it drafts at most %d levels after the first", d.file, depth, k, k, mostPasses(k))
	}
	p := d.plans[k]
	if p != nil && len(p.levels) >= depth {
		return p, d.estimateLevels(p)
	}
	d.preparing(fmt.Sprintf("recording a tree of %d levels by %d", depth+1, k))
	b := &batch{}
	if p == nil {
		p = &plan{k: k, host: make([]proposal, len(d.hostFeed))}
		if err := d.layPlan(p); err != nil {
			return nil, err
		}
		spare, err := d.newResults("unused", k, maxPasses*k)
		if err != nil {
			return nil, err
		}
		p.spare = [2]kernels.View{spare[0].view(0, k), spare[1].view(0, maxPasses*k)}
		d.rank(b, p, &p.root, d.rootPass.drawn)
	}
	levels, err := d.deepen(b, p, depth)
	if err != nil {
		return nil, err
	}
	if err := d.make(b); err != nil {
		return nil, err
	}
	p.levels, d.plans[k] = levels, p
	return p, d.estimateLevels(p)
}

// layPlan makes the buffers of the root and of the levels.
func (d *Draft) layPlan(p *plan) error {
	k, most := p.k, mostPasses(p.k)
	inputs, err := d.storage("draft inputs", 4*max(most, 1)*passWords(k, maxPasses))
	if err != nil {
		return err
	}
	p.room.inputs = inputs.Buffer
	if p.room.own, err = d.newResults("draft slots", slices.Repeat([]int{2 * k}, max(most, 1))...); err != nil {
		return err
	}
	if p.room.scores, err = d.newResults("draft scores", slices.Repeat([]int{k}, max(most, 1))...); err != nil {
		return err
	}
	words := slices.Repeat([]int{picks(k) + alignWords(k*kernels.SampleWords(k)) + k}, most+1)
	words[0] = alignWords(kernels.SampleWords(k)) + 1
	if p.room.result, err = d.newResults("draft results", words...); err != nil {
		return err
	}
	p.root.lay(p.room.result[0], 0, 1, k)
	return nil
}

// picks is how many words of a level's result are kernels.Select's output, which comes first.
func picks(k int) int { return alignWords(kernels.SelectWords(k, k)) }

// newProposal has a buffer of its own.
func (d *Draft) newProposal(k, rows int) (proposal, error) {
	var p proposal
	results, err := d.newResults("candidates", alignWords(rows*kernels.SampleWords(k))+rows)
	if err == nil {
		p.lay(results[0], 0, rows, k)
	}
	return p, err
}

// lay places a proposal of n rows at word at of a result.
func (p *proposal) lay(r result, at, n, k int) {
	p.result, p.rows, p.at = r, n, at
	p.estimates = at + alignWords(n*kernels.SampleWords(k))
}

// records is kernels.Sample's output.
func (p *proposal) records(k int) kernels.View {
	return p.result.view(p.at, p.rows*kernels.SampleWords(k))
}

// rank records what ranks a pass's candidates by ln q, or by the coupled scores.
func (d *Draft) rank(b *batch, p *plan, out *proposal, positions kernels.View) {
	r := d.recorder(fmt.Sprintf("candidates %d by %d", out.rows, p.k))
	r.Sample(d.tuning.lanes, d.logitRows(out.rows), p.k, kernels.LogProbs, d.work.draw, positions, d.work.scratch, out.records(p.k))
	b.add(r, &out.rank)
}

// deepen records the levels that a plan lacks; it returns all of them.
func (d *Draft) deepen(b *batch, p *plan, depth int) ([]planLevel, error) {
	from := len(p.levels)
	levels := make([]planLevel, max(depth, from))
	copy(levels, p.levels)
	if depth <= from {
		return levels, nil
	}
	k, room := p.k, &p.room
	for level := from; level < depth; level++ { // its beams are candidates of the level above, the root's being the first
		l, result := &levels[level], room.result[level+1]
		l.pass = newPass(&d.seq, room.inputs, 4*level*passWords(k, maxPasses), k, maxPasses)
		l.own, l.scores = room.own[level].view(0, 2*k), room.scores[level].view(0, k)
		l.out.lay(result, picks(k), k, k)
		s := kernels.Selection{Beams: 1, K: k, Depth: level, MaxDepth: maxPasses, Samples: p.root.records(k), Scores: p.spare[0], Ancestors: p.spare[1],
			Slots: l.own, NextTokens: l.pass.tokens, NextScores: l.scores, NextAncestors: l.pass.ancestors}
		if level > 0 {
			above := &levels[level-1]
			s.Beams, s.Samples, s.Scores, s.Ancestors = k, above.out.records(k), above.scores, above.pass.ancestors
		}
		s.Out = result.view(0, kernels.SelectWords(s.Beams, k))
		choose := d.recorder(fmt.Sprintf("beams of level %d by %d", level+1, k))
		choose.Select(s)
		feed := d.recorder(fmt.Sprintf("draft level %d by %d", level+1, k))
		d.net.forward(feed, &l.pass, k)
		d.net.head(feed, 0, k, d.work.logits, 0)
		b.add(choose, &l.choose)
		b.add(feed, &l.feed)
		d.rank(b, p, &l.out, l.pass.drawn)
	}
	return levels, nil
}

// want is a way to take candidates from a host pass.
type want int

const (
	ranked want = iota // the best by ln q
	drawn              // drawn without replacement, see SampleTree
	pruned             // ranked, of beams that a classifier chooses, see DraftPruned
)

// hostProposal is what a plan takes from a host pass of n rows.
func (p *plan) hostProposal(n int) *proposal { return &p.host[bucket(n)] }

// prepareHost makes what host passes of the given rows lack, for a plan.
func (d *Draft) prepareHost(p *plan, how want, rows ...int) error {
	for _, n := range rows {
		if !d.hostReady(p, how, n) {
			return d.makeHost(p, how, rows)
		}
	}
	return nil
}

// hostReady tells whether a host pass of n rows lacks nothing for a plan.
func (d *Draft) hostReady(p *plan, how want, n int) bool {
	out := p.hostProposal(n)
	return d.hostFeed[bucket(n)] != 0 && out.rows > 0 && (how != ranked || out.rank != 0) && (how != drawn || out.draw != 0) &&
		(d.estimator == nil || out.accept != 0)
}

// makeHost makes what host passes of the given rows lack.
func (d *Draft) makeHost(p *plan, how want, rows []int) error {
	b := &batch{}
	for _, n := range rows {
		at := bucket(n)
		n = buckets[at]
		if d.hostFeed[at] == 0 {
			r := d.recorder(fmt.Sprintf("draft beams %d", n))
			d.net.forward(r, &d.hostPass, n)
			d.net.head(r, 0, n, d.work.logits, 0)
			b.add(r, &d.hostFeed[at])
		}
		out := p.hostProposal(n)
		if out.rows == 0 {
			var err error
			if *out, err = d.newProposal(p.k, n); err != nil {
				return err
			}
		}
		switch {
		case how == ranked && out.rank == 0:
			d.rank(b, p, out, d.hostPass.drawn)
		case how == drawn && out.draw == 0:
			d.drawWithout(b, p, out, d.hostPass.drawn)
		}
		d.estimate(b, out)
	}
	d.preparing(fmt.Sprintf("recording beams by %d", p.k))
	return d.make(b)
}

// writePlaces hands a pass's positions and slots to the device, and leaves its tokens and
// ancestors to what Select writes there.
func (p *pass) writePlaces(dev webgpu.Device) error {
	row := alignWords(p.capacity)
	return dev.Write(p.drawn.Buffer, p.drawn.Offset, webgpu.U32Bytes(p.words[row:2*row+p.capacity*kernels.RowWords]))
}

// writeRows hands the first n rows to the device.
func (p *pass) writeRows(dev webgpu.Device, n int) error {
	list := 2*alignWords(p.capacity) + alignWords(p.capacity*kernels.RowWords)
	return dev.Write(p.tokens.Buffer, p.at, webgpu.U32Bytes(p.words[:list+n*p.stride]))
}
