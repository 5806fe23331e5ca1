package tree

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/kernels/sample"
)

// selectCase runs Select on one level and compares with a sort of all candidates.
func selectCase(b kerneltest.Bench, rng *rand.Rand, beams, k, depth, width int, ties, given bool) {
	t := b.T
	t.Helper()
	samples, scores := make([]uint32, beams*kernels.SampleWords(k)), make([]float32, beams)
	ancestors, slots := make([]uint32, k*width), slices.Repeat([]uint32{NotGiven}, 2*k)
	for i := range ancestors {
		ancestors[i] = rng.Uint32N(4096)
	}
	for i := range k {
		slots[i] = 5000 + rng.Uint32N(4096)
	}
	all := make([]float32, beams*k)
	for beam := range beams {
		scores[beam] = -float32(rng.ExpFloat64())
		logQ := make([]float32, k)
		for i := range logQ {
			logQ[i] = -float32(rng.ExpFloat64())
			if rng.IntN(20) == 0 {
				logQ[i] = kernels.LowLogit
			}
			if ties {
				logQ[i], scores[beam] = float32(math.Round(float64(logQ[i]))), -1
			}
		}
		slices.Sort(logQ)
		slices.Reverse(logQ)
		rec := samples[beam*kernels.SampleWords(k):]
		for i, q := range logQ {
			rec[4+i], rec[4+k+i] = rng.Uint32N(32000), math.Float32bits(q)
			all[beam*k+i] = 0 + q
			if depth > 0 {
				all[beam*k+i] = scores[beam] + q
			}
		}
	}
	order := make([]int, beams*k)
	for i := range order {
		order[i] = i
	}
	if given {
		order = rng.Perm(beams * k)[:k]
		for j, c := range order {
			slots[k+j] = uint32(c)
		}
	} else {
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case all[a] > all[b]:
				return -1
			case all[a] < all[b]:
				return 1
			}
			return 0
		})
	}

	s := Selection{Beams: beams, K: k, Depth: depth, MaxDepth: width, Samples: b.U32(samples), Scores: b.F32(scores),
		Ancestors: b.U32(ancestors), Slots: b.U32(slots), NextTokens: b.Poisoned(k), NextScores: b.Poisoned(k),
		NextAncestors: b.Poisoned(k * width), Out: b.Poisoned(SelectWords(beams, k))}
	defer b.Free(s.Samples, s.Scores, s.Ancestors, s.Slots, s.NextTokens, s.NextScores, s.NextAncestors, s.Out)
	for range 3 {
		got := b.Run(func(r *kernels.Recorder) {
			RecordSelect(r, s)
		}, s.NextTokens, s.NextScores, s.NextAncestors, s.Out)
		what := fmt.Sprintf("beams %d k %d depth %d", beams, k, depth)
		chosen, v := DecodeSelect(got[3], beams, k)
		kerneltest.SameBits(t, what+": V", kerneltest.Bits(v), kerneltest.Bits(all))
		for j := range k {
			c := order[j]
			beam, rank := c/k, c%k
			if int(chosen[j]) != c || got[0][j] != samples[beam*kernels.SampleWords(k)+4+rank] ||
				got[1].F32()[j] != all[c] {
				t.Fatalf("%s: beam %d is candidate %d (token %d, V %g), want %d (V %g)", what, j, chosen[j], got[0][j],
					got[1].F32()[j], c, all[c])
			}
			kerneltest.SameBits(t, what+": ancestors", got[2][j*width:][:depth+1],
				append(slices.Clone(ancestors[beam*width:][:depth]), slots[j]))
		}
	}
}

func TestSelect(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b, rng := kerneltest.New(t, dev), rand.New(rand.NewPCG(1, 2))
		for _, k := range []int{1, 4, 10, 64} {
			for _, ties := range []bool{false, true} {
				selectCase(b, rng, 1, k, 0, 8, ties, false)
				selectCase(b, rng, k, k, 1, 8, ties, false)
				selectCase(b, rng, k, k, 7, 8, ties, false)
				selectCase(b, rng, k, k, 3, 8, ties, true)
			}
		}
	})
}

// NaN scores must neither hang the selection nor select a candidate twice.
func TestSelectSurvivesNaN(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const k = 4
		nan := math.Float32bits(float32(math.NaN()))
		samples := slices.Repeat([]uint32{nan}, k*kernels.SampleWords(k))
		s := Selection{Beams: k, K: k, Depth: 1, MaxDepth: 4, Samples: b.U32(samples),
			Scores:    b.U32([]uint32{nan, 0, nan, 0}),
			Ancestors: b.U32(make([]uint32, k*4)), Slots: b.U32(slices.Repeat([]uint32{NotGiven}, 2*k)),
			NextTokens: b.Poisoned(k), NextScores: b.Poisoned(k),
			NextAncestors: b.Poisoned(k * 4), Out: b.Poisoned(SelectWords(k, k))}
		chosen, _ := DecodeSelect(b.Run(func(r *kernels.Recorder) { RecordSelect(r, s) }, s.Out)[0], k, k)
		seen := map[uint32]bool{}
		for _, c := range chosen {
			if c >= k*k || seen[c] {
				t.Fatalf("chose %v", chosen)
			}
			seen[c] = true
		}
	})
}

// TestSelectAfterSample runs a level like the draft: one buffer holds everything that the host reads.
func TestSelectAfterSample(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const rows, vocab, k, width = 4, 100, 4, 6
		x := kerneltest.Logits(60, rows, vocab)
		in, draw, positions := b.F32(x), b.U32(kerneltest.Words(kernels.DrawParams{})), b.U32(make([]uint32, rows))
		scratch := b.Poisoned(sample.Scratch(rows, vocab) / 4)
		all := b.U32(make([]uint32, 64*8))
		slots := b.U32([]uint32{11, 12, 13, 14, NotGiven, NotGiven, NotGiven, NotGiven})
		at := func(i int) kernels.View { return kernels.View{Buffer: all.Buffer, Offset: 256 * i, Size: 256} }
		got := b.Run(func(r *kernels.Recorder) {
			sample.Record(r, kernels.Serial, kernels.Logits{View: in, Rows: rows, Vocab: vocab}, k, sample.LogProbs,
				draw, positions, scratch, at(0))
			RecordSelect(r, Selection{Beams: rows, K: k, Depth: 1, MaxDepth: width, Samples: at(0), Scores: at(1),
				Ancestors: at(2), Slots: slots,
				NextTokens: at(3), NextScores: at(4), NextAncestors: at(5), Out: at(6)})
		}, at(0), at(3), at(6))
		chosen, _ := DecodeSelect(got[2], rows, k)
		best, bestV := 0, float32(math.Inf(-1))
		for row := range rows {
			s := sample.Decode(got[0], row, k)
			if s.Values[0] > bestV {
				best, bestV = row, s.Values[0]
			}
		}
		if int(chosen[0]) != best*k || got[1][0] != sample.Decode(got[0], best, k).IDs[0] {
			t.Fatalf("the first beam is candidate %d, token %d", chosen[0], got[1][0])
		}
	})
}
