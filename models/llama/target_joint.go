package llama

import (
	"context"
	"fmt"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
	treekernel "foretoken/webgpu/kernels/tree"
)

// jointRuns holds what drafting and verifying in one submit needs in addition to the programs of draft and target.
type jointRuns struct {
	head    kernels.View // parameters of tree.RecordGather
	words   []uint32     // host copy of head
	gathers map[gatherKey]webgpu.Program

	place      kernels.View // parameters of sample.RecordKeep for the tokens of a chain
	placeWords [sample.KeepWords]uint32
	copyTokens map[*Draft]webgpu.Program // copies the tokens that a draft drew to the target's pass
	chain      spec.Tree                 // placeholder for tokens not drawn yet
}

// gatherKey identifies a program that gathers a tree from a draft's candidates, k a beam.
type gatherKey struct {
	draft *Draft
	k     int
}

// prepareJoint compiles the programs of passes that compare with a draft's distributions, and of passes that follow a
// draft in the same run.
func (t *Target) prepareJoint(d *Draft, p spec.Programs) error {
	switch p.Pass {
	case spec.PassChain, spec.PassDivergence:
		return t.prepareChains(d, p.Budget.Levels, p.Pass == spec.PassDivergence)
	case spec.PassSampled:
		return t.prepareDrawn(d, p.Budget)
	}
	for _, k := range p.Widths {
		if err := t.prepareGather(d, k); err != nil {
			return err
		}
	}
	return nil
}

// prepareChains compiles the programs for chains of up to most tokens.
func (t *Target) prepareChains(d *Draft, most int, divergence bool) error {
	if err := d.prepareChain(most); err != nil {
		return err
	}
	if err := t.prepareTrees(most + 1); err != nil {
		return err
	}
	for k := 1; k <= most; k++ {
		if _, err := t.chainProgram(chainKey{d, k, divergence}); err != nil {
			return err
		}
	}
	j := &t.joint
	if j.copyTokens[d] != 0 {
		return nil
	}
	if j.copyTokens == nil {
		var err error
		if j.place, err = t.Buffer("place of drawn tokens", 4*sample.KeepWords); err != nil {
			return err
		}
		j.copyTokens = map[*Draft]webgpu.Program{}
	}
	r := t.Recorder("drawn tokens")
	sample.RecordKeep(r, kernels.Logits{View: d.drawnRecords, Rows: d.maxChain(), Vocab: 1, Stride: recordWords},
		j.place,
		kernels.Logits{View: t.prefill.batch.Tokens, Rows: t.prefill.batch.Capacity(), Vocab: 1, Stride: 1})
	_, err := graph.BuildInto(t.Graph, j.copyTokens, d, r)
	return err
}

// prepareDrawn compiles the programs for trees drawn without replacement within a budget. Those that are too large to
// gather are drafted and verified in separate runs.
func (t *Target) prepareDrawn(d *Draft, b spec.Budget) error {
	depth, gathers := 0, treekernel.Gathered(b.Levels, b.Width) <= treekernel.MostGathered
	if gathers {
		depth = b.Levels - 1
	}
	if err := d.prepareDrawn(depth, b.Width); err != nil {
		return err
	}
	if err := t.prepareVerifiers(d, 1, b.Nodes); err != nil || !gathers {
		return err
	}
	if err := t.prepareGather(d, b.Width); err != nil {
		return err
	}
	return t.prepareSiblings(b.Nodes)
}

