package runner

import (
	"math"
	"math/rand/v2"
	"testing"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/spec/spectest"
	"foretoken/webgpu"
)

// randomAdjustment returns an adjustment of n nodes. Some nodes have no mask or no biases.
func randomAdjustment(rng *rand.Rand, n, vocab, own int) *spec.Adjustment {
	s := &spec.Adjustment{Nodes: n}
	for range 3 {
		mask := make([]uint32, (vocab+31)/32)
		for i := range mask {
			mask[i] = rng.Uint32() & rng.Uint32()
		}
		s.Masks = append(s.Masks, mask)
	}
	biases := func(n int) (out []spec.Bias) {
		for _, id := range rng.Perm(vocab)[:n] {
			out = append(out, spec.Bias{Token: int32(id), Add: float32(rng.NormFloat64() * 5)})
		}
		return out
	}
	s.Common = biases(vocab / 3)
	for range n {
		s.Which = append(s.Which, int32(rng.IntN(4))-1)
		s.Own = append(s.Own, biases(rng.IntN(own+1)))
	}
	return s
}

// adjusted applies an adjustment to a node's logits.
func adjusted(z []float32, s *spec.Adjustment, node int) []float32 {
	out := append([]float32(nil), z...)
	add := map[int32]float32{}
	for _, b := range s.Common {
		add[b.Token] = b.Add
	}
	for _, b := range s.Own[node] {
		add[b.Token] = b.Add
	}
	for id, v := range add {
		out[id] += v
	}
	if w := s.Which[node]; w >= 0 {
		for id := range out {
			if s.Masks[w][id/32]>>(id%32)&1 == 0 {
				out[id] = -1e30
			}
		}
	}
	return out
}

