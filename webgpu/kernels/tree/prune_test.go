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
)

// testPerceptron returns a perceptron with random weights.
func testPerceptron(rng *rand.Rand, units int) Perceptron {
	p := Perceptron{Bias: float32(rng.NormFloat64())}
	for range units {
		p.Units = append(p.Units, PerceptronUnit{
			Probability: float32(4 * rng.NormFloat64()), Entropy: float32(rng.NormFloat64()),
			Depth: float32(rng.NormFloat64() / 4), Bias: float32(rng.NormFloat64()),
			Output: float32(rng.NormFloat64())})
	}
	return p
}

// pruneCase runs Prune on one level. The selection must follow exactly from the logits that Prune returns, and the
// logits must be near those of float64.
func pruneCase(b kerneltest.Bench, rng *rand.Rand, beams, k, depth, units int, ties bool) (kept, evaluated int) {
	t := b.T
	t.Helper()
	const width = 8
	net := testPerceptron(rng, units)
	samples, ancestors := make([]uint32, beams*kernels.SampleWords(k)), make([]uint32, k*width)
	slots := make([]uint32, k)
	for i := range ancestors {
		ancestors[i] = rng.Uint32N(4096)
	}
	for i := range slots {
		slots[i] = 5000 + rng.Uint32N(4096)
	}
	from, to := 0, alignWordsOf(k)
	paths := make([]float32, to+k)
	for beam := range beams {
		paths[beam] = -float32(rng.ExpFloat64())
		rec := samples[beam*kernels.SampleWords(k):]
		rec[3] = math.Float32bits(float32(2 * rng.Float64()))
		for i := range k {
			q := -float32(rng.ExpFloat64())
			switch {
			case rng.IntN(20) == 0:
				q = float32(math.NaN())
			case rng.IntN(20) == 0:
				q = float32(math.Inf(-1))
			case rng.IntN(20) == 0:
				q = kernels.LowLogit
			case ties:
				q, paths[beam], rec[3] = -1, -1, 0
			}
			rec[4+i], rec[4+k+i] = rng.Uint32N(32000), math.Float32bits(q)
		}
	}
	alive := beams
	if depth > 0 {
		alive = rng.IntN(beams + 1)
	}
	beta := 0.05 + 0.9*rng.Float64()
	nodes, most := 1+rng.IntN(40), 1+rng.IntN(60)
	head := PruneHead(most, beta)
	head[0], head[1] = uint32(nodes), uint32(alive)
	state := append(slices.Clone(head[:]), net.Words()...)
	memory := webgpu.NewMemory(4 * PruneWords)
	copy(memory, state)

	p := Pruning{Beams: beams, K: k, Depth: depth, MaxDepth: width, Samples: b.U32(samples), Paths: b.F32(paths),
		From: from, To: to, Ancestors: b.U32(ancestors), Slots: b.U32(slots), NextTokens: b.Poisoned(k),
		NextAncestors: b.Poisoned(k * width), Out: b.Poisoned(SelectWords(beams, k)), Net: b.U32(memory)}
	defer b.Free(p.Samples, p.Paths, p.Ancestors, p.Slots, p.NextTokens, p.NextAncestors, p.Out, p.Net)
	got := b.Run(func(r *kernels.Recorder) { RecordPrune(r, p) }, p.NextTokens, p.NextAncestors, p.Out, p.Paths, p.Net)
	what := fmt.Sprintf("%d beams, %d of them alive, k %d, depth %d, %d units, from %d to %d nodes", beams, alive, k,
		depth, units, nodes, most)
	chosen, z := DecodeSelect(got[2], beams, k)

	// The logits, compared with the perceptron in float64.
	type candidate struct {
		c int
		z float32
	}
	var stay []candidate
	for c := range z {
		q := math.Float32frombits(samples[c/k*kernels.SampleWords(k)+4+k+c%k])
		if c/k >= alive || q != q || math.IsInf(float64(q), -1) {
			if z[c] > -1e38 {
				t.Fatalf("%s: candidate %d has no chance and got %g", what, c, z[c])
			}
			continue
		}
		path := float64(q)
		if depth > 0 {
			path += float64(paths[from+c/k])
		}
		entropy, sum := float64(math.Float32frombits(samples[c/k*kernels.SampleWords(k)+3])), float64(net.Bias)
		size := math.Abs(float64(net.Bias))
		for _, u := range net.Units {
			x := float64(u.Probability)*math.Exp(path) + float64(u.Entropy)*entropy +
				float64(u.Depth)*float64(depth+1) + float64(u.Bias)
			terms := math.Abs(float64(u.Probability))*math.Exp(path) + math.Abs(float64(u.Entropy))*entropy +
				math.Abs(float64(u.Depth))*float64(depth+1) + math.Abs(float64(u.Bias))
			sum += float64(u.Output) * max(x, 0)
			size += math.Abs(float64(u.Output)) * terms
		}
		if tolerance := 1e-6 * (size + 1) * 2; !(math.Abs(float64(z[c])-sum) <= tolerance) {
			t.Fatalf("%s: candidate %d has logit %g, want %g (±%g)", what, c, z[c], sum, tolerance)
		}
		evaluated++
		if z[c] > math.Float32frombits(head[3]) {
			stay = append(stay, candidate{c, z[c]})
		}
		// Except near the threshold, the sigmoid in float64 decides equally.
		if confidence := 1 / (1 + math.Exp(-sum)); math.Abs(sum-math.Log(beta/(1-beta))) > 1e-4*(size+1) &&
			(confidence > beta) != (z[c] > math.Float32frombits(head[3])) {
			t.Fatalf("%s: candidate %d has confidence %g beside a beta of %g", what, c, confidence, beta)
		}
	}

	// The selection.
	slices.SortStableFunc(stay, func(a, b candidate) int {
		if a.z != b.z {
			return map[bool]int{true: -1, false: 1}[a.z > b.z]
		}
		return a.c - b.c
	})
	stay = stay[:min(len(stay), k, max(most-nodes, 0))]
	slices.SortFunc(stay, func(a, b candidate) int { return a.c - b.c })
	for j := range k {
		c, want := 0, NotGiven
		if j < len(stay) {
			c, want = stay[j].c, uint32(stay[j].c)
		}
		if chosen[j] != want || got[0][j] != samples[c/k*kernels.SampleWords(k)+4+c%k] {
			t.Fatalf("%s: beams %d, want %v", what, chosen, stay)
		}
		kerneltest.SameBits(t, what+": ancestors", got[1][j*width:][:depth+1],
			append(slices.Clone(ancestors[c/k*width:][:depth]), slots[j]))
		if j < len(stay) {
			path := min(math.Float32frombits(samples[c/k*kernels.SampleWords(k)+4+k+c%k]), 0)
			if depth > 0 {
				path += paths[from+c/k]
			}
			kerneltest.SameBits(t, what+": path", kerneltest.Bits(got[3].F32()[to+j:][:1]),
				kerneltest.Bits([]float32{path}))
		}
	}
	if int(got[4][0]) != nodes+len(stay) || int(got[4][1]) != len(stay) {
		t.Fatalf("%s: %d nodes, %d beams; want %d, %d", what, got[4][0], got[4][1], nodes+len(stay), len(stay))
	}
	return len(stay), evaluated
}

// alignWordsOf returns the next word at which a bound range may begin.
func alignWordsOf(n int) int { return (n + 63) / 64 * 64 }

func TestPrune(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b, rng := kerneltest.New(t, dev), rand.New(rand.NewPCG(5, 8))
		kept, evaluated := 0, 0
		for _, k := range []int{1, 3, 10, 15, MostPruned} {
			for i := range 8 {
				beams, depth := k, 1+i
				if i == 0 {
					beams, depth = 1, 0
				}
				n, all := pruneCase(b, rng, beams, k, min(depth, 7), []int{48, 1, MostPruneUnits}[i%3], i == 5)
				kept, evaluated = kept+n, evaluated+all
			}
		}
		if kept < 50 || 10*evaluated < 11*kept {
			t.Fatalf("%d of %d candidates stayed", kept, evaluated)
		}
	})
}
