package llama

import (
	"context"
	"fmt"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// jointRuns is what DraftVerify needs beside the programs of draft and target.
type jointRuns struct {
	head   kernels.View // kernels.Graft's
	words  []uint32     // the host's copy
	grafts map[graftKey]webgpu.Program

	place  kernels.View // kernels.Keep's, for the tokens of a chain
	at     [kernels.KeepWords]uint32
	copies map[*Draft]webgpu.Program // the tokens that a draft drew go to the target's pass
	chain  spec.Tree                 // of tokens that are not known yet
}

// graftKey is a program that makes trees of what a draft proposed with k candidates a beam.
type graftKey struct {
	draft *Draft
	k     int
}

// treeStarter is a draft whose trees can be begun without running them: a Draft, or an EAGLE3.
type treeStarter interface {
	holder
	startTree(ctx context.Context, r spec.DraftRequest, how want, beams [][]int32) error
	startSampled(ctx context.Context, r spec.SampleRequest) error
}

// PrepareJoint makes the program that DraftVerify needs for trees of k candidates a beam of a draft. The
// trees' own programs are those that Draft.Prepare and Prepare make.
func (t *Target) PrepareJoint(draft spec.DraftModel, k int) error {
	d, err := t.holderOf(draft)
	if err != nil {
		return err
	}
	key, j := graftKey{d, k}, &t.joint
	if _, ok := j.grafts[key]; ok {
		return nil
	}
	p, err := d.plan(0, k)
	if err != nil {
		return err
	}
	if j.grafts == nil {
		if j.head, err = t.storage("tree to graft", 4*(kernels.GraftHeadWords+2*t.opts.MaxRows)); err != nil {
			return err
		}
		j.grafts = map[graftKey]webgpu.Program{}
		j.words = make([]uint32, 0, kernels.GraftHeadWords+2*t.opts.MaxRows)
	}
	b, result := &t.feeding.batch, p.room.result
	first, level := result[0].words, 0
	if len(result) > 1 {
		level = result[1].words
	}
	r := t.recorder(fmt.Sprintf("graft by %d", k))
	r.Graft(kernels.Grafting{K: k, Drafted: kernels.View{Buffer: result[0].buffer, Size: 4 * (first + (len(result)-1)*level)},
		First: first, Level: level, Picks: picks(k), Head: j.head, Tokens: b.tokens, Drawn: b.drawn, Rows: b.rows, Ancestors: b.ancestors,
		Stride: b.stride, Chosen: t.results.grafted.view})
	made, err := t.build(r)
	if err != nil {
		return err
	}
	j.grafts[key] = made[0]
	return nil
}

// jointNodes is how many nodes a request's tree has at most.
func jointNodes(r *spec.JointRequest) int {
	if r.Chosen != nil {
		return 1 + len(r.Chosen)
	}
	return min(r.Nodes, 1+kernels.Grafted(r.Depth+1, r.K))
}

// Joins implements spec.JointTarget: draft and target are on one device, the tree is one part of a pass, and its
// programs were made before.
func (t *Target) Joins(draft spec.DraftModel, r *spec.JointRequest) bool {
	starter, ok := draft.(treeStarter)
	if !ok || r.Depth < 0 {
		return false
	}
	d, levels := starter.holds(), r.Depth+1
	if d == nil || t.joint.grafts[graftKey{d, r.K}] == 0 || levels > kernels.GraftLevels || levels >= t.feeding.batch.stride {
		return false
	}
	n := jointNodes(r)
	return d.Shapes(r) && kernels.Grafted(levels, r.K) <= kernels.MostGrafted && n <= min(t.passRows(), t.prepared)
}

// DraftVerify drafts and verifies in one submit and one readback: the draft's levels, the choice of nodes, which kernels.Graft
// writes where the target's pass reads it, and the pass. Joins must have said that it can.
func (t *Target) DraftVerify(ctx context.Context, draft spec.DraftModel, r *spec.JointRequest) (*spec.Tree, []spec.Level, []spec.NodeOutput, error) {
	if !t.Joins(draft, r) {
		return nil, nil, nil, errNotJoint(r)
	}
	how := howOf(r)
	d, n, err := t.startGraft(ctx, draft, r, how)
	if err != nil {
		return nil, nil, nil, err
	}
	t.verifyParts(n, r.Sampling)
	t.readOutputs(n, r.Sampling)
	tree, levels, grafted, err := t.endGraft(d, r, how)
	if err != nil {
		return nil, nil, nil, err
	}
	if !grafted {
		// Logits that are not numbers may be ranked otherwise here and there.
		out, err := t.Verify(ctx, tree, r.Sampling)
		return tree, levels, out, err
	}
	return tree, levels, t.decodeOutputs(tree.Len(), r.Sampling), nil
}

func errNotJoint(r *spec.JointRequest) error {
	return fmt.Errorf("llama: a tree of %d levels by %d was to be drafted and verified in one run; prepare it with PrepareJoint, Prepare and the draft's Prepare", r.Depth+1, r.K)
}

// startGraft puts the beginning of a joint run together, up to where the target's pass finds its rows, and has the choice of nodes come
// back with the draft's levels. It returns how many nodes the pass has.
func (t *Target) startGraft(ctx context.Context, draft spec.DraftModel, r *spec.JointRequest, how want) (*Draft, int, error) {
	starter := draft.(treeStarter)
	d, n := starter.holds(), jointNodes(r)
	if err := starter.startTree(ctx, r.DraftRequest, how, r.Beams); err != nil {
		return nil, 0, err
	}
	root := r.Pending[len(r.Pending)-1]
	if err := t.placeGraft(root, n, r); err != nil {
		return nil, 0, err
	}
	if err := t.writeDraw(r.Sampling, spec.StreamTarget, false); err != nil {
		return nil, 0, err
	}
	t.shaper.now = shapes{}
	t.programs = append(append(t.programs[:0], d.programs...), t.joint.grafts[graftKey{d, r.K}])
	t.regions = append(t.regions[:0], d.regions...)
	t.read(t.results.grafted, n)
	return d, n, nil
}

// endGraft runs what startGraft began and tells whether the device made the tree that the host makes of the levels; where it did
// not, the tree is still to be verified.
func (t *Target) endGraft(d *Draft, r *spec.JointRequest, how want) (tree *spec.Tree, levels []spec.Level, grafted bool, err error) {
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, nil, false, err
	}
	d.seq.ran()
	levels = d.endTree(r.DraftRequest, how, r.Beams)
	if tree, err = r.Build(levels); err != nil || !t.grafted(tree, levels, r.K, jointNodes(r)) {
		return tree, levels, false, err
	}
	t.nodes = append(t.nodes[:0], tree.Tokens...)
	for _, s := range t.slots[tree.Len():] {
		t.seq.give(s)
	}
	t.slots = t.slots[:tree.Len()]
	return tree, levels, true, nil
}

