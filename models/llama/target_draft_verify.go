package llama

import (
	"context"
	"fmt"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
	treekernel "foretoken/webgpu/kernels/tree"
)

// draftVerifyRuns holds what drafting and verifying in one submit needs in addition to the programs of draft and
// target.
type draftVerifyRuns struct {
	head    kernels.View // parameters of tree.RecordGather
	words   []uint32     // host copy of head
	gathers map[gatherKey]webgpu.Program

	place      kernels.View // parameters of sample.RecordKeep for the tokens of a chain
	placeWords [sample.KeepWords]uint32
	copyTokens map[*Draft]webgpu.Program // copies the tokens that a draft drew to the target's pass
	chain      spec.Tree                 // placeholder for tokens not drawn yet
	result     spec.JointResult          // valid until the next call
}

// gatherKey identifies a program that gathers a tree from a draft's candidates, k a beam.
type gatherKey struct {
	draft *Draft
	k     int
}

// PrepareJoint compiles the program that gathers trees of k candidates a beam of a draft for DraftVerify.
// Draft.Prepare and Prepare compile the other programs.
func (t *Target) PrepareJoint(draft spec.DraftModel, k int) error {
	d, err := t.draftOf(draft)
	if err != nil {
		return err
	}
	key, j := gatherKey{d, k}, &t.draftVerify
	if _, ok := j.gathers[key]; ok {
		return nil
	}
	p, err := d.plan(0, k)
	if err != nil {
		return err
	}
	if j.gathers == nil {
		if j.head, err = t.newBuffer("tree to gather", 4*(treekernel.GatherHeadWords+2*t.opts.MaxRows)); err != nil {
			return err
		}
		j.gathers = map[gatherKey]webgpu.Program{}
		j.words = make([]uint32, 0, treekernel.GatherHeadWords+2*t.opts.MaxRows)
	}
	b, result := &t.prefill.batch, p.buffers.result
	first, level := result[0].words, 0
	if len(result) > 1 {
		level = result[1].words
	}
	r := t.recorder(fmt.Sprintf("gather by %d", k))
	drafted := kernels.View{Buffer: result[0].buffer, Size: 4 * (first + (len(result)-1)*level)}
	treekernel.RecordGather(r, treekernel.Gathering{K: k, Drafted: drafted, First: first, Level: level,
		Picks: picks(k), Head: j.head, Tokens: b.Tokens, Drawn: b.Drawn, Rows: b.Rows, Ancestors: b.Ancestors,
		Stride: b.Stride, Chosen: t.results.gathered.view})
	_, err = buildInto(t.Model, j.gathers, key, r)
	return err
}

// requestNodes returns the most nodes of a request's tree.
func requestNodes(r *spec.JointRequest) int {
	if r.Chosen != nil {
		return 1 + len(r.Chosen)
	}
	return min(r.Nodes, 1+treekernel.Gathered(r.Depth+1, r.K))
}

// DraftVerify implements spec.JointTarget, in one submit and one readback. Draft and target have to be on one device,
// the tree has to fit one part of a pass, and the Prepare functions have to have compiled all programs.
func (t *Target) DraftVerify(ctx context.Context, draft spec.DraftModel,
	r *spec.JointRequest) (*spec.JointResult, error) {
	h, ok := draft.(deviceDraft)
	if !ok || h.draft() == nil {
		return nil, nil
	}
	d, result, ready, run := h.draft(), &t.draftVerify.result, t.treeReady, t.draftVerifyTree
	switch r.Pass {
	case spec.PassChain, spec.PassDivergence:
		ready, run = t.chainReady, t.draftVerifyChain
	case spec.PassSampled:
		ready, run = t.sampledReady, t.draftVerifySampled
	}
	if !ready(d, r) {
		return nil, nil
	}
	*result = spec.JointResult{}
	if err := run(ctx, d, r, result); err != nil {
		return nil, err
	}
	return result, nil
}

// treeReady reports whether a tree can be gathered on the device and verified there.
func (t *Target) treeReady(d *Draft, r *spec.JointRequest) bool {
	levels := r.Depth + 1
	if r.Depth < 0 || t.draftVerify.gathers[gatherKey{d, r.K}] == 0 || levels > treekernel.GatherLevels ||
		levels >= t.prefill.batch.Stride {
		return false
	}
	n := requestNodes(r)
	return d.shapedReady(r) && treekernel.Gathered(levels, r.K) <= treekernel.MostGathered &&
		n <= min(t.passRows(), t.prepared)
}

