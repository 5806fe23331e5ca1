package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/tree"
)

// pruner runs a classifier between the levels of a tree, so that one run drafts all of them.
type pruner struct {
	net        kernels.View        // Net of tree.RecordPrune; size 0 before the first use
	classifier spec.NodeClassifier // the classifier whose weights net holds
	depth      int                 // passes after the root's that the last tree may have
}

// perceptron converts a classifier to the device's form.
func perceptron(c *spec.NodeClassifier) tree.Perceptron {
	p := tree.Perceptron{Bias: float32(c.Bias)}
	for _, u := range c.Units {
		p.Units = append(p.Units, tree.PerceptronUnit{Probability: float32(u.Probability), Entropy: float32(u.Entropy),
			Depth: float32(u.Depth), Bias: float32(u.Bias), Output: float32(u.Output)})
	}
	return p
}

// holds reports whether net holds a classifier's weights.
func (p *pruner) holds(c *spec.NodeClassifier) bool {
	return p.classifier.Bias == c.Bias && slices.Equal(p.classifier.Units, c.Units)
}

// preparePruned compiles the programs of trees of k candidates a beam and up to depth passes after the root's whose
// beams a classifier chooses. If the device cannot run the classifier, it compiles programs for one run a level, over
// beams that the host chooses.
func (t *trees) preparePruned(depth, k int, c *spec.NodeClassifier) error {
	g := t.draft.Graph
	if k > tree.MostPruned || depth > levelLimit(k) || len(c.Units) > tree.MostPruneUnits {
		return t.prepareExpanded(0, k)
	}
	p, err := t.programsFor(depth, k)
	if err != nil {
		return err
	}
	if t.pruner.net.Size == 0 {
		if t.pruner.net, err = g.Buffer("classifier", 4*tree.PruneWords); err != nil {
			return err
		}
	}
	b := &graph.Batch{}
	for level := range p.levels[:depth] {
		l := &p.levels[level]
		if l.prune != 0 {
			continue
		}
		scores := p.buffers.scores
		s := tree.Pruning{Beams: 1, K: k, Depth: level, MaxDepth: maxPasses, Samples: p.root.records(k),
			To: scores[level].at, Paths: kernels.View{Buffer: scores[0].buffer, Size: 4 * len(scores[0].back)},
			Ancestors: p.unused[1], Slots: l.slots, NextTokens: l.pass.Tokens, NextAncestors: l.pass.Ancestors,
			Net: t.pruner.net}
		if level > 0 {
			above := &p.levels[level-1]
			s.Beams, s.Samples, s.Ancestors, s.From = k, above.out.records(k), above.pass.Ancestors, scores[level-1].at
		}
		s.Out = l.out.result.view(0, tree.SelectWords(s.Beams, k))
		r := g.Recorder(fmt.Sprintf("pruned beams of level %d by %d", level+1, k))
		tree.RecordPrune(r, s)
		b.Add(r, &l.prune)
	}
	if err := g.Build(b); err != nil {
		return err
	}
	if !t.pruner.holds(c) {
		net := perceptron(c)
		if err := g.Dev.Write(t.pruner.net.Buffer, t.pruner.net.Offset+4*tree.PruneHeadWords,
			webgpu.U32Bytes(net.Words())); err != nil {
			return err
		}
		t.pruner.classifier = *c
	}
	return nil
}

// prunedReady reports whether the programs of a pruned tree are compiled.
func (t *trees) prunedReady(r *spec.DraftRequest) bool {
	p := t.programs[r.K]
	return t.pruner.net.Size > 0 && t.pruner.holds(r.Classifier) && p != nil && len(p.levels) >= r.Depth &&
		(r.Depth == 0 || p.levels[r.Depth-1].prune != 0)
}

// draftPruned begins a tree whose beams a classifier chooses.
func (t *trees) draftPruned(ctx context.Context, r *spec.DraftRequest) ([]spec.Level, error) {
	d := t.draft
	if !t.prunedReady(r) {
		return nil, nil
	}
	ahead, p := min(max(r.Ahead, 0), r.Depth), t.programs[r.K]
	begun := *r
	begun.Depth, t.pruner.depth = ahead, r.Depth
	if err := t.start(ctx, &begun); err != nil {
		return nil, err
	}
	if ahead < r.Depth {
		// Also choose the beams of the next level and read them back: none left means that the tree is complete.
		if err := t.placeLevel(p, ahead, d.seq.Len(), pruned, nil); err != nil {
			return nil, err
		}
		next := p.levels[ahead].out.result
		next.words = picks(p.k)
		d.regions = next.read(d.regions)
	}
	head := tree.PruneHead(r.Nodes, r.Beta)
	if err := d.Graph.Dev.Write(t.pruner.net.Buffer, t.pruner.net.Offset, webgpu.U32Bytes(head[:])); err != nil {
		return nil, err
	}
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	levels, err := t.end(&begun)
	if err != nil {
		return nil, err
	}
	if g := &t.last; g.last() == ahead && ahead < r.Depth {
		g.choose(t.chosenBeams(&p.levels[ahead]))
	}
	return levels, nil
}

// finishPruned runs the beams that draftPruned left and grows the tree to its end. The classifier's counts and path
// probabilities continue from the last level's buffers.
func (t *trees) finishPruned() ([]spec.Level, error) {
	g := &t.last
	level := g.last()
	beams := g.levels[level].Beams
	if len(beams) == 0 || len(g.first) > level {
		return nil, errors.New("runner: the pruned tree is complete")
	}
	if err := t.draft.checkContext(g.base, t.pruner.depth); err != nil {
		return nil, err
	}
	return t.runLevels(level, t.pruner.depth, pruned, beams, level*g.programs.k)
}