// prepareGather compiles the program that gathers trees of k candidates a beam.
func (t *Target) prepareGather(d *Draft, k int) error {
	key, j := gatherKey{d, k}, &t.joint
	if _, ok := j.gathers[key]; ok {
		return nil
	}
	p, err := d.plan(0, k)
	if err != nil {
		return err
	}
	if j.gathers == nil {
		if j.head, err = t.Buffer("tree to gather", 4*(treekernel.GatherHeadWords+2*t.Options.MaxRows)); err != nil {
			return err
		}
		j.gathers = map[gatherKey]webgpu.Program{}
		j.words = make([]uint32, 0, treekernel.GatherHeadWords+2*t.Options.MaxRows)
	}
	b, result := &t.prefill.batch, p.buffers.result
	first, level := result[0].words, 0
	if len(result) > 1 {
		level = result[1].words
	}
	r := t.Recorder(fmt.Sprintf("gather by %d", k))
	drafted := kernels.View{Buffer: result[0].buffer, Size: 4 * (first + (len(result)-1)*level)}
	treekernel.RecordGather(r, treekernel.Gathering{K: k, Drafted: drafted, First: first, Level: level,
		Picks: picks(k), Head: j.head, Tokens: b.Tokens, Drawn: b.Drawn, Rows: b.Rows, Ancestors: b.Ancestors,
		Stride: b.Stride, Chosen: t.results.gathered.view})
	_, err = graph.BuildInto(t.Graph, j.gathers, key, r)
	return err
}

// requestNodes returns the most nodes of a request's tree.
func requestNodes(r *spec.DraftRequest) int {
	if r.Shape != nil {
		return 1 + len(r.Shape.Chosen)
	}
	return min(r.Nodes, 1+treekernel.Gathered(r.Depth+1, r.K))
}

// draftVerify drafts and verifies in one submit and one readback.
func (t *Target) draftVerify(ctx context.Context, r *spec.PassRequest) (*spec.Pass, error) {
	h, ok := r.Model.(deviceDraft)
	if !ok || h.draft() == nil {
		return nil, nil
	}
	d := h.draft()
	if r.Chain != nil {
		if !t.chainReady(d, r) {
			return nil, nil
		}
		return t.draftVerifyChain(ctx, d, r)
	}
	if !t.treeReady(d, r) {
		return nil, nil
	}
	return t.draftVerifyTree(ctx, d, r)
}

// treeReady reports whether a tree can be gathered on the device and verified there.
func (t *Target) treeReady(d *Draft, r *spec.PassRequest) bool {
	of := r.Draft
	levels, n := of.Depth+1, requestNodes(of)
	if of.Depth < 0 || of.Classifier != nil || t.joint.gathers[gatherKey{d, of.K}] == 0 ||
		levels > treekernel.GatherLevels || levels >= t.prefill.batch.Stride || !d.treeReady(of) ||
		treekernel.Gathered(levels, of.K) > treekernel.MostGathered || n > min(t.PassRows(), t.prepared) {
		return false
	}
	return r.Kind == spec.PassOutputs ||
		of.Drawn && t.verifiersReady(d, n, n) && t.sampled.siblingFills[t.lastPart(n)] != 0
}

// draftVerifyTree drafts the levels, chooses the nodes, which tree.RecordGather writes to the input of the target's
// pass, and verifies them.
func (t *Target) draftVerifyTree(ctx context.Context, d *Draft, r *spec.PassRequest) (*spec.Pass, error) {
	of, n := r.Draft, requestNodes(r.Draft)
	if err := d.startTree(ctx, of); err != nil {
		return nil, err
	}
	if err := t.writeGatherHead(n, of); err != nil {
		return nil, err
	}
	if err := t.writeDraw(r.Sampling, spec.StreamTarget, false); err != nil {
		return nil, err
	}
	t.adjuster.now = spec.AdjustmentKinds{}
	t.programs = append(append(t.programs[:0], d.programs...), t.joint.gathers[gatherKey{d, of.K}])
	t.regions = append(t.regions[:0], d.regions...)
	t.read(t.results.gathered, n)
	if r.Kind == spec.PassSampled {
		if err := t.awaitSampled(of, n); err != nil {
			return nil, err
		}
		t.programs = append(t.programs, t.sampled.siblingFills[t.lastPart(n)])
	}
	t.addPass(r, d, n)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	d.seq.MarkWritten()
	levels, err := d.endTree(of)
	if err != nil {
		return nil, err
	}
	tree, err := r.Builder.BuildFor(of, levels)
	if err != nil {
		return nil, err
	}
	var pass *spec.Pass
	if t.gathered(tree, levels, of.K, n) {
		pass = t.decode(r, tree.Len())
	} else { // device and host may rank NaN logits differently, or the draft had no token for a place
		pass, err = t.Verify(ctx, spec.PassRequest{Kind: r.Kind, Sampling: r.Sampling, Tree: tree, Model: r.Model,
			Rows: r.Builder.Rows()})
		if err != nil {
			return nil, err
		}
	}
	pass.Tree, pass.Levels = tree, levels
	return pass, nil
}