// draftVerifyTree drafts the levels, chooses the nodes, which tree.RecordGather writes to the input of the target's
// pass, and verifies them.
func (t *Target) draftVerifyTree(ctx context.Context, d *Draft, r *spec.JointRequest, result *spec.JointResult) error {
	rule := ruleOf(r)
	n, err := t.startDraftVerify(ctx, d, r, rule)
	if err != nil {
		return err
	}
	t.verifyParts(n, r.Sampling)
	t.readOutputs(n, r.Sampling)
	gathered, err := t.endDraftVerify(d, r, rule, result)
	switch {
	case err != nil:
		return err
	case !gathered: // device and host may rank NaN logits differently
		result.Pass.Outputs, err = t.Verify(ctx, result.Tree, r.Sampling)
		return err
	}
	result.Pass.Outputs = t.decodeOutputs(result.Tree.Len(), r.Sampling)
	return nil
}

// startDraftVerify starts a run that drafts and gathers the rows of the target's pass, and adds the readback of the
// chosen nodes to that of the draft's levels. It returns the number of nodes of the pass.
func (t *Target) startDraftVerify(ctx context.Context, d *Draft, r *spec.JointRequest,
	rule candidateRule) (int, error) {
	n := requestNodes(r)
	if err := d.startTree(ctx, r.DraftRequest, rule, r.Beams); err != nil {
		return 0, err
	}
	root := r.Pending[len(r.Pending)-1]
	if err := t.writeGatherHead(root, n, r); err != nil {
		return 0, err
	}
	if err := t.writeDraw(r.Sampling, spec.StreamTarget, false); err != nil {
		return 0, err
	}
	t.adjuster.now = spec.AdjustmentKinds{}
	t.programs = append(append(t.programs[:0], d.programs...), t.draftVerify.gathers[gatherKey{d, r.K}])
	t.regions = append(t.regions[:0], d.regions...)
	t.read(t.results.gathered, n)
	return n, nil
}

// endDraftVerify submits the run and reports whether the device gathered the tree that the host builds from the
// levels. If not, the caller must verify the tree.
func (t *Target) endDraftVerify(d *Draft, r *spec.JointRequest, rule candidateRule,
	result *spec.JointResult) (gathered bool, err error) {
	if err := t.run(t.programs, t.regions...); err != nil {
		return false, err
	}
	d.seq.MarkWritten()
	levels, err := d.endTree(r.DraftRequest, rule, r.Beams)
	if err != nil {
		return false, err
	}
	tree, err := r.Build(levels)
	result.Tree, result.Levels = tree, levels
	if err != nil || !t.sameTree(tree, levels, r.K, requestNodes(r)) {
		return false, err
	}
	t.nodes = append(t.nodes[:0], tree.Tokens...)
	t.seq.Release(t.slots[tree.Len():])
	t.slots = t.slots[:tree.Len()]
	return true, nil
}

// writeGatherHead uploads the parameters for gathering a tree of up to n nodes after the committed tokens.
func (t *Target) writeGatherHead(root int32, n int, r *spec.JointRequest) error {
	base, levels := t.Len(), r.Depth+1
	if base+levels >= t.opts.Context {
		return fmt.Errorf("llama: position %d does not fit a context of %d", base+levels, t.opts.Context)
	}
	t.release()
	var err error
	if t.slots, err = t.seq.Take(n, t.slots[:0]); err != nil {
		return err
	}
	if err := t.seq.Flush(); err != nil {
		return err
	}
	j := &t.draftVerify
	j.words = append(j.words[:0], uint32(levels), uint32(n), uint32(t.paddedRows(n)), uint32(base), t.seq.Padding(),
		uint32(root), 0)
	j.words = append(j.words, t.slots...)
	if r.Chosen != nil {
		j.words[6] = 1
		j.words = append(j.words, treekernel.NotGathered)
		for _, c := range r.Chosen {
			j.words = append(j.words, uint32(c))
		}
	}
	return t.dev.Write(j.head.Buffer, j.head.Offset, webgpu.U32Bytes(j.words))
}

// sameTree reports whether the device gathered the tree that the host built from the same levels by k.
func (t *Target) sameTree(tree *spec.Tree, levels []spec.Level, k, n int) bool {
	chosen := t.results.of(t.results.gathered, n)
	if tree.Len() > n {
		return false
	}
	for i := 1; i < n; i++ {
		c := chosen[i]
		if i >= tree.Len() {
			if c != treekernel.NotGathered {
				return false
			}
			continue
		}
		level, above, first := int(tree.Depths[i])-1, 0, 0
		if level > 0 {
			first = treekernel.Gathered(level, k)
		}
		at := int(c) - first
		if at < 0 || at >= len(levels[level].Candidates) || levels[level].Candidates[at].Token != tree.Tokens[i] {
			return false
		}
		if level == 0 {
			continue
		}
		if level > 1 {
			above = treekernel.Gathered(level-1, k)
		}
		parent := above + int(levels[level-1].Beams[levels[level].Candidates[at].Beam])
		if chosen[tree.Parents[i]] != uint32(parent) {
			return false
		}
	}
	return true
}

