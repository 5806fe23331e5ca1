package runner

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
	target  *Target
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

// prepare compiles the programs of passes that compare with a draft's distributions, and of passes that follow a
// draft in the same run.
func (j *jointRuns) prepare(d *Draft, p spec.Programs) error {
	switch p.Pass {
	case spec.PassChain, spec.PassDivergence:
		return j.prepareChains(d, p.Budget.Levels, p.Pass == spec.PassDivergence)
	case spec.PassSampled:
		return j.prepareDrawn(d, p.Budget)
	}
	for _, k := range p.Widths {
		if err := j.prepareGather(d, k); err != nil {
			return err
		}
	}
	return nil
}

// prepareChains compiles the programs for chains of up to most tokens.
func (j *jointRuns) prepareChains(d *Draft, most int, divergence bool) error {
	t := j.target
	if err := d.chain.prepare(most); err != nil {
		return err
	}
	if err := t.passes.prepare(most + 1); err != nil {
		return err
	}
	for k := 1; k <= most; k++ {
		if err := t.compare.prepareChain(chainKey{d, k, divergence}); err != nil {
			return err
		}
	}
	if j.copyTokens[d] != 0 {
		return nil
	}
	if j.copyTokens == nil {
		var err error
		if j.place, err = t.Graph.Buffer("place of drawn tokens", 4*sample.KeepWords); err != nil {
			return err
		}
		j.copyTokens = map[*Draft]webgpu.Program{}
	}
	r := t.Graph.Recorder("drawn tokens")
	sample.RecordKeep(r, kernels.Logits{View: d.chain.records, Rows: d.chain.most(), Vocab: 1, Stride: recordWords},
		j.place,
		kernels.Logits{View: t.passes.batch.Tokens, Rows: t.passes.batch.Capacity(), Vocab: 1, Stride: 1})
	_, err := graph.BuildInto(t.Graph, j.copyTokens, d, r)
	return err
}

// prepareDrawn compiles the programs for trees drawn without replacement within a budget. Those that are too large to
// gather are drafted and verified in separate runs.
func (j *jointRuns) prepareDrawn(d *Draft, b spec.Budget) error {
	t := j.target
	depth, gathers := 0, treekernel.Gathered(b.Levels, b.Width) <= treekernel.MostGathered
	if gathers {
		depth = b.Levels - 1
	}
	if err := d.trees.prepareDrawn(depth, b.Width); err != nil {
		return err
	}
	if err := t.compare.prepareTrees(d, t.passes.distinct(b.Nodes)); err != nil || !gathers {
		return err
	}
	if err := j.prepareGather(d, b.Width); err != nil {
		return err
	}
	return t.compare.prepareSiblings(b.Nodes)
}

// prepareGather compiles the program that gathers trees of k candidates a beam.
func (j *jointRuns) prepareGather(d *Draft, k int) error {
	t := j.target
	key := gatherKey{d, k}
	if _, ok := j.gathers[key]; ok {
		return nil
	}
	p, err := d.trees.programsFor(0, k)
	if err != nil {
		return err
	}
	if j.gathers == nil {
		words := treekernel.GatherHeadWords + 2*t.Graph.Options.MaxRows
		if j.head, err = t.Graph.Buffer("tree to gather", 4*words); err != nil {
			return err
		}
		j.gathers, j.words = map[gatherKey]webgpu.Program{}, make([]uint32, 0, words)
	}
	b, result := t.passes.batch, p.buffers.result
	first, level := result[0].words, 0
	if len(result) > 1 {
		level = result[1].words
	}
	r := t.Graph.Recorder(fmt.Sprintf("gather by %d", k))
	drafted := kernels.View{Buffer: result[0].buffer, Size: 4 * (first + (len(result)-1)*level)}
	treekernel.RecordGather(r, treekernel.Gathering{K: k, Drafted: drafted, First: first, Level: level,
		Picks: picks(k), Head: j.head, Tokens: b.Tokens, Drawn: b.Drawn, Rows: b.Rows, Ancestors: b.Ancestors,
		Stride: b.Stride, Chosen: t.passes.results.gathered.view})
	_, err = graph.BuildInto(t.Graph, j.gathers, key, r)
	return err
}

// requestNodes returns the most nodes of a request's tree.
func requestNodes(r *spec.DraftRequest) int {
	if r.Layout != nil {
		return 1 + len(r.Layout.Chosen)
	}
	return min(r.Nodes, 1+treekernel.Gathered(r.Depth+1, r.K))
}

// run drafts and verifies in one submit and one readback.
func (j *jointRuns) run(ctx context.Context, r *spec.PassRequest) (*spec.Pass, error) {
	d, ok := r.Model.(*Draft)
	if !ok {
		return nil, nil
	}
	if r.Chain != nil {
		if !j.chainReady(d, r) {
			return nil, nil
		}
		return j.runChain(ctx, d, r)
	}
	if !j.treeReady(d, r) {
		return nil, nil
	}
	return j.runTree(ctx, d, r)
}

// treeReady reports whether a tree can be gathered on the device and verified there.
func (j *jointRuns) treeReady(d *Draft, r *spec.PassRequest) bool {
	t := j.target
	of := r.Draft
	levels, n := of.Depth+1, requestNodes(of)
	if of.Depth < 0 || of.Classifier != nil || j.gathers[gatherKey{d, of.K}] == 0 ||
		levels > treekernel.GatherLevels || levels >= t.passes.batch.Stride || !d.trees.ready(of) ||
		treekernel.Gathered(levels, of.K) > treekernel.MostGathered || n > min(t.Graph.PassRows(), t.passes.prepared) {
		return false
	}
	return r.Kind == spec.PassOutputs ||
		of.Drawn && t.compare.ready(d, n) && t.compare.siblingFills[t.passes.last(n)] != 0
}

