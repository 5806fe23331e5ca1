package spec

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// C2T's β where a Config gives none, for trees and for chains: within the ranges its
// paper uses.
const (
	DefaultBeta      = 0.5
	DefaultChainBeta = 0.8
)

// C2TSamples appends to dst the nodes of an unpruned tree, one for every candidate of
// every level, compared with what the target said after the same root. Nodes deeper
// than the continuation goes are left out: nobody judged them. Candidates of
// probability zero, and repeated ones, are no nodes.
func C2TSamples(dst []C2TSample, levels []Level, continuation []int32) []C2TSample {
	if len(levels) > len(continuation) {
		levels = levels[:len(continuation)]
	}
	var s c2tScan
	s.begin()
	accepted := []bool{true} // per proposing beam: the path to it is what the target said
	for d := range levels {
		l := &levels[d]
		nodes := s.level(l)
		for _, n := range nodes {
			c := l.Candidates[n.candidate]
			dst = append(dst, C2TSample{n.features, accepted[c.Beam] && c.Token == continuation[d]})
		}
		s.feed(l, l.Beams)
		next := make([]bool, len(l.Beams))
		for i, b := range l.Beams {
			c := l.Candidates[b]
			next[i] = accepted[c.Beam] && c.Token == continuation[d]
		}
		accepted = next
	}
	return dst
}

// c2tScan walks down drafted levels and works out features.
type c2tScan struct {
	depth int
	paths []float64 // ln of Π q, per proposing beam
	next  []float64
	nodes []c2tNode
}

// c2tNode is a candidate that can become a node.
type c2tNode struct {
	candidate  int32
	features   C2TFeatures
	confidence float64
}

func (s *c2tScan) begin() { s.depth, s.paths = 0, append(s.paths[:0], 0) }

// level gives the candidates of the next level, valid until the next call.
func (s *c2tScan) level(l *Level) []c2tNode {
	s.depth++
	s.nodes = s.nodes[:0]
	for i, c := range l.Candidates {
		// The comparison is false for NaN as well.
		if int(c.Beam) >= len(s.paths) || !(c.LogQ > float32(math.Inf(-1))) || repeated(l.Candidates, i) {
			continue
		}
		f := C2TFeatures{Probability: math.Exp(s.paths[c.Beam] + float64(min(c.LogQ, 0))), Depth: s.depth}
		if int(c.Beam) < len(l.Entropies) {
			f.Entropy = float64(l.Entropies[c.Beam])
		}
		s.nodes = append(s.nodes, c2tNode{candidate: int32(i), features: f})
	}
	return s.nodes
}

// feed goes on from candidates of the level that became beams.
func (s *c2tScan) feed(l *Level, beams []int32) {
	s.next = s.next[:0]
	for _, b := range beams {
		c := l.Candidates[b]
		s.next = append(s.next, s.paths[c.Beam]+float64(min(c.LogQ, 0)))
	}
	s.paths, s.next = s.next, s.paths
}

// C2TDrafter grows a tree that a classifier prunes twice at every level: of each node's
// top-k children those stay whose confidence exceeds Beta, and of all that stay the
// k most confident. They are expanded and, in the end, verified: there is no
// reranking (Huo et al., "C2T", §3.2). A first level of which nothing stays makes the
// round a step of plain decoding.
type C2TDrafter struct {
	Model      Grower
	Classifier *C2TClassifier
	TopK       int
	Depth      int     // levels of tokens, at most
	Beta       float64 // β; in the open interval (0, 1)
	OnePruning bool    // leaves out the second pruning, as far as the draft's widest pass allows
	Uncoupled  bool    // see TreeDrafter
}

var (
	_ Drafter       = (*C2TDrafter)(nil)
	_ ReadbackTimer = (*C2TDrafter)(nil)
)

// Begin implements Drafter.
func (c *C2TDrafter) Begin(ctx context.Context, prompt []int32, s Sampling, progress func(int)) (DraftSession, error) {
	session := &c2tSession{
		treeDraft: treeDraft{feed: feed{model: c.Model}, coupled: s.Temperature > 0 && !c.Uncoupled, sampling: s},
		drafter:   c,
	}
	return session, session.begin(ctx, prompt, progress)
}