// placeGraft tells the device what it needs to place a tree of up to n nodes after the committed tokens.
func (t *Target) placeGraft(root int32, n int, r *spec.JointRequest) error {
	base, levels := t.Len(), r.Depth+1
	if base+levels >= t.opts.Context {
		return fmt.Errorf("llama: position %d does not fit a context of %d", base+levels, t.opts.Context)
	}
	t.release()
	var err error
	if t.slots, err = t.seq.take(n, t.slots[:0]); err != nil {
		return err
	}
	if err := t.seq.flush(t.dev, t.work.table); err != nil {
		return err
	}
	j := &t.joint
	j.words = append(j.words[:0], uint32(levels), uint32(n), uint32(t.paddedRows(n)), uint32(base), t.work.trash, uint32(root), 0)
	j.words = append(j.words, t.slots...)
	if r.Chosen != nil {
		j.words[6] = 1
		j.words = append(j.words, kernels.NotGrafted)
		for _, c := range r.Chosen {
			j.words = append(j.words, uint32(c))
		}
	}
	return t.dev.Write(j.head.Buffer, j.head.Offset, webgpu.U32Bytes(j.words))
}

// grafted tells whether the device made the tree that the host did of the same levels by k.
func (t *Target) grafted(tree *spec.Tree, levels []spec.Level, k, n int) bool {
	chosen := t.results.of(t.results.grafted, n)
	if tree.Len() > n {
		return false
	}
	for i := 1; i < n; i++ {
		c := chosen[i]
		if i >= tree.Len() {
			if c != kernels.NotGrafted {
				return false
			}
			continue
		}
		level, above, first := int(tree.Depths[i])-1, 0, 0
		if level > 0 {
			first = kernels.Grafted(level, k)
		}
		at := int(c) - first
		if at < 0 || at >= len(levels[level].Candidates) || levels[level].Candidates[at].Token != tree.Tokens[i] {
			return false
		}
		if level == 0 {
			continue
		}
		if level > 1 {
			above = kernels.Grafted(level-1, k)
		}
		if parent := above + int(levels[level-1].Beams[levels[level].Candidates[at].Beam]); chosen[tree.Parents[i]] != uint32(parent) {
			return false
		}
	}
	return true
}

