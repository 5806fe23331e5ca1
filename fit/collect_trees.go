package fit

import (
	"context"
	"math/rand/v2"

	"foretoken"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

// HeteroPoints drafts trees along a text, of a depth and with top-k topK reranked to nodes, and compares each with it:
// every root yields one point.
func HeteroPoints(ctx context.Context, s *foretoken.Session, c *Continuation, topK, nodes, depth int,
	o Options) ([]adapt.HeteroPoint, error) {
	return withGrower(ctx, s, depth, topK, o, func(model grower) ([]adapt.HeteroPoint, error) {
		return collectHetero(ctx, model, c, topK, nodes, depth, o)
	})
}

func collectHetero(ctx context.Context, model grower, c *Continuation, topK, nodes, depth int,
	o Options) ([]adapt.HeteroPoint, error) {
	var all []adapt.HeteroPoint
	var builder spec.Builder
	err := teacherForce(ctx, model, c, depth, topK, o,
		func(root int32, levels []spec.Level, future []int32) (int, error) {
			point, err := adapt.HeteroSample(levels, nodes, future[:depth+1])
			if err != nil {
				return 0, err
			}
			all = append(all, point)
			tree, err := builder.Build(root, levels, nodes)
			if err != nil {
				return 0, err
			}
			return followed(tree, future), nil
		})
	return all, err
}

// followed counts the tokens after the root that form a path of the tree.
func followed(t *spec.Tree, future []int32) int {
	at := int32(0)
	for i, token := range future {
		if at = t.Child(at, token); at < 0 {
			return i
		}
	}
	return len(future)
}

// C2TTree holds the training examples of an unpruned draft tree: every accepted node and a sample of the others.
type C2TTree struct {
	Accepted []adapt.C2TFeatures `json:"accepted"`
	Others   []adapt.C2TFeatures `json:"others"`
	// Rejected counts the nodes that were not accepted. Others is a uniform sample of them without replacement.
	Rejected int `json:"rejected"`
}

// C2TTrees drafts unpruned trees along a text: depth passes after the root's, k candidates per beam and k beams per
// level (k=10 and depth 10 give the 1,010 nodes of Huo et al., "C2T", §4.1). It keeps at most others rejected nodes
// per tree, drawn by o.Seed.
func C2TTrees(ctx context.Context, s *foretoken.Session, c *Continuation, depth, k, others int,
	o Options) ([]C2TTree, error) {
	return withGrower(ctx, s, depth, k, o, func(model grower) ([]C2TTree, error) {
		return collectC2T(ctx, model, c, depth, k, others, o)
	})
}

func collectC2T(ctx context.Context, model grower, c *Continuation, depth, k, others int,
	o Options) ([]C2TTree, error) {
	var all []C2TTree
	rng := rand.New(rand.NewPCG(o.Seed, uint64(len(c.Prompt))))
	var nodes []adapt.C2TSample
	err := teacherForce(ctx, model, c, depth, k, o, func(_ int32, levels []spec.Level, future []int32) (int, error) {
		t := C2TTree{Accepted: []adapt.C2TFeatures{}, Others: []adapt.C2TFeatures{}}
		nodes = adapt.C2TSamples(nodes[:0], levels, future)
		accepted := 0
		for _, n := range nodes {
			if n.Accepted {
				t.Accepted = append(t.Accepted, n.C2TFeatures)
				accepted = n.Depth
				continue
			}
			// Reservoir sampling: the nth rejected node takes a place with probability others/n.
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
