package fit

import (
	"context"
	"math/rand/v2"
	"slices"

	"foretoken"
	"foretoken/spec"
	"foretoken/spec/adapt"
)

// HeteroPoints drafts trees along a text and compares each with it. Every root yields one point per depth; the
// first depth is that of the tree in use, with top-k topK reranked to nodes. Points are comparable across roots at
// one depth, and across depths at one root.
func HeteroPoints(ctx context.Context, s *foretoken.Session, c *Continuation, topK, nodes int, depths []int,
	o Options) ([][]adapt.HeteroPoint, error) {
	deepest := slices.Max(depths)
	return withGrower(ctx, s, deepest, topK, o, func(model grower) ([][]adapt.HeteroPoint, error) {
		return collectHetero(ctx, model, c, topK, nodes, depths, deepest, o)
	})
}

func collectHetero(ctx context.Context, model grower, c *Continuation, topK, nodes int, depths []int,
	deepest int, o Options) ([][]adapt.HeteroPoint, error) {
	var all [][]adapt.HeteroPoint
	var builder spec.Builder
	err := teacherForce(ctx, model, c, deepest, topK, o,
		func(root int32, levels []spec.Level, future []int32) (int, error) {
			points := make([]adapt.HeteroPoint, len(depths))
			for i, d := range depths {
				var err error
				if points[i], err = adapt.HeteroSample(levels[:d+1], nodes, future[:d+1]); err != nil {
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

// HeteroColumns rearranges the points of all texts into one column per depth.
func HeteroColumns(all [][][]adapt.HeteroPoint, n int) [][]adapt.HeteroPoint {
	columns := make([][]adapt.HeteroPoint, n)
	for _, text := range all {
		for _, round := range text {
			for i, p := range round {
				columns[i] = append(columns[i], p)
			}
		}
	}
	return columns
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
	Accepted []spec.C2TFeatures `json:"accepted"`
	Others   []spec.C2TFeatures `json:"others"`
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
	var nodes []spec.C2TSample
	err := teacherForce(ctx, model, c, depth, k, o, func(_ int32, levels []spec.Level, future []int32) (int, error) {
		t := C2TTree{Accepted: []spec.C2TFeatures{}, Others: []spec.C2TFeatures{}}
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
