package llama

import (
	"context"
	"errors"
	"fmt"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/tree"
)

// pruner runs C2T's classifier between the levels of a tree, so that one run drafts all of them.
type pruner struct {
	net        kernels.View        // Net of tree.RecordPrune; size 0 before the first use
	classifier *spec.C2TClassifier // the classifier whose weights net holds
	depth      int                 // passes after the root's that the last tree may have
}

// perceptron converts a classifier to the device's form, with the scales of its inputs folded into the weights.
func perceptron(c *spec.C2TClassifier) tree.Perceptron {
	p := tree.Perceptron{Bias: float32(c.OutputBias)}
	for i, weights := range c.Hidden {
		u := tree.PerceptronUnit{Output: float32(c.Output[i])}
		bias := c.HiddenBias[i]
		for j, name := range c.Features {
			w := weights[j] / c.Scale[j]
			bias -= w * c.Mean[j]
			switch name {
			case spec.FeatureEntropy:
				u.Entropy = float32(w)
			case spec.FeatureDepth:
				u.Depth = float32(w)
			default:
				u.Probability = float32(w)
			}
		}
		u.Bias = float32(bias)
		p.Units = append(p.Units, u)
	}
	return p
}

// PreparePruned compiles the programs of DraftPruned for trees of k candidates a beam and up to depth passes after
// the root's. If the device cannot run the classifier, it compiles those of a run for each level instead.
func (d *Draft) PreparePruned(depth, k int, c *spec.C2TClassifier) error {
	if k > tree.MostPruned || len(c.Hidden) > tree.MostPruneUnits {
		return d.PrepareGrowth(depth, k, true)
	}
	p, err := d.plan(depth, k)
	if err != nil {
		return err
	}
	if d.pruner.net.Size == 0 {
		if d.pruner.net, err = d.newBuffer("classifier", 4*tree.PruneWords); err != nil {
			return err
		}
	}
	b := &programBatch{}
	for level := range p.levels[:depth] {
		l := &p.levels[level]
		if l.prune != 0 {
			continue
		}
		scores := p.buffers.scores
		s := tree.Pruning{Beams: 1, K: k, Depth: level, MaxDepth: maxPasses, Samples: p.root.records(k),
			To: scores[level].at, Paths: kernels.View{Buffer: scores[0].buffer, Size: 4 * len(scores[0].back)},
			Ancestors: p.unused[1], Slots: l.slots, NextTokens: l.pass.Tokens, NextAncestors: l.pass.Ancestors,
			Net: d.pruner.net}
		if level > 0 {
			above := &p.levels[level-1]
			s.Beams, s.Samples, s.Ancestors, s.From = k, above.out.records(k), above.pass.Ancestors, scores[level-1].at
		}
		s.Out = l.out.result.view(0, tree.SelectWords(s.Beams, k))
		r := d.recorder(fmt.Sprintf("pruned beams of level %d by %d", level+1, k))
		tree.RecordPrune(r, s)
		b.add(r, &l.prune)
	}
	if err := d.buildBatch(b); err != nil {
		return err
	}
	if d.pruner.classifier != c {
		net := perceptron(c)
		if err := d.dev.Write(d.pruner.net.Buffer, d.pruner.net.Offset+4*tree.PruneHeadWords,
			webgpu.U32Bytes(net.Words())); err != nil {
			return err
		}
		d.pruner.classifier = c
	}
	return nil
}

// prunedReady reports whether the programs of DraftPruned are compiled.
func (d *Draft) prunedReady(r *spec.PruneRequest) bool {
	p := d.plans[r.K]
	return d.pruner.classifier == r.Classifier && p != nil && len(p.levels) >= r.Depth &&
		(r.Depth == 0 || p.levels[r.Depth-1].prune != 0)
}

// DraftPruned begins a tree whose beams a classifier chooses, in one submit and one readback.
func (d *Draft) DraftPruned(ctx context.Context, r spec.PruneRequest) ([]spec.Level, error) {
	if !d.prunedReady(&r) {
		return nil, nil
	}
	ahead, p := min(max(r.Ahead, 0), r.Depth), d.plans[r.K]
	request := r.DraftRequest
	r.DraftRequest.Depth, d.pruner.depth = ahead, request.Depth
	if err := d.startTree(ctx, r.DraftRequest, pruned, nil); err != nil {
		return nil, err
	}
	if ahead < request.Depth {
		// Also choose the beams of the next level and read them back: none left means that the tree is complete.
		if err := d.placeLevel(p, ahead, d.Len(), pruned, nil); err != nil {
			return nil, err
		}
		next := p.levels[ahead].out.result
		next.words = picks(p.k)
		d.regions = next.read(d.regions)
	}
	head := tree.PruneHead(r.Nodes, r.Beta)
	if err := d.dev.Write(d.pruner.net.Buffer, d.pruner.net.Offset, webgpu.U32Bytes(head[:])); err != nil {
		return nil, err
	}
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	levels, err := d.endTree(r.DraftRequest, pruned, nil)
	if err != nil {
		return nil, err
	}
	if g := &d.tree; g.last() == ahead && ahead < request.Depth {
		g.choose(d.chosenBeams(&p.levels[ahead], pruned))
	}
	return levels, nil
}

// GrowPruned runs the beams that DraftPruned left and grows the tree to its end, in one submit and one readback.
// The classifier's counts and path probabilities continue from the last level's buffers.
func (d *Draft) GrowPruned(ctx context.Context) ([]spec.Level, error) {
	g := &d.tree
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g.plan == nil {
		return nil, errNoTree
	}
	level, p := g.last(), g.plan
	beams := g.levels[level].Beams
	if len(beams) == 0 || len(g.first) > level {
		return nil, errors.New("llama: no unfinished pruned tree to grow; DraftPruned begins one")
	}
	if err := d.checkContext(g.base, d.pruner.depth); err != nil {
		return nil, err
	}
	levels := p.levels[level:d.pruner.depth]
	d.programs = d.programs[:0]
	d.addForward(&levels[0], pruned)
	for i := 1; i < len(levels); i++ {
		if err := d.addLevel(p, level+i, g.base, pruned, nil); err != nil {
			return nil, err
		}
	}
	d.readLevels(nil, levels)
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	g.extend(beams, level*p.k)
	g.decode(&levels[0].out, len(beams), d.estimator != nil)
	d.decodeLevels(levels[1:], (level+1)*p.k, pruned, nil)
	return d.drafted()
}