// PrepareJointChain makes the programs that DraftVerifyChain needs for chains of up to most tokens.
func (t *Target) PrepareJointChain(draft spec.SamplingDraft, most int) error {
	if err := t.PrepareChains(draft, most); err != nil {
		return err
	}
	d, err := t.holderOf(draft)
	if err != nil {
		return err
	}
	j := &t.joint
	if j.copies[d] != 0 {
		return nil
	}
	if j.copies == nil {
		if j.place, err = t.storage("place of drawn tokens", 4*kernels.KeepWords); err != nil {
			return err
		}
		j.copies = map[*Draft]webgpu.Program{}
	}
	r := t.recorder("drawn tokens")
	r.Keep(kernels.Logits{View: d.drawnRecords, Rows: d.mostDrawn(), Vocab: 1, Stride: recordWords}, j.place,
		kernels.Logits{View: t.feeding.batch.tokens, Rows: t.feeding.batch.capacity, Vocab: 1, Stride: 1})
	made, err := t.build(r)
	if err != nil {
		return err
	}
	j.copies[d] = made[0]
	return nil
}

// JoinsChain implements spec.JointChainTarget.
func (t *Target) JoinsChain(draft spec.SamplingDraft, count int) bool {
	starter, ok := draft.(treeStarter)
	if !ok {
		return false
	}
	d := starter.holds()
	return d != nil && t.joint.copies[d] != 0 && t.chains[chainKey{d, count, false}] != 0 && len(d.chain.steps) >= count-1 &&
		count < min(t.passRows(), t.prepared)
}

// DraftVerifyChain draws a chain and judges it by the rejection rule, in one submit and one readback. JoinsChain must
// have said that it can.
func (t *Target) DraftVerifyChain(ctx context.Context, draft spec.SamplingDraft, r spec.SampleRequest) ([]spec.Drawn, []spec.ChainVerdict, error) {
	d, err := t.startChain(ctx, draft, r)
	if err != nil {
		return nil, nil, err
	}
	n := r.Count + 1
	judge := t.chains[chainKey{d, r.Count, false}]
	t.eachPart(n, func(_ part, p *partPrograms) { t.programs = append(t.programs, p.verify, p.filter, judge) })
	t.read(t.results.verdicts, n)
	drawn, err := t.endChain(d, r.Count)
	if err != nil {
		return nil, nil, err
	}
	return drawn, t.chainVerdicts(n), nil
}

// DraftVerifyDivergence draws a chain, verifies it and compares the distributions, in one submit and one readback. JoinsChain must
// have said that it can.
func (t *Target) DraftVerifyDivergence(ctx context.Context, draft spec.SamplingDraft, r spec.SampleRequest) ([]spec.Drawn, []spec.NodeOutput, []spec.Divergence, error) {
	d, err := t.startChain(ctx, draft, r)
	if err != nil {
		return nil, nil, nil, err
	}
	n := r.Count + 1
	t.compareParts(n, r.Sampling, t.chains[chainKey{d, r.Count, true}], func(_ part, p *partPrograms) { t.programs = append(t.programs, p.verify) })
	drawn, err := t.endChain(d, r.Count)
	if err != nil {
		return nil, nil, nil, err
	}
	return drawn, t.decodeOutputs(n, r.Sampling), t.divergences(n), nil
}

// startChain puts the beginning of a run together that draws a chain, up to where the target's pass finds its tokens.
func (t *Target) startChain(ctx context.Context, draft spec.SamplingDraft, r spec.SampleRequest) (*Draft, error) {
	if !t.JoinsChain(draft, r.Count) {
		return nil, fmt.Errorf("llama: a chain of %d tokens was to be drawn and verified in one run; prepare it with PrepareJointChain", r.Count)
	}
	starter, j := draft.(treeStarter), &t.joint
	d := starter.holds()
	if err := starter.startSampled(ctx, r); err != nil {
		return nil, err
	}
	j.chain.Reset(r.Pending[len(r.Pending)-1])
	for i := range r.Count {
		j.chain.Add(int32(i), 0, 0)
	}
	if err := t.begin(ctx, &j.chain, r.Sampling); err != nil {
		return nil, err
	}
	j.at = [kernels.KeepWords]uint32{1, uint32(r.Count)}
	if err := t.dev.Write(j.place.Buffer, j.place.Offset, webgpu.U32Bytes(j.at[:])); err != nil {
		return nil, err
	}
	t.programs = append(append(t.programs[:0], d.programs...), j.copies[d])
	t.regions = append(t.regions[:0], d.regions...)
	return d, nil
}

// endChain runs what startChain began and returns the tokens drawn.
func (t *Target) endChain(d *Draft, count int) ([]spec.Drawn, error) {
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	d.seq.ran()
	drawn := d.takeTokens(0, count)
	for i := range drawn {
		t.nodes[i+1] = drawn[i].Token
	}
	return drawn, nil
}
