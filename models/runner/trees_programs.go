package runner

import (
	"fmt"
	"slices"

	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
	"foretoken/webgpu/kernels/tree"
)

// maxPasses bounds the passes that grow a tree after the root's. It is the length of a row's list of drafted
// ancestors.
const maxPasses = 64

// treePrograms holds the programs and buffers of trees of k candidates a beam. They are compiled, and extended to more
// levels, before the first round that needs them; nothing is compiled during decoding.
//
// Draft and grow run several levels in one submit: the device chooses a level's beams and runs them through the
// level's own pass. Beams that the host chose go through the draft's one host pass, at any level, and their
// candidates come back in host.
//
// The results of the root and of all possible levels lie in one buffer at equal distances, so that one readback
// covers them and a target can find its nodes in them.
type treePrograms struct {
	k       int
	root    proposal // of the root
	levels  []levelPrograms
	buffers levelBuffers
	unused  [2]kernels.View // outputs of the first selection that are not used
	host    []proposal      // of a host pass, by bucket; compiled at first use
}

// levelBuffers holds the memory of all possible levels, recorded or not.
type levelBuffers struct {
	inputs                webgpu.Buffer // inputs of the passes
	slots, scores, result []result      // result[0] is the root's
	places                []result      // of sample.RecordKeep, for drawn levels; nil until the first use
}

// proposal holds k candidates for each row of a pass's logits.
type proposal struct {
	result    result
	rows      int
	at        int            // word of the result where the candidates begin
	estimates int            // word of the result where the acceptance head's estimates begin, (rows) f32
	rank      webgpu.Program // the best candidates
	draw      webgpu.Program // candidates drawn without replacement; compiled at first use
	accept    estimates      // of acceptance heads
	top       webgpu.Program // entropies of the likeliest tokens; compiled at first use
	filtered  result         // their records, sample.RecordFilter's
}

// levelPrograms holds the programs and views of a level after the root's.
type levelPrograms struct {
	pass    kv.Pass
	slots   kernels.View   // u32 (2k): the beams' slots and given candidates; see tree.Selection
	scores  kernels.View   // f32 (k): the beams' V
	out     proposal       // its result begins with the output of tree.RecordSelect
	choose  webgpu.Program // makes the best k candidates of the level above the beams of this one
	prune   webgpu.Program // the same with a classifier; compiled by preparePruned
	forward webgpu.Program // their blocks and logits
	store   webgpu.Program // copies the distributions that children are drawn from; compiled at first use
}

// prepareExpanded compiles the programs for trees of k candidates a beam and up to depth passes after the root's, and
// for passes over 1 to Limits.TopK beams that the host chose.
func (t *trees) prepareExpanded(depth, k int) error {
	p, err := t.programsFor(depth, k)
	if err != nil {
		return err
	}
	return t.prepareHost(p, kv.Buckets[:len(t.hostForward)]...)
}

// levelLimit returns how many passes of k beams fit in the spare KV slots.
func levelLimit(k int) int { return min((graph.TreeSlots-2*spec.MaxPending)/k, maxPasses) }

// checkK returns an error if the draft cannot propose k candidates a beam.
func (t *trees) checkK(k int) error {
	g := t.draft.Graph
	if k < 1 || k > g.Options.TopK {
		return fmt.Errorf("runner: %s: a top-k of %d; the draft supports 1 to %d candidates a beam", g.File, k,
			g.Options.TopK)
	}
	return nil
}

// programsFor returns the programs of trees of k candidates a beam and depth passes after the root's, and compiles the
// missing ones.
func (t *trees) programsFor(depth, k int) (*treePrograms, error) {
	d := t.draft
	if err := t.checkK(k); err != nil {
		return nil, err
	}
	if depth < 0 || depth > levelLimit(k) {
		return nil, fmt.Errorf("runner: %s: a depth of %d with a top-k of %d; "+
			"with that top-k the draft supports at most %d levels after the first", d.Graph.File, depth, k,
			levelLimit(k))
	}
	p := t.programs[k]
	if p != nil && len(p.levels) >= depth {
		return p, t.prepareEstimates(p)
	}
	d.Graph.Preparing(fmt.Sprintf("recording a tree of %d levels by %d", depth+1, k))
	b := &graph.Batch{}
	if p == nil {
		p = &treePrograms{k: k, host: make([]proposal, len(t.hostForward))}
		if err := t.allocate(p); err != nil {
			return nil, err
		}
		spare, err := newResults(d.Graph, "unused", k, maxPasses*k)
		if err != nil {
			return nil, err
		}
		p.unused = [2]kernels.View{spare[0].view(0, k), spare[1].view(0, maxPasses*k)}
		t.propose(b, &p.root, k, ranked, d.rootPass.Drawn)
	}
	levels, err := t.deepen(b, p, depth)
	if err != nil {
		return nil, err
	}
	if err := d.Graph.Build(b); err != nil {
		return nil, err
	}
	p.levels, t.programs[k] = levels, p
	return p, t.prepareEstimates(p)
}

