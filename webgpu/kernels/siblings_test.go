package kernels

import (
	"fmt"
	"slices"
	"testing"

	"foretoken/webgpu"
)

// TestSiblings completes plans of which only the numbers of children were known, and leaves what is not theirs alone.
func TestSiblings(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, counts := range [][]int{{3, 0, 2, 1, 0, 0, 0}, {0}, {64, 1, 0, 5}, slices.Repeat([]int{1}, 70)} {
			var want, plan TreePlan
			tokens, children := []int32{77}, [][]int32{}
			for i, n := range counts {
				children = append(children, nil)
				for j := range n {
					children[i] = append(children[i], int32((j*j*37+i*11)%32000))
				}
				tokens = append(tokens, children[i]...)
			}
			for i, n := range counts {
				want.Add(uint32(i), uint32(2*i), children[i])
				plan.Await(uint32(i), uint32(2*i), n)
			}
			if !slices.Equal(plan.Nodes, want.Nodes) {
				t.Fatalf("nodes %v, want %v", plan.Nodes, want.Nodes)
			}
			words := make([]uint32, len(tokens))
			for i, token := range tokens {
				words[i] = uint32(token)
			}
			nodes, from, out := b.u32(plan.Nodes), b.u32(words), b.poisoned(len(want.Children)+1)
			got := b.run(func(r *Recorder) { r.Siblings(len(counts), nodes, from, out) }, out)[0]
			if fmt.Sprint(got) != fmt.Sprint(append(slices.Clone(want.Children), 0x7fc0dead)) {
				t.Fatalf("children of %v: %v, want %v", counts, got, want.Children)
			}
			b.free(nodes, from, out)
		}
	})
}
