package llama

import (
	"context"
	"errors"
	"fmt"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// pruner runs C2T's classifier between the levels of a tree that is drafted in one run.
type pruner struct {
	net        kernels.View        // kernels.Prune's Net; of no size before the first use
	classifier *spec.C2TClassifier // whose weights it holds
	depth      int                 // passes after the root's that the last tree may have
}

// perceptron is a classifier as the device evaluates it, with its inputs' scales in the weights.
func perceptron(c *spec.C2TClassifier) kernels.Perceptron {
	p := kernels.Perceptron{Bias: float32(c.OutputBias)}
	for i, weights := range c.Hidden {
		u := kernels.PerceptronUnit{Output: float32(c.Output[i])}
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

// PreparePruned makes the programs of trees of k candidates a beam and up to depth passes after the root's that a classifier prunes, by
// DraftPruned, where the device can run it: a run of its own for every level takes its place otherwise.
func (d *Draft) PreparePruned(depth, k int, c *spec.C2TClassifier) error {
	if k > kernels.MostPruned || len(c.Hidden) > kernels.MostPruneUnits {
		return d.PrepareGrowth(depth, k, true)
	}
	p, err := d.plan(depth, k)
	if err != nil {
		return err
	}
	if d.pruner.net.Size == 0 {
		if d.pruner.net, err = d.storage("classifier", 4*kernels.PruneWords); err != nil {
			return err
		}
	}
	b := &batch{}
	for level := range p.levels[:depth] {
		l := &p.levels[level]
		if l.prune != 0 {
			continue
		}
		scores := p.room.scores
		s := kernels.Pruning{Beams: 1, K: k, Depth: level, MaxDepth: maxPasses, Samples: p.root.records(k), To: scores[level].at,
			Paths:     kernels.View{Buffer: scores[0].buffer, Size: 4 * len(scores[0].back)},
			Ancestors: p.spare[1], Slots: l.own, NextTokens: l.pass.tokens, NextAncestors: l.pass.ancestors, Net: d.pruner.net}
		if level > 0 {
			above := &p.levels[level-1]
			s.Beams, s.Samples, s.Ancestors, s.From = k, above.out.records(k), above.pass.ancestors, scores[level-1].at
		}
		s.Out = l.out.result.view(0, kernels.SelectWords(s.Beams, k))
		r := d.recorder(fmt.Sprintf("pruned beams of level %d by %d", level+1, k))
		r.Prune(s)
		b.add(r, &l.prune)
	}
	if err := d.make(b); err != nil {
		return err
	}
	if d.pruner.classifier != c {
		net := perceptron(c)
		if err := d.dev.Write(d.pruner.net.Buffer, d.pruner.net.Offset+4*kernels.PruneHeadWords, webgpu.U32Bytes(net.Words())); err != nil {
			return err
		}
		d.pruner.classifier = c
	}
	return nil
}

// Prunes implements spec.Pruner.
func (d *Draft) Prunes(r *spec.PruneRequest) bool {
	p := d.plans[r.K]
	return d.pruner.classifier == r.Classifier && p != nil && len(p.levels) >= r.Depth && (r.Depth == 0 || p.levels[r.Depth-1].prune != 0)
}

// DraftPruned begins a tree whose beams a classifier chooses, in one submit and one readback. Prunes must have said that it can.
func (d *Draft) DraftPruned(ctx context.Context, r spec.PruneRequest) ([]spec.Level, error) {
	return d.draftPruned(ctx, d, r)
}

// DraftPruned is Draft's, from the target's features.
func (e *EAGLE3) DraftPruned(ctx context.Context, r spec.PruneRequest) ([]spec.Level, error) {
	return e.Draft.draftPruned(ctx, e, r)
}

func (d *Draft) draftPruned(ctx context.Context, starter treeStarter, r spec.PruneRequest) ([]spec.Level, error) {
	if !d.Prunes(&r) {
		return nil, fmt.Errorf("llama: a tree of %d levels by %d was to be pruned by a classifier; prepare it with PreparePruned", r.Depth+1, r.K)
	}
	ahead, p := min(max(r.Ahead, 0), r.Depth), d.plans[r.K]
	whole := r.DraftRequest
	r.DraftRequest.Depth, d.pruner.depth = ahead, whole.Depth
	if err := starter.startTree(ctx, r.DraftRequest, pruned, nil); err != nil {
		return nil, err
	}
	if ahead < whole.Depth {
		// What would be fed next is chosen, and comes back: it tells whether the tree is whole.
		if err := d.seatLevel(p, ahead, d.Len(), pruned, nil); err != nil {
			return nil, err
		}
		next := p.levels[ahead].out.result
		next.words = picks(p.k)
		d.regions = next.read(d.regions)
	}
	head := kernels.PruneHead(r.Nodes, r.Beta)
	if err := d.dev.Write(d.pruner.net.Buffer, d.pruner.net.Offset, webgpu.U32Bytes(head[:])); err != nil {
		return nil, err
	}
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	levels := d.endTree(r.DraftRequest, pruned, nil)
	if g := &d.tree; g.last() == ahead && ahead < whole.Depth {
		g.choose(d.chosen(&p.levels[ahead], pruned))
	}
	return levels, nil
}

// GrowPruned feeds the beams that DraftPruned left and grows the tree to its end, in one submit and one readback. What the classifier
// counts and the paths that it multiplies are where the last level left them.
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
		return nil, errors.New("llama: the tree that a classifier pruned is whole, or none was begun; DraftPruned begins one")
	}
	if err := d.checkContext(g.base, d.pruner.depth); err != nil {
		return nil, err
	}
	levels := p.levels[level:d.pruner.depth]
	d.programs = d.programs[:0]
	d.feedLevel(&levels[0], pruned)
	for i := 1; i < len(levels); i++ {
		if err := d.placeLevel(p, level+i, g.base, pruned, nil); err != nil {
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
	return g.levels, nil
}