// PrepareJointChain compiles the programs of DraftVerify for chains of up to most tokens.
func (t *Target) PrepareJointChain(draft spec.DraftModel, most int) error {
	if err := t.PrepareChains(draft, most); err != nil {
		return err
	}
	d, err := t.draftOf(draft)
	if err != nil {
		return err
	}
	j := &t.draftVerify
	if j.copyTokens[d] != 0 {
		return nil
	}
	if j.copyTokens == nil {
		if j.place, err = t.newBuffer("place of drawn tokens", 4*sample.KeepWords); err != nil {
			return err
		}
		j.copyTokens = map[*Draft]webgpu.Program{}
	}
	r := t.recorder("drawn tokens")
	sample.RecordKeep(r, kernels.Logits{View: d.drawnRecords, Rows: d.maxChain(), Vocab: 1, Stride: recordWords},
		j.place,
		kernels.Logits{View: t.prefill.batch.Tokens, Rows: t.prefill.batch.Capacity(), Vocab: 1, Stride: 1})
	_, err = buildInto(t.Model, j.copyTokens, d, r)
	return err
}

// chainReady reports whether a chain can be sampled and verified in one run.
func (t *Target) chainReady(d *Draft, r *spec.JointRequest) bool {
	n := r.Count
	return t.draftVerify.copyTokens[d] != 0 && t.chains[chainKey{d, n, false}] != 0 && len(d.chain.steps) >= n-1 &&
		n < min(t.passRows(), t.prepared)
}

// draftVerifyChain samples a chain and verifies it by the rejection rule, or compares the distributions.
func (t *Target) draftVerifyChain(ctx context.Context, d *Draft, r *spec.JointRequest, result *spec.JointResult) error {
	err := t.startDraftVerifyChain(ctx, d, r)
	if err != nil {
		return err
	}
	n, pass, compare := r.Count+1, &result.Pass, r.Pass == spec.PassDivergence
	program := t.chains[chainKey{d, r.Count, compare}]
	if compare {
		t.addComparison(n, r.Sampling, program, func(_ part, p *partPrograms) {
			t.programs = append(t.programs, p.verify)
		})
	} else {
		t.eachPart(n, func(_ part, p *partPrograms) { t.programs = append(t.programs, p.verify, p.filter, program) })
		t.readVerdicts(n)
	}
	if result.Drawn, err = t.endDraftVerifyChain(d, r.Count); err != nil {
		return err
	}
	if compare {
		pass.Outputs, pass.Divergences = t.decodeOutputs(n, r.Sampling), t.divergences(n)
	} else {
		pass.Chain = t.chainVerdicts(n)
	}
	return nil
}

// startDraftVerifyChain starts a run that samples a chain and copies its tokens to the target's pass.
func (t *Target) startDraftVerifyChain(ctx context.Context, d *Draft, r *spec.JointRequest) error {
	j := &t.draftVerify
	chain := spec.SampleRequest{Pending: r.Pending, Count: r.Count, Coupled: r.Coupled, Sampling: r.Sampling}
	if err := d.startSampled(ctx, chain); err != nil {
		return err
	}
	j.chain.Reset(r.Pending[len(r.Pending)-1])
	for i := range r.Count {
		j.chain.Add(int32(i), 0, 0)
	}
	if err := t.begin(ctx, &j.chain, r.Sampling); err != nil {
		return err
	}
	j.placeWords = [sample.KeepWords]uint32{1, uint32(r.Count)}
	if err := t.dev.Write(j.place.Buffer, j.place.Offset, webgpu.U32Bytes(j.placeWords[:])); err != nil {
		return err
	}
	t.programs = append(append(t.programs[:0], d.programs...), j.copyTokens[d])
	t.regions = append(t.regions[:0], d.regions...)
	return nil
}

// endDraftVerifyChain submits the run and returns the tokens drawn.
func (t *Target) endDraftVerifyChain(d *Draft, count int) ([]spec.Drawn, error) {
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	d.seq.MarkWritten()
	drawn, err := d.takeTokens(0, count)
	for i := range drawn {
		t.nodes[i+1] = drawn[i].Token
	}
	return drawn, err
}
