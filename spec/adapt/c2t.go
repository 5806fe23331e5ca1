package adapt

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"foretoken/spec"
	"foretoken/spec/draft"
)

// Default values of C2T's β for trees and for chains, within the ranges of its paper.
const (
	DefaultBeta      = 0.5
	DefaultChainBeta = 0.8
)

// C2TSamples appends to dst a sample for every node of an unpruned tree, that is, for every candidate of every
// level, labelled by the target's continuation after the same root. It leaves out nodes deeper than the
// continuation, which have no label, and candidates that are repeated or have probability zero, which are not
// nodes.
func C2TSamples(dst []C2TSample, levels []spec.Level, continuation []int32) []C2TSample {
	if len(levels) > len(continuation) {
		levels = levels[:len(continuation)]
	}
	var s c2tScan
	s.begin()
	accepted := []bool{true} // per proposing beam: its path is a prefix of the continuation
	for d := range levels {
		l := &levels[d]
		isNext := func(candidate int32) bool {
			c := l.Candidates[candidate]
			return accepted[c.Beam] && c.Token == continuation[d]
		}
		for _, n := range s.level(l) {
			dst = append(dst, C2TSample{C2TFeatures: n.features, Accepted: isNext(n.candidate)})
		}
		s.expand(l, l.Beams)
		var next []bool
		for _, b := range l.Beams {
			next = append(next, isNext(b))
		}
		accepted = next
	}
	return dst
}

// c2tScan follows drafted levels from the root and computes the features of their candidates.
type c2tScan struct {
	depth int
	paths []float64 // ln of Π q, per proposing beam
	next  []float64
	nodes []c2tNode
}

// c2tNode is a candidate with a finite log-probability that repeats no other.
type c2tNode struct {
	candidate  int32
	features   C2TFeatures
	confidence float64
}

func (s *c2tScan) begin() { s.depth, s.paths = 0, append(s.paths[:0], 0) }