// TestAdjust compares every node of adjusted trees, in one part and in several, with the unadjusted logits changed on
// the host and with plain decoding of the path to the node.
func TestAdjust(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		m := loadTarget(t, dev, "tiny-q8_0", graph.Options{MaxRows: 192, PassRows: 64})
		rng := rand.New(rand.NewPCG(8, 8))
		restart(t, m, text[:len(text)-1])
		sizes := []int{1, 12, 70}
		if testing.Short() {
			sizes = sizes[1:2]
		}
		for _, n := range sizes {
			tree := randomTree(rng, text[len(text)-1], n, 6, m.Graph.Options.Vocab)
			adjustment := randomAdjustment(rng, n, m.Graph.Options.Vocab, 5)
			for _, s := range []spec.Sampling{{}, {Temperature: 0.9, Seed: 3},
				{Temperature: 1, TopK: 20, TopP: 0.9, Seed: 4}} {
				verify := func(tree *spec.Tree, with *spec.Adjustment) []spec.NodeOutput {
					t.Helper()
					if with != nil {
						if err := m.Adjust(with); err != nil {
							t.Fatal(err)
						}
					}
					got, err := verify(m, tree, s)
					if err != nil {
						t.Fatal(err)
					}
					out := make([]spec.NodeOutput, len(got))
					for i := range got {
						out[i] = output(got[i])
					}
					return out
				}
				before := verify(tree, nil)
				var logits [][]float32
				if n <= 64 {
					for i := range n {
						logits = append(logits, append([]float32(nil), m.logitsOf(t, i)...))
					}
				}
				got := verify(tree, adjustment)
				common := &spec.Adjustment{Nodes: n, Common: []spec.Bias{{Token: 9, Add: 1e4}}}
				for i, out := range verify(tree, common) {
					if out.Token != 9 || out.TopIDs[0] != 9 {
						t.Fatalf("%d nodes: node %d drew %d with a bias of all nodes to 9", n, i, out.Token)
					}
				}
				made := dev.Counters()
				again := verify(tree, adjustment)
				after := dev.Counters()
				if after.Buffers != made.Buffers || after.Programs != made.Programs ||
					after.Kernels != made.Kernels || after.Submits != made.Submits+1 {
					t.Errorf("%d nodes: from %+v to %+v", n, made, after)
				}
				for i := range n {
					if !sameOutput(got[i], again[i]) {
						t.Fatalf("%d nodes: node %d is %+v, then %+v", n, i, got[i], again[i])
					}
					token := got[i].Token
					if w := adjustment.Which[i]; w >= 0 && adjustment.Masks[w][token/32]>>(token%32)&1 == 0 {
						t.Fatalf("%d nodes: node %d drew token %d, which its mask leaves out", n, i, got[i].Token)
					}
				}
				for i, z := range logits {
					want, single := adjusted(z, adjustment, i), make([]float32, 2)
					if err := m.Logits([]int32{int32(i), int32(i)}, []int32{got[i].Token, 3}, single); err != nil {
						t.Fatal(err)
					}
					if single[0] != want[got[i].Token] || single[1] != want[3] {
						t.Fatalf("%d nodes: logits %g of node %d, want %g and %g", n, single, i, want[got[i].Token],
							want[3])
					}
					if token := spectest.Draw(s, want, spec.StreamTarget,
						uint32(m.Len()+int(tree.Depths[i])+1)); token != got[i].Token {
						t.Fatalf("%d nodes, %+v: node %d drew %d, want %d", n, s, i, got[i].Token, token)
					}
					total, most := 0.0, math.Inf(-1)
					for _, v := range want {
						most = max(most, float64(v))
					}
					for _, v := range want {
						total += math.Exp(float64(v) - most)
					}
					if lse := most + math.Log(total); math.Abs(lse-float64(got[i].LogSumExp)) > 1e-4 {
						t.Fatalf("%d nodes: the log-sum-exp of node %d is %g, want %g", n, i, got[i].LogSumExp, lse)
					}
				}
				// The last node, decoded plainly with its part of the adjustment.
				last := n - 1
				var path []int32
				for i := int32(last); i >= 0; i = tree.Parents[i] {
					path = append([]int32{i}, path...)
				}
				held := m.Len()
				var single []spec.NodeOutput
				for _, i := range path {
					single = verify(node(tree.Tokens[i]), &spec.Adjustment{Nodes: 1, Masks: adjustment.Masks,
						Which: adjustment.Which[i : i+1], Common: adjustment.Common, Own: adjustment.Own[i : i+1]})
					if err := m.Commit([]int32{0}); err != nil {
						t.Fatal(err)
					}
				}
				if !sameOutput(single[0], got[last]) {
					t.Fatalf("%d nodes: node %d is\n%+v, decoded plainly\n%+v", n, last, got[last], single[0])
				}
				restart(t, m, text[:held])
				for i, out := range verify(tree, nil) { // the next pass is not adjusted
					if !sameOutput(out, before[i]) {
						t.Fatalf("%d nodes: node %d is %+v after adjusted passes, %+v before", n, i, out, before[i])
					}
				}
			}
		}
	})
}

func TestAdjustRefuses(t *testing.T) {
	m := loadTarget(t, accelerator(t), "tiny-q8_0", graph.Options{MaxRows: 8})
	words := make([]uint32, (m.Graph.Options.Vocab+31)/32)
	o := &m.Graph.Options
	for what, s := range map[string]*spec.Adjustment{
		"too many nodes":  {Nodes: 9, Masks: [][]uint32{words}, Which: make([]int32, 9)},
		"a short mask":    {Nodes: 1, Masks: [][]uint32{words[1:]}, Which: []int32{0}},
		"no such mask":    {Nodes: 1, Masks: [][]uint32{words}, Which: []int32{1}},
		"too many masks":  {Nodes: 1, Masks: make([][]uint32, 9), Which: []int32{0}},
		"too many biases": {Nodes: 1, Common: make([]spec.Bias, o.Vocab+o.Context+maxCommonBiases)},
		"more than nodes": {Nodes: 1, Own: make([][]spec.Bias, 2)},
		"too many of one": {Nodes: 1, Own: [][]spec.Bias{make([]spec.Bias, 500)}},
	} {
		if err := m.Adjust(s); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
	restart(t, m, text)
	if _, err := verify(m, node(1), spec.Sampling{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]int32{{1, 0}, {-1, 0}, {0, -1}, {0, int32(m.Graph.Options.Vocab)}} {
		if err := m.Logits(c[:1], c[1:], make([]float32, 1)); err == nil {
			t.Errorf("the logit of node %d and token %d was returned", c[0], c[1])
		}
	}
}
