package tree

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestGatheredNumbersCandidatesAsShapesDo compares the kernel's numbering of candidates with that of package spec.
func TestGatheredNumbersCandidatesAsShapesDo(t *testing.T) {
	for k := 1; k <= 8; k++ {
		for level := 1; level <= GatherLevels; level++ {
			first := spec.FirstCandidate(level, k)
			if Gathered(level, k) != first || GatheredLevel(uint32(first), k) != level ||
				GatheredLevel(uint32(first-1), k) != level-1 {
				t.Errorf("k %d, level %d: the first candidate is %d, %d levels have %d", k, level, first, level,
					Gathered(level, k))
			}
		}
	}
}

// draftedLevels returns random levels as a draft leaves them on the device, and as the host reads them.
func draftedLevels(rng *rand.Rand, levels, k, first, words, picks int, odd bool) ([]uint32, []spec.Level) {
	drafted, read := make([]uint32, first+(levels-1)*words), make([]spec.Level, levels)
	for l := range read {
		beams, samples := 1, drafted
		if l > 0 {
			beams = k
			result := drafted[first+(l-1)*words:]
			samples = result[picks:]
			for j, c := range rng.Perm(len(read[l-1].Candidates))[:k] {
				result[j] = uint32(c)
				read[l-1].Beams = append(read[l-1].Beams, int32(c))
			}
		}
		for beam := range beams {
			record := samples[beam*kernels.SampleWords(k)+4:]
			for i := range k {
				q := -float32(rng.ExpFloat64())
				if odd {
					q = []float32{-1, -1, -2, -0.5, 0, float32(math.Copysign(0, -1)), 1e-7, kernels.LowLogit,
						float32(math.NaN()), float32(math.Inf(-1)), float32(math.Inf(1)), -1e-3}[rng.IntN(12)]
				}
				token := rng.Uint32N(1000)
				if odd {
					token %= 12
				}
				record[i], record[k+i] = token, math.Float32bits(q)
				read[l].Candidates = append(read[l].Candidates,
					spec.Candidate{Token: int32(token), LogQ: q, Beam: int32(beam)})
			}
		}
	}
	return drafted, read
}

// TestGather compares the kernel with the tree that spec.Builder makes of the same levels: the same nodes in the
// same order, each row with its own path, and padding after them.
func TestGather(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b, rng := kerneltest.New(t, dev), rand.New(rand.NewPCG(3, 4))
		for _, c := range []struct{ levels, k, nodes int }{
			{1, 1, 2}, {5, 1, 6}, {5, 1, 3}, {1, 4, 5}, {4, 4, 12}, {4, 4, 53}, {4, 4, 64}, {6, 10, 60}, {2, 16, 64},
			{4, 17, 200}, {3, 22, 300},
		} {
			for _, odd := range []bool{false, true} {
				const stride, base, trash, padding = 70, 40, 7777, 5
				picks := SelectWords(c.k, c.k) + 3
				first, words := kernels.SampleWords(c.k)+5, picks+c.k*kernels.SampleWords(c.k)+7
				drafted, levels := draftedLevels(rng, c.levels, c.k, first, words, picks, odd)
				head := []uint32{uint32(c.levels), uint32(c.nodes), uint32(c.nodes + padding), base, trash, 9, 0}
				for range c.nodes {
					head = append(head, 1000+rng.Uint32N(5000))
				}
				head = append(head, make([]uint32, c.nodes)...)
				slots, n := head[GatherHeadWords:], c.nodes+padding
				g := Gathering{K: c.k, Drafted: b.U32(drafted), First: first, Level: words, Picks: picks,
					Head: b.U32(head), Tokens: b.Poisoned(n),
					Drawn: b.Poisoned(n), Rows: b.Poisoned(n * kernels.RowWords), Ancestors: b.Poisoned(n * stride),
					Stride: stride, Chosen: b.Poisoned(c.nodes)}
				got := b.Run(func(r *kernels.Recorder) {
					RecordGather(r, g)
				}, g.Tokens, g.Drawn, g.Rows, g.Ancestors, g.Chosen)
				b.Free(g.Drafted, g.Head, g.Tokens, g.Drawn, g.Rows, g.Ancestors, g.Chosen)
				var builder spec.Builder
				tree, err := builder.Build(9, levels, c.nodes)
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("%d levels by %d to %d nodes, odd %v", c.levels, c.k, c.nodes, odd)
				for i := range c.nodes {
					if i == 0 || i >= tree.Len() {
						if got[4][i] != NotGathered {
							t.Fatalf("%s: node %d is candidate %d, want none", what, i, got[4][i])
						}
					} else if got[4][i] != uint32(builder.Candidate(int32(i))) {
						t.Fatalf("%s: node %d is candidate %d, want %d", what, i, got[4][i],
							builder.Candidate(int32(i)))
					}
				}
				for i := range n {
					if i >= tree.Len() {
						kerneltest.SameBits(t, what+": padding",
							[]uint32{got[0][i], got[1][i], got[2][4*i], got[2][4*i+1], got[2][4*i+2], got[2][4*i+3],
								got[3][i*stride]},
							[]uint32{0, 1, 0, trash, 0, 0, trash})
						continue
					}
					position := base + uint32(tree.Depths[i])
					kerneltest.SameBits(t, what+": row",
						[]uint32{got[0][i], got[1][i], got[2][4*i], got[2][4*i+1], got[2][4*i+2], got[2][4*i+3]},
						[]uint32{uint32(tree.Tokens[i]), position + 1, position, slots[i], base, 0})
					var path []uint32
					for _, node := range tree.Path(nil, int32(i)) {
						path = append(path, slots[node])
					}
					kerneltest.SameBits(t, what+": path", got[3][i*stride:][:len(path)], path)
				}
			}
		}
	})
}

