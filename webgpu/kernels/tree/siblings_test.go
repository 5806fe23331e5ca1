package tree

import (
	"fmt"
	"slices"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestSiblings completes lists that were made with Await and checks that no other words change.
func TestSiblings(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, counts := range [][]int{{3, 0, 2, 1, 0, 0, 0}, {0}, {64, 1, 0, 5}, slices.Repeat([]int{1}, 70)} {
			var want, lists ChildLists
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
				lists.Await(uint32(i), uint32(2*i), n)
			}
			if !slices.Equal(lists.Nodes, want.Nodes) {
				t.Fatalf("nodes %v, want %v", lists.Nodes, want.Nodes)
			}
			words := make([]uint32, len(tokens))
			for i, token := range tokens {
				words[i] = uint32(token)
			}
			nodes, from, out := b.U32(lists.Nodes), b.U32(words), b.Poisoned(len(want.Children)+1)
			got := b.Run(func(r *kernels.Recorder) { RecordSiblings(r, len(counts), nodes, from, out) }, out)[0]
			if fmt.Sprint(got) != fmt.Sprint(append(slices.Clone(want.Children), 0x7fc0dead)) {
				t.Fatalf("children of %v: %v, want %v", counts, got, want.Children)
			}
			b.Free(nodes, from, out)
		}
	})
}
