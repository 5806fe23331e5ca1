package foretoken

import (
	"context"
	"math/rand/v2"

	"foretoken/spec"
)

// CollectHetero drafts trees along a text and compares each with it: for every root one
// point for each of depths, the first of which is the tree that decoding uses, of top-k
// topK reranked to nodes. The points of one depth are comparable across roots and those
// of one root across depths.
func (s *Session) CollectHetero(ctx context.Context, c *Continuation, topK, nodes int, depths []int, o CollectOptions) ([][]spec.HeteroPoint, error) {
	if err := s.warmDraft(ctx); err != nil {
		return nil, err
	}
	deepest := 0
	for _, d := range depths {
		deepest = max(deepest, d)
	}
	if err := s.draft.Prepare(deepest, topK); err != nil {
		return nil, err
	}
	return collectHetero(ctx, s.draft, c, topK, nodes, depths, deepest, o)
}

func collectHetero(ctx context.Context, model spec.DraftModel, c *Continuation, topK, nodes int, depths []int, deepest int, o CollectOptions) ([][]spec.HeteroPoint, error) {
	var all [][]spec.HeteroPoint
	var builder spec.Builder
	err := walk(ctx, model, c, deepest, topK, o, func(root int32, levels []spec.Level, future []int32) (int, error) {
		points := make([]spec.HeteroPoint, len(depths))
		for i, d := range depths {
			var err error
			if points[i], err = spec.HeteroSample(levels[:d+1], nodes, future[:d+1]); err != nil {
				return 0, err
			}
		}
		all = append(all, points)
		tree, err := builder.Build(root, levels[:depths[0]+1], nodes)
		if err != nil {
			return 0, err
		}
		return followed(tree, future), nil
	})
	return all, err
}

// followed is how many of the tokens after the root are a path of the tree.
func followed(t *spec.Tree, future []int32) int {
	at := int32(0)
	for i, token := range future {
		if at = t.Child(at, token); at < 0 {
			return i
		}
	}
	return len(future)
}

// C2TTree is what an unpruned draft tree has to say to the training of a classifier: every
// node that the target accepted and a sample of the others.
type C2TTree struct {
	Accepted []spec.C2TFeatures `json:"accepted"`
	Others   []spec.C2TFeatures `json:"others"`
	// Rejected is how many nodes were not accepted, of which Others are a sample drawn
	// without replacement and with equal chances.
	Rejected int `json:"rejected"`
}

// CollectC2T drafts unpruned trees along a text: depth passes after the root's, k
// candidates a beam and k beams a level (k=10 and depth 10 give the 1,010 nodes of Huo et
// al., "C2T", §4.1). Of the nodes that were not accepted it keeps at most others a tree,
// drawn by o.Seed.
func (s *Session) CollectC2T(ctx context.Context, c *Continuation, depth, k, others int, o CollectOptions) ([]C2TTree, error) {
	if err := s.warmDraft(ctx); err != nil {
		return nil, err
	}
	if err := s.draft.Prepare(depth, k); err != nil {
		return nil, err
	}
	return collectC2T(ctx, s.draft, c, depth, k, others, o)
}

func collectC2T(ctx context.Context, model spec.DraftModel, c *Continuation, depth, k, others int, o CollectOptions) ([]C2TTree, error) {
	var all []C2TTree
	rng := rand.New(rand.NewPCG(o.Seed, uint64(len(c.Prompt))))
	var nodes []spec.C2TSample
	err := walk(ctx, model, c, depth, k, o, func(_ int32, levels []spec.Level, future []int32) (int, error) {
		t := C2TTree{Accepted: []spec.C2TFeatures{}, Others: []spec.C2TFeatures{}}
		nodes = spec.C2TSamples(nodes[:0], levels, future)
		accepted := 0
		for _, n := range nodes {
			if n.Accepted {
				t.Accepted = append(t.Accepted, n.C2TFeatures)
				accepted = n.Depth
				continue
			}
			// Reservoir sampling: the nth of them takes a place with chance others/n.
			t.Rejected++
			if len(t.Others) < others {
				t.Others = append(t.Others, n.C2TFeatures)
			} else if at := rng.IntN(t.Rejected); at < others {
				t.Others[at] = n.C2TFeatures
			}
		}
		all = append(all, t)
		return accepted, nil
	})
	return all, err
}