// allocate makes the buffers of the root and of the levels.
func (t *trees) allocate(p *treePrograms) error {
	g := t.draft.Graph
	k, most := p.k, levelLimit(p.k)
	inputs, err := g.Buffer("draft inputs", 4*max(most, 1)*kv.PassWords(k, maxPasses))
	if err != nil {
		return err
	}
	p.buffers.inputs = inputs.Buffer
	if p.buffers.slots, err = newResults(g, "draft slots", slices.Repeat([]int{2 * k}, max(most, 1))...); err != nil {
		return err
	}
	if p.buffers.scores, err = newResults(g, "draft scores", slices.Repeat([]int{k}, max(most, 1))...); err != nil {
		return err
	}
	words := slices.Repeat([]int{picks(k) + webgpu.AlignWords(k*kernels.SampleWords(k)) + k}, most+1)
	words[0] = webgpu.AlignWords(kernels.SampleWords(k)) + 1
	if p.buffers.result, err = newResults(g, "draft results", words...); err != nil {
		return err
	}
	p.root.place(p.buffers.result[0], 0, 1, k)
	return nil
}

// picks returns the size in words of tree.RecordSelect's output, with which a level's result begins.
func picks(k int) int { return webgpu.AlignWords(tree.SelectWords(k, k)) }

// place puts a proposal of n rows at word at of a result.
func (p *proposal) place(r result, at, n, k int) {
	p.result, p.rows, p.at = r, n, at
	p.estimates = at + webgpu.AlignWords(n*kernels.SampleWords(k))
}

// records returns the view of sample.Record's output.
func (p *proposal) records(k int) kernels.View {
	return p.result.view(p.at, p.rows*kernels.SampleWords(k))
}

// propose records how a pass's candidates are ranked by ln q, or by their coupled scores; with the rule drawn, how k a
// row are drawn without replacement.
func (t *trees) propose(b *graph.Batch, out *proposal, k int, rule candidateRule, positions kernels.View) {
	g := t.draft.Graph
	label, score, program := "candidates", sample.LogProbs, &out.rank
	if rule == drawn {
		label, score, program = "children", sample.TemperedLogProbs, &out.draw
	}
	r := g.Recorder(fmt.Sprintf("%s %d by %d", label, out.rows, k))
	sample.Record(r, g.Kernels.Lanes, g.LogitRows(out.rows), k, score, g.Space.Draw, positions, g.Space.Scratch,
		out.records(k))
	b.Add(r, program)
}

// deepen records the levels that p lacks and returns all of them.
func (t *trees) deepen(b *graph.Batch, p *treePrograms, depth int) ([]levelPrograms, error) {
	d := t.draft
	from := len(p.levels)
	levels := make([]levelPrograms, max(depth, from))
	copy(levels, p.levels)
	if depth <= from {
		return levels, nil
	}
	k, room := p.k, &p.buffers
	for level := from; level < depth; level++ { // the beams are candidates of the level above; level 0 follows the root
		l, result := &levels[level], room.result[level+1]
		l.pass = kv.NewPass(d.seq, room.inputs, 4*level*kv.PassWords(k, maxPasses), k, maxPasses)
		l.slots, l.scores = room.slots[level].view(0, 2*k), room.scores[level].view(0, k)
		l.out.place(result, picks(k), k, k)
		s := tree.Selection{Beams: 1, K: k, Depth: level, MaxDepth: maxPasses, Samples: p.root.records(k),
			Scores: p.unused[0], Ancestors: p.unused[1],
			Slots: l.slots, NextTokens: l.pass.Tokens, NextScores: l.scores, NextAncestors: l.pass.Ancestors}
		if level > 0 {
			above := &levels[level-1]
			s.Beams, s.Samples, s.Scores, s.Ancestors = k, above.out.records(k), above.scores, above.pass.Ancestors
		}
		s.Out = result.view(0, tree.SelectWords(s.Beams, k))
		choose := d.Graph.Recorder(fmt.Sprintf("beams of level %d by %d", level+1, k))
		tree.RecordSelect(choose, s)
		forward := d.Graph.Recorder(fmt.Sprintf("draft level %d by %d", level+1, k))
		d.Graph.Forward(forward, &l.pass, k)
		d.Graph.Head(forward, 0, k, 0)
		b.Add(choose, &l.choose)
		b.Add(forward, &l.forward)
		t.propose(b, &l.out, k, ranked, l.pass.Drawn)
	}
	return levels, nil
}

// candidateRule is a rule for taking candidates from a pass and choosing the next beams.
type candidateRule int

const (
	ranked candidateRule = iota // the best by ln q
	drawn                       // drawn without replacement
	pruned                      // ranked, with beams chosen by a classifier
)

func (p *treePrograms) hostProposal(n int) *proposal { return &p.host[kv.Bucket(n)] }

// prepareHost compiles the missing programs of host passes of the given rows.
func (t *trees) prepareHost(p *treePrograms, rows ...int) error {
	g := t.draft.Graph
	b := &graph.Batch{}
	for _, n := range rows {
		at := kv.Bucket(n)
		n = kv.Buckets[at]
		if t.hostForward[at] == 0 {
			r := g.Recorder(fmt.Sprintf("draft beams %d", n))
			g.Forward(r, &t.hostPass, n)
			g.Head(r, 0, n, 0)
			b.Add(r, &t.hostForward[at])
		}
		out := p.hostProposal(n)
		if out.rows == 0 {
			results, err := newResults(g, "candidates", webgpu.AlignWords(n*kernels.SampleWords(p.k))+n)
			if err != nil {
				return err
			}
			out.place(results[0], 0, n, p.k)
		}
		if out.rank == 0 {
			t.propose(b, out, p.k, ranked, t.hostPass.Drawn)
		}
		t.addEstimate(b, out)
	}
	if !b.Empty() {
		g.Preparing(fmt.Sprintf("recording beams by %d", p.k))
	}
	return g.Build(b)
}