// ReadbackTime is the model's.
func (c *C2TDrafter) ReadbackTime() time.Duration { return readback(c.Model) }

type c2tSession struct {
	treeDraft
	drafter *C2TDrafter
	scan    c2tScan
	tree    Tree
	beam    []int32 // per node of the tree: its place among the beams of its level, -1: not fed
	nodes   []int32 // per proposing beam: its node
	kept    []int32 // candidates of the level that stay
	reach   reach   // of trees that the device prunes
	beams   []int32 // of the committed path
}

func (c *c2tSession) Propose(ctx context.Context, seq []int32, b Budget) (*Draft, error) {
	root := seq[len(seq)-1]
	c.drafted = false
	c.tree.Reset(root)
	c.draft = Draft{Tree: &c.tree}
	lim := c.model.Limits()
	k := min(c.drafter.TopK, b.Width, lim.TopK, lim.MaxRows)
	widest := k // beams of a pass
	if c.drafter.OnePruning {
		widest = min(lim.TopK, lim.MaxRows)
	}
	most := min(c.drafter.Depth, b.Levels, c.levels(seq, widest))
	if most < 1 || b.Nodes < 2 {
		return &c.draft, nil
	}
	pending, err := c.pending(ctx, seq)
	if err != nil {
		return nil, err
	}
	r := DraftRequest{Pending: pending, K: k, Coupled: c.coupled, Sampling: c.sampling}
	whole := PruneRequest{DraftRequest: r, Classifier: c.drafter.Classifier, Beta: c.drafter.Beta, Nodes: b.Nodes}
	whole.Depth = most - 1
	whole.Ahead = c.reach.next(whole.Depth)
	pruner, ok := c.drafter.Model.(Pruner)
	ok = ok && !c.drafter.OnePruning && pruner.Prunes(&whole)
	var levels []Level
	if ok {
		levels, err = pruner.DraftPruned(ctx, whole)
		if err == nil && len(levels[len(levels)-1].Beams) > 0 {
			levels, err = pruner.GrowPruned(ctx)
		}
	} else {
		levels, err = c.drafter.Model.DraftTree(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	if err := c.consumed(seq); err != nil {
		return nil, err
	}
	c.drafted = true
	c.scan.begin()
	c.beam, c.nodes = append(c.beam[:0], -1), append(c.nodes[:0], 0)
	if ok {
		c.reach.add(len(levels) - 1)
		c.draft.Levels = levels
		return &c.draft, c.pruned(levels, widest, b.Nodes)
	}
	for {
		last := &levels[len(levels)-1]
		c.prune(last, min(widest, b.Nodes-c.tree.Len()))
		if err := c.add(last); err != nil {
			return nil, err
		}
		if len(c.kept) == 0 || len(levels) >= most || c.tree.Len() >= b.Nodes {
			break
		}
		c.feed(last)
		before := len(levels)
		if levels, err = c.drafter.Model.Expand(ctx, c.kept); err != nil {
			return nil, err
		}
		if len(levels) != before+1 {
			return nil, fmt.Errorf("spec: the draft model expanded %d levels to %d", before, len(levels))
		}
	}
	c.draft.Levels = levels
	return &c.draft, nil
}

// pruned makes the tree of levels that the device has pruned, all but the last.
func (c *c2tSession) pruned(levels []Level, widest, nodes int) error {
	for i := range levels {
		l := &levels[i]
		if i+1 == len(levels) {
			c.prune(l, min(widest, nodes-c.tree.Len()))
			return c.add(l)
		}
		c.scan.depth++
		c.kept = append(c.kept[:0], l.Beams...)
		if err := c.add(l); err != nil {
			return err
		}
		c.feed(l)
	}
	return nil
}

// feed makes what stayed of a level its beams.
func (c *c2tSession) feed(l *Level) {
	c.scan.feed(l, c.kept)
	first := len(c.beam) - len(c.kept)
	for i := range c.kept {
		c.beam[first+i] = int32(i)
	}
}

// prune leaves in c.kept, in order of candidates, those of a level that stay, at most room.
func (c *c2tSession) prune(l *Level, room int) {
	nodes := c.scan.level(l)
	stay := nodes[:0]
	for _, n := range nodes {
		if n.confidence = c.drafter.Classifier.Confidence(n.features); n.confidence > c.drafter.Beta {
			stay = append(stay, n)
		}
	}
	if len(stay) > room {
		slices.SortStableFunc(stay, func(a, b c2tNode) int {
			switch {
			case a.confidence > b.confidence:
				return -1
			case a.confidence < b.confidence:
				return 1
			}
			return 0
		})
		stay = stay[:room]
	}
	c.kept = c.kept[:0]
	for _, n := range stay {
		c.kept = append(c.kept, n.candidate)
	}
	slices.Sort(c.kept)
}

// add makes nodes of what stayed.
func (c *c2tSession) add(l *Level) error {
	first := int32(c.tree.Len())
	for _, k := range c.kept {
		cand := l.Candidates[k]
		if cand.Beam < 0 || int(cand.Beam) >= len(c.nodes) {
			return fmt.Errorf("spec: a drafted candidate names beam %d of %d", cand.Beam, len(c.nodes))
		}
		under := c.nodes[cand.Beam]
		c.tree.Add(under, cand.Token, c.tree.Scores[under]+min(cand.LogQ, 0))
		c.beam = append(c.beam, -1)
	}
	c.nodes = c.nodes[:0]
	for i := range c.kept {
		c.nodes = append(c.nodes, first+int32(i))
	}
	return nil
}

// Commit implements DraftSession.
func (c *c2tSession) Commit(path []int32) error {
	if !c.drafted {
		return nil
	}
	c.drafted = false
	c.beams = c.beams[:0]
	for _, n := range path[1:] {
		if c.beam[n] < 0 {
			break
		}
		c.beams = append(c.beams, c.beam[n])
	}
	return c.commit(c.beams)
}

// c2t sets the drafter of C2T's tree.
func (c Config) c2t(p *Parts, target Target, draft DraftModel) error {
	model, err := c.grower(draft)
	if err != nil {
		return err
	}
	beta, err := c.beta()
	if err != nil {
		return err
	}
	p.Drafter = &C2TDrafter{
		Model: model, Classifier: c.Aids.C2T, TopK: c.TopK, Depth: c.Depth + 1,
		Beta: beta, OnePruning: c.OnePruning, Uncoupled: c.uncoupled(),
	}
	return nil
}

func (c Config) beta() (float64, error) {
	switch {
	case c.Threshold == 0 && c.Drafter == DrafterChain:
		return DefaultChainBeta, nil
	case c.Threshold == 0:
		return DefaultBeta, nil
	case c.Threshold >= 1:
		return 0, fmt.Errorf("spec: c2t's threshold is %v, want less than 1: no confidence exceeds it", c.Threshold)
	}
	return c.Threshold, nil
}

// C2TRule is C2T on a chain, where it is an early exit: the chain ends before the first
// token whose confidence does not exceed β.
type C2TRule struct {
	Fixed
	Classifier *C2TClassifier
	Beta       float64
}

var _ ChainCutter = (*C2TRule)(nil)

// Keep implements ChainCutter.
func (c *C2TRule) Keep(drawn []Drawn) bool {
	f := C2TFeatures{Probability: 1, Depth: len(drawn)}
	for _, d := range drawn {
		f.Probability *= min(float64(d.Prob), 1)
	}
	f.Entropy = float64(drawn[len(drawn)-1].Entropy)
	return c.Classifier.Confidence(f) > c.Beta
}

// Stop implements ChainRule: a token that stays never ends the chain.
func (c *C2TRule) Stop([]Drawn) bool { return false }

// c2tRule is C2T on a chain.
func (c Config) c2tRule() (ChainRule, error) {
	beta, err := c.beta()
	if err != nil {
		return nil, err
	}
	return &C2TRule{Fixed: Fixed(c.Budget()), Classifier: c.Aids.C2T, Beta: beta}, nil
}