// runTree drafts the levels, chooses the nodes, which tree.RecordGather writes to the input of the target's
// pass, and verifies them.
func (j *jointRuns) runTree(ctx context.Context, d *Draft, r *spec.PassRequest) (*spec.Pass, error) {
	t := j.target
	of, n := r.Draft, requestNodes(r.Draft)
	if err := j.writeGatherHead(n, of); err != nil { // before the draft consumes the pending tokens
		return nil, err
	}
	if err := t.writeDraw(r.Sampling, spec.StreamTarget, false); err != nil {
		return nil, err
	}
	if err := d.trees.start(ctx, of); err != nil {
		return nil, err
	}
	t.adjuster.now = spec.AdjustmentKinds{}
	t.programs = append(append(t.programs[:0], d.programs...), j.gathers[gatherKey{d, of.K}])
	t.regions = append(t.regions[:0], d.regions...)
	t.regions = append(t.regions, t.passes.results.read(t.passes.results.gathered, n))
	if r.Kind == spec.PassSampled {
		if err := t.compare.awaitTree(of, t.Len(), n); err != nil {
			return nil, err
		}
		t.programs = append(t.programs, t.compare.siblingFills[t.passes.last(n)])
	}
	t.addPass(r, d, n)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	d.seq.MarkWritten()
	levels, err := d.trees.end(of)
	if err != nil {
		return nil, err
	}
	tree, err := r.Builder.BuildFor(of, levels)
	if err != nil {
		return nil, err
	}
	var pass *spec.Pass
	if j.gathered(tree, levels, of.K, n) {
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
func (j *jointRuns) gathered(tree *spec.Tree, levels []spec.Level, k, n int) bool {
	t := j.target
	if !j.sameTree(tree, levels, k, n) {
		return false
	}
	t.nodes = append(t.nodes[:0], tree.Tokens...)
	t.seq.Release(t.slots[tree.Len():])
	t.slots = t.slots[:tree.Len()]
	return true
}

// writeGatherHead uploads the parameters for gathering a tree of up to n nodes after the committed tokens.
func (j *jointRuns) writeGatherHead(n int, r *spec.DraftRequest) error {
	t := j.target
	base, levels := t.Len(), r.Depth+1
	if base+levels >= t.Graph.Options.Context {
		return fmt.Errorf("runner: position %d does not fit a context of %d", base+levels, t.Graph.Options.Context)
	}
	t.release()
	var err error
	if t.slots, err = t.seq.Take(n, t.slots[:0]); err != nil {
		return err
	}
	if err := t.seq.Flush(); err != nil {
		return err
	}
	j.words = append(j.words[:0], uint32(levels), uint32(n), uint32(t.passes.padded(n)), uint32(base), t.seq.Padding(),
		uint32(r.Root()), 0)
	j.words = append(j.words, t.slots...)
	if r.Layout != nil {
		j.words[6] = 1
		j.words = append(j.words, treekernel.NotGathered)
		for _, c := range r.Layout.Chosen {
			j.words = append(j.words, uint32(c))
		}
	}
	return t.Graph.Dev.Write(j.head.Buffer, j.head.Offset, webgpu.U32Bytes(j.words))
}

// sameTree reports whether the device gathered the tree that the host built from the same levels by k.
func (j *jointRuns) sameTree(tree *spec.Tree, levels []spec.Level, k, n int) bool {
	t := j.target
	chosen := t.passes.results.of(t.passes.results.gathered, n)
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
func (j *jointRuns) chainReady(d *Draft, r *spec.PassRequest) bool {
	t := j.target
	n := r.Chain.Count
	return j.copyTokens[d] != 0 && t.compare.chains[chainKey{d, n, r.Kind == spec.PassDivergence}] != 0 &&
		len(d.chain.steps) >= n-1 && n < min(t.Graph.PassRows(), t.passes.prepared)
}

// runChain samples a chain, copies its tokens to the target's pass and verifies it.
func (j *jointRuns) runChain(ctx context.Context, d *Draft, r *spec.PassRequest) (*spec.Pass, error) {
	t := j.target
	count := r.Chain.Count
	j.chain.Reset(r.Chain.Pending[len(r.Chain.Pending)-1])
	for i := range count {
		j.chain.Add(int32(i), 0, 0)
	}
	if err := t.begin(ctx, &j.chain, r.Sampling); err != nil { // before the draft consumes the pending tokens
		return nil, err
	}
	if err := d.chain.start(ctx, *r.Chain); err != nil {
		return nil, err
	}
	j.placeWords = [sample.KeepWords]uint32{1, uint32(count)}
	if err := t.Graph.Dev.Write(j.place.Buffer, j.place.Offset, webgpu.U32Bytes(j.placeWords[:])); err != nil {
		return nil, err
	}
	t.programs = append(append(t.programs[:0], d.programs...), j.copyTokens[d])
	t.regions = append(t.regions[:0], d.regions...)
	t.addPass(r, d, count+1)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	d.seq.MarkWritten()
	drawn, err := d.chain.take(0, count)
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