// level returns the nodes of the next level. The slice is valid until the next call.
func (s *c2tScan) level(l *spec.Level) []c2tNode {
	s.depth++
	s.nodes = s.nodes[:0]
	for i, c := range l.Candidates {
		// The comparison is false for NaN as well.
		if int(c.Beam) >= len(s.paths) || !(c.LogQ > float32(math.Inf(-1))) || l.Repeats(i) {
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

// expand makes the given candidates of the level the beams of the next one.
func (s *c2tScan) expand(l *spec.Level, beams []int32) {
	s.next = s.next[:0]
	for _, b := range beams {
		c := l.Candidates[b]
		s.next = append(s.next, s.paths[c.Beam]+float64(min(c.LogQ, 0)))
	}
	s.paths, s.next = s.next, s.paths
}

// C2TDrafter grows a tree that a classifier prunes twice per level: of each node's top-k children it keeps the ones
// whose confidence exceeds Beta, and among all of these the k most confident. The survivors are expanded and, in the
// end, verified without reranking (Huo et al., "C2T", §3.2). The tree ends when the budget has no room for more nodes.
// If no node of the first level survives, the round is a step of plain decoding.
type C2TDrafter struct {
	Model      spec.DraftModel
	Classifier *C2TClassifier
	TopK       int
	Depth      int     // levels of tokens, at most
	Beta       float64 // β; in the open interval (0, 1)
	// OnePruning skips the second pruning (appendix A): a level keeps all nodes above Beta, and the next pass expands
	// as many as the model takes in one, the most confident ones.
	OnePruning bool
	Uncoupled  bool // see draft.TreeDrafter
}

var _ spec.Drafter = (*C2TDrafter)(nil)

func (c *C2TDrafter) Begin(ctx context.Context, o spec.SessionOptions) (spec.DraftSession, error) {
	session := &c2tSession{LevelSession: draft.NewLevelSession(c.Model, o, c.Uncoupled), drafter: c,
		network: c.Classifier.Network()}
	return session, session.Prefill(ctx, o)
}

type c2tSession struct {
	draft.LevelSession
	drafter   *C2TDrafter
	network   *spec.NodeClassifier // for the device
	scan      c2tScan
	nodes     []int32       // per proposing beam: its node
	kept      []c2tNode     // surviving nodes of the level; until the scan of the next
	survivors []int32       // their candidates, in order
	beams     []int32       // the ones that the next pass expands, in order
	passes    passPredictor // predicts the passes of trees that the device prunes
}

func (c *c2tSession) Propose(ctx context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	d := c.ProposeRoot(seq)
	lim := c.Model.Limits()
	k := min(c.drafter.TopK, b.Width, lim.TopK, lim.MaxRows)
	widest, most := k, k // beams of a pass, nodes of a level
	if c.drafter.OnePruning {
		widest, most = min(lim.TopK, lim.MaxRows), b.Nodes
	}
	depth := min(c.drafter.Depth, b.Levels, c.Levels(len(seq), widest))
	if depth < 1 || b.Nodes < 2 {
		return d, nil
	}
	var levels []spec.Level
	pruned := false // by the device
	err := c.Consume(ctx, seq, func(pending []int32) (err error) {
		r := spec.DraftRequest{Pending: pending, K: k, Coupled: c.Coupled, Sampling: c.Sampling,
			EntropyTop: c.drafter.Classifier.EntropyTop}
		if !c.drafter.OnePruning && r.EntropyTop == 0 {
			request := r
			request.Depth, request.Nodes, request.Ahead = depth-1, b.Nodes, c.passes.next(depth-1)
			request.Classifier, request.Beta = c.network, c.drafter.Beta
			if levels, err = c.Model.Draft(ctx, request); err != nil {
				return err
			}
		}
		if pruned = levels != nil; !pruned {
			levels, err = c.Model.Draft(ctx, r)
		} else if len(levels[len(levels)-1].Beams) > 0 {
			levels, err = c.Model.Extend(ctx, spec.Extension{})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.UsedModel = true
	c.scan.begin()
	c.nodes = append(c.nodes[:0], 0)
	if pruned {
		c.passes.add(len(levels) - 1)
		d.Levels = levels
		return d, c.pruned(levels, k, b.Nodes)
	}
	for {
		last := &levels[len(levels)-1]
		c.prune(last, min(most, b.Nodes-c.Tree.Len()))
		if err := c.add(last); err != nil {
			return nil, err
		}
		if len(c.survivors) == 0 || len(levels) >= depth || c.Tree.Len() >= b.Nodes {
			break
		}
		c.beams = candidates(c.beams, c.kept, widest)
		c.expand(last)
		before := len(levels)
		if levels, err = c.Model.Extend(ctx, spec.Extension{Beams: c.beams}); err != nil {
			return nil, err
		}
		if len(levels) != before+1 {
			return nil, fmt.Errorf("spec: the draft model expanded %d levels to %d", before, len(levels))
		}
	}
	d.Levels = levels
	return d, nil
}

// pruned builds the tree from levels of which the device has pruned all but the last to k nodes each.
func (c *c2tSession) pruned(levels []spec.Level, k, nodes int) error {
	for i := range levels {
		l := &levels[i]
		if i+1 == len(levels) {
			c.prune(l, min(k, nodes-c.Tree.Len()))
			return c.add(l)
		}
		c.scan.depth++
		c.survivors = append(c.survivors[:0], l.Beams...)
		c.beams = append(c.beams[:0], l.Beams...)
		if err := c.add(l); err != nil {
			return err
		}
		c.expand(l)
	}
	return nil
}

// expand makes c.beams, among the survivors that were added last, the beams of the level.
func (c *c2tSession) expand(l *spec.Level) {
	c.scan.expand(l, c.beams)
	first := c.Tree.Len() - len(c.survivors)
	c.nodes = c.nodes[:0]
	for i, candidate := range c.beams {
		at, _ := slices.BinarySearch(c.survivors, candidate)
		c.Beam[first+at] = int32(i)
		c.nodes = append(c.nodes, int32(first+at))
	}
}

// prune stores the surviving candidates of a level in c.kept and, in candidate order, in c.survivors, at most room of
// them.
func (c *c2tSession) prune(l *spec.Level, room int) {
	nodes := c.scan.level(l)
	stay := nodes[:0]
	for _, n := range nodes {
		if n.confidence = c.drafter.Classifier.Confidence(n.features); n.confidence > c.drafter.Beta {
			stay = append(stay, n)
		}
	}
	c.kept = stay[:min(len(stay), room)]
	c.survivors = candidates(c.survivors, stay, room)
}

// candidates stores the candidates of the most confident nodes in dst, in order, at most room of them. Ties go to the
// lower candidate.
func candidates(dst []int32, nodes []c2tNode, room int) []int32 {
	if len(nodes) > room {
		slices.SortStableFunc(nodes, func(a, b c2tNode) int { return cmp.Compare(b.confidence, a.confidence) })
		nodes = nodes[:room]
	}
	dst = dst[:0]
	for _, n := range nodes {
		dst = append(dst, n.candidate)
	}
	slices.Sort(dst)
	return dst
}

// add appends the surviving candidates to the tree.
func (c *c2tSession) add(l *spec.Level) error {
	for _, k := range c.survivors {
		cand := l.Candidates[k]
		if cand.Beam < 0 || int(cand.Beam) >= len(c.nodes) {
			return fmt.Errorf("spec: a drafted candidate names beam %d of %d", cand.Beam, len(c.nodes))
		}
		under := c.nodes[cand.Beam]
		c.Tree.Add(under, cand.Token, c.Tree.Scores[under]+min(cand.LogQ, 0))
		c.Beam = append(c.Beam, -1)
	}
	return nil
}

// C2TRule applies C2T to a chain, where it is an early exit: it stops at the first token whose confidence does not
// exceed β. The paper drops that token; see draft.RankedChain.Cut.
type C2TRule struct {
	spec.Fixed
	Classifier *C2TClassifier
	Beta       float64
}

var _ draft.ChainRule = (*C2TRule)(nil)

func (c *C2TRule) Stop(drawn []spec.Drawn) bool {
	f := C2TFeatures{Probability: 1, Depth: len(drawn)}
	for _, d := range drawn {
		f.Probability *= min(float64(d.Prob), 1)
	}
	f.Entropy = float64(drawn[len(drawn)-1].Entropy)
	return !(c.Classifier.Confidence(f) > c.Beta) // NaN stops
}