// gathered reports whether the device gathered the tree that the host built, and takes it over as the last tree.
func (t *Target) gathered(tree *spec.Tree, levels []spec.Level, k, n int) bool {
	if !t.sameTree(tree, levels, k, n) {
		return false
	}
	t.nodes = append(t.nodes[:0], tree.Tokens...)
	t.seq.Release(t.slots[tree.Len():])
	t.slots = t.slots[:tree.Len()]
	return true
}

// writeGatherHead uploads the parameters for gathering a tree of up to n nodes after the committed tokens.
func (t *Target) writeGatherHead(n int, r *spec.DraftRequest) error {
	base, levels := t.Len(), r.Depth+1
	if base+levels >= t.Options.Context {
		return fmt.Errorf("llama: position %d does not fit a context of %d", base+levels, t.Options.Context)
	}
	t.release()
	var err error
	if t.slots, err = t.seq.Take(n, t.slots[:0]); err != nil {
		return err
	}
	if err := t.seq.Flush(); err != nil {
		return err
	}
	j := &t.joint
	j.words = append(j.words[:0], uint32(levels), uint32(n), uint32(t.paddedRows(n)), uint32(base), t.seq.Padding(),
		uint32(r.Root()), 0)
	j.words = append(j.words, t.slots...)
	if r.Shape != nil {
		j.words[6] = 1
		j.words = append(j.words, treekernel.NotGathered)
		for _, c := range r.Shape.Chosen {
			j.words = append(j.words, uint32(c))
		}
	}
	return t.Dev.Write(j.head.Buffer, j.head.Offset, webgpu.U32Bytes(j.words))
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

// chainReady reports whether a chain can be sampled and verified in one run.
func (t *Target) chainReady(d *Draft, r *spec.PassRequest) bool {
	n := r.Chain.Count
	return t.joint.copyTokens[d] != 0 && t.chains[chainKey{d, n, r.Kind == spec.PassDivergence}] != 0 &&
		len(d.chain.steps) >= n-1 && n < min(t.PassRows(), t.prepared)
}

// draftVerifyChain samples a chain, copies its tokens to the target's pass and verifies it.
func (t *Target) draftVerifyChain(ctx context.Context, d *Draft, r *spec.PassRequest) (*spec.Pass, error) {
	j, count := &t.joint, r.Chain.Count
	if err := d.startChain(ctx, *r.Chain); err != nil {
		return nil, err
	}
	j.chain.Reset(r.Chain.Pending[len(r.Chain.Pending)-1])
	for i := range count {
		j.chain.Add(int32(i), 0, 0)
	}
	if err := t.begin(ctx, &j.chain, r.Sampling); err != nil {
		return nil, err
	}
	j.placeWords = [sample.KeepWords]uint32{1, uint32(count)}
	if err := t.Dev.Write(j.place.Buffer, j.place.Offset, webgpu.U32Bytes(j.placeWords[:])); err != nil {
		return nil, err
	}
	t.programs = append(append(t.programs[:0], d.programs...), j.copyTokens[d])
	t.regions = append(t.regions[:0], d.regions...)
	t.addPass(r, d, count+1)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	d.seq.MarkWritten()
	drawn, err := d.takeTokens(0, count)
	if err != nil {
		return nil, err
	}
	for i := range drawn {
		t.nodes[i+1] = drawn[i].Token
	}
	pass := t.decode(r, count+1)
	pass.Drawn = drawn
	return pass, nil
}