// TestGatherGiven gives the candidates of the nodes, in an order other than that of their values.
func TestGatherGiven(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b, rng := kerneltest.New(t, dev), rand.New(rand.NewPCG(5, 6))
		const k, levels, stride, base, n = 3, 3, 8, 11, 8
		picks := SelectWords(k, k)
		first := kernels.SampleWords(k)
		drafted, read := draftedLevels(rng, levels, k, first, picks+k*first, picks, false)
		// Two of the root's candidates, the later first, then the candidates of those that are beams.
		given := []uint32{0, 2, 0}
		for beam, c := range read[0].Beams {
			if c != 1 {
				given = append(given, uint32(k+beam*k+1))
			}
		}
		given[0] = NotGiven
		for beam, c := range read[1].Beams {
			if slices.Contains(given, uint32(k)+uint32(c)) {
				given = append(given, uint32(k+k*k+beam*k))
			}
		}
		nodes := len(given)
		head := append([]uint32{levels, uint32(nodes), n, base, 99, 9, 1}, make([]uint32, nodes)...)
		for i := range nodes {
			head[GatherHeadWords+i] = uint32(500 + i)
		}
		g := Gathering{K: k, Drafted: b.U32(drafted), First: kernels.SampleWords(k),
			Level: picks + k*kernels.SampleWords(k), Picks: picks, Head: b.U32(append(head, given...)),
			Tokens: b.Poisoned(n), Drawn: b.Poisoned(n), Rows: b.Poisoned(n * kernels.RowWords),
			Ancestors: b.Poisoned(n * stride), Stride: stride, Chosen: b.Poisoned(nodes)}
		got := b.Run(func(r *kernels.Recorder) { RecordGather(r, g) }, g.Tokens, g.Drawn, g.Ancestors, g.Chosen)
		kerneltest.SameBits(t, "chosen", got[3], given)
		for i := 1; i < nodes; i++ {
			level, c := 0, int(given[i])
			if c >= k {
				level, c = 1+(c-k)/(k*k), (c-k)%(k*k)
			}
			if want := uint32(read[level].Candidates[c].Token); got[0][i] != want || got[1][i] != base+uint32(level)+2 {
				t.Fatalf("node %d holds token %d at %d, want %d at %d", i, got[0][i], got[1][i], want, base+level+2)
			}
			path := []uint32{uint32(500 + i)}
			for l := level; l > 0; l-- {
				c = int(read[l-1].Beams[read[l].Candidates[c].Beam])
				number := uint32(c)
				if l > 1 {
					number += uint32(k + (l-2)*k*k)
				}
				path = append(path, uint32(500+slices.Index(given, number)))
			}
			path = append(path, 500)
			slices.Reverse(path)
			kerneltest.SameBits(t, fmt.Sprintf("path of node %d", i), got[2][i*stride:][:len(path)], path)
		}
	})
}
