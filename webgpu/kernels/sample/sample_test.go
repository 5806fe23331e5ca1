package sample

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/spec/spectest"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

var sampleDraws = []kernels.DrawParams{
	{Seed: 1},
	{Temperature: 0.7, Seed: 2},
	{Temperature: 1.5, Seed: 1 << 40, Stream: 1},
	{Temperature: 0.8, Seed: 3, Coupled: true},
	{Seed: 4, Coupled: true}, // at temperature 0 coupling changes nothing
}

// spread runs record, which draws for the positions in a view of n rows, at many positions, and counts the ids in the
// output with count.
func spread(b kerneltest.Bench, n, vocab, runs int, positions, out kernels.View, record func(*kernels.Recorder),
	count func(webgpu.Memory, []int)) []int {
	b.T.Helper()
	r := kernels.NewRecorder("spread", b.Dev.Info())
	record(r)
	built, err := kernels.Build(b.Dev, r)
	if err != nil {
		b.T.Fatal(err)
	}
	defer built.Free()
	counts, m := make([]int, vocab), webgpu.NewMemory(out.Size)
	for run := range runs {
		if err := b.Dev.Write(positions.Buffer, 0, webgpu.U32Bytes(kerneltest.PositionsFrom(run*n, n))); err != nil {
			b.T.Fatal(err)
		}
		if err := b.Dev.Run(built.Programs, webgpu.Region{Buffer: out.Buffer, Offset: out.Offset,
			Dst: m.Bytes()}); err != nil {
			b.T.Fatal(err)
		}
		count(m, counts)
	}
	return counts
}

// sampleCase runs Sample on rows of logits and checks every record.
func sampleCase(b kerneltest.Bench, lanes kernels.Lanes, x []float32, rows, vocab, stride, k int, values Values,
	p kernels.DrawParams) {
	t := b.T
	t.Helper()
	at := kerneltest.PositionsFrom(1000, rows)
	in, draw, positions := b.F32(x), b.U32(kerneltest.Words(p)), b.U32(at)
	scratch, out := b.Poisoned(Scratch(rows, vocab)/4), b.Poisoned(rows*kernels.SampleWords(k))
	defer b.Free(in, draw, positions, scratch, out)
	got := b.Run(func(r *kernels.Recorder) {
		Record(r, lanes, kernels.Logits{View: in, Rows: rows, Vocab: vocab, Stride: stride}, k, values, draw, positions,
			scratch, out)
	}, out)[0]
	for row := range rows {
		what := fmt.Sprintf("lanes %d vocab %d k %d values %d draw %+v row %d", lanes, vocab, k, values, p, row)
		e := kerneltest.Exactly(x[row*stride:][:vocab], kerneltest.Words(p), at[row])
		s := Decode(got, row, k)
		e.Drawn(t, what, int(s.Token), kerneltest.Everything)
		if int(s.Argmax) != e.Argmax {
			t.Fatalf("%s: argmax %d, want %d", what, s.Argmax, e.Argmax)
		}
		lse, entropy := kerneltest.LogSumExp(e.Z, kerneltest.Everything)
		kerneltest.Near(t, what+": log-sum-exp", s.LogSumExp, lse, 2e-6*max(1, math.Abs(lse)))
		kerneltest.Near(t, what+": entropy", s.Entropy, entropy, 1e-4)

		ranking, shift := e.Z, lse
		coupled := p.Coupled && p.Temperature > 0
		if coupled {
			ranking = e.Scores()
			shift, _ = kerneltest.LogSumExp(ranking, kerneltest.Everything)
		}
		if values == RawLogits {
			shift = 0
		}
		value := func(id uint32) float64 { return ranking[id] - shift }
		tempered := values == TemperedLogProbs && e.Scale > 0
		if tempered {
			x := e.Scaled()
			lse, _ := kerneltest.LogSumExp(x, kerneltest.Everything)
			value = func(id uint32) float64 { return x[id] - lse }
		}
		order := make([]int, vocab)
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(a, b int) int {
			switch {
			case ranking[a] > ranking[b]:
				return -1
			case ranking[a] < ranking[b]:
				return 1
			}
			return a - b
		})
		seen := map[uint32]bool{}
		for i := range k {
			id, v := s.IDs[i], s.Values[i]
			if i >= vocab {
				if id != 0 || v != float32(kernels.LowLogit) {
					t.Fatalf("%s: candidate %d beyond the vocabulary is %d, %g", what, i, id, v)
				}
				continue
			}
			if int(id) >= vocab || seen[id] {
				t.Fatalf("%s: candidate %d has id %d, out of range or a second time", what, i, id)
			}
			seen[id] = true
			want := ranking[order[i]]
			if !coupled && int(id) != order[i] || math.Abs(ranking[id]-want) > kerneltest.Nearby(want) {
				t.Fatalf("%s: candidate %d is %d (%g), want %d (%g)", what, i, id, ranking[id], order[i], want)
			}
			if !coupled && values == RawLogits && float64(v) != want {
				t.Fatalf("%s: candidate %d has raw logit %g, want %g", what, i, v, want)
			}
			kerneltest.Near(t, what+": value", v, value(id), kerneltest.Nearby(want)+kerneltest.Nearby(value(id)))
		}
	}
}

func TestSample(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, lanes := range kerneltest.Ways(dev) {
			for _, vocab := range kerneltest.Vocabularies() {
				x := kerneltest.Logits(uint64(vocab), kerneltest.SamplingRows, vocab)
				for i, p := range sampleDraws {
					if vocab > 100000 && i != 1 && i != 3 {
						continue
					}
					ks := []int{1, 4, 10, 64}
					if vocab > 10000 { // every setting, but not with every k
						ks = ks[i%4 : i%4+1]
					}
					for j, k := range ks {
						sampleCase(b, lanes, x, kerneltest.SamplingRows, vocab, vocab, k, Values((i+j)%3), p)
					}
				}
				for range 3 { // repeated: the result must not depend on earlier contents
					sampleCase(b, lanes, x[:vocab], 1, vocab, vocab, 10, LogProbs, sampleDraws[3])
					sampleCase(b, lanes, x[:vocab], 1, vocab, vocab, 10, TemperedLogProbs, sampleDraws[3])
				}
			}
			// The padding beyond the vocabulary is ignored.
			sampleCase(b, lanes, slices.Concat(kerneltest.Logits(7, 1, 300), make([]float32, 20),
				kerneltest.Logits(8, 1, 300), make([]float32, 20)),
				2, 290, 320, 10, RawLogits, sampleDraws[1])
		}
	})
}

func TestSampleBatchInvariant(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const vocab, k = 1000, 10
		x, at := kerneltest.Logits(3, 64, vocab), kerneltest.PositionsFrom(5, 64)
		for _, lanes := range kerneltest.Ways(dev) {
			for _, p := range []kernels.DrawParams{{Temperature: 0.8, Seed: 7},
				{Temperature: 0.8, Seed: 7, Coupled: true}} {
				draw, values := b.U32(kerneltest.Words(p)), LogProbs
				if p.Coupled {
					values = TemperedLogProbs
				}
				kerneltest.Invariant(t, kernels.SampleWords(k), func(order []int) []uint32 {
					n := len(order)
					in, positions := b.F32(kerneltest.Gather(x, vocab, order)), b.U32(kerneltest.Gather(at, 1, order))
					scratch, out := b.Poisoned(Scratch(n, vocab)/4), b.Poisoned(n*kernels.SampleWords(k))
					defer b.Free(in, positions, scratch, out)
					return b.Run(func(r *kernels.Recorder) {
						Record(r, lanes, kernels.Logits{View: in, Rows: n, Vocab: vocab}, k, values, draw, positions,
							scratch, out)
					}, out)[0]
				})
				b.Free(draw)
			}
		}
	})
}

func TestSampleDrawsFromSoftmax(t *testing.T) {
	kerneltest.CountsDraws(t)
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const rows, vocab, k = 64, 40, 1
		row := kerneltest.Logits(11, 1, vocab)
		x := slices.Repeat(row, rows)
		for _, lanes := range kerneltest.Ways(dev) {
			for _, temperature := range []float64{0.6, 1, 3} {
				p := kernels.DrawParams{Temperature: temperature, Seed: 99}
				in, draw, positions := b.F32(x), b.U32(kerneltest.Words(p)), b.U32(make([]uint32, rows))
				scratch, out := b.Poisoned(Scratch(rows, vocab)/4), b.Poisoned(rows*kernels.SampleWords(k))
				counts := spread(b, rows, vocab, kerneltest.SpreadRuns(lanes), positions, out,
					func(r *kernels.Recorder) {
						Record(r, lanes, kernels.Logits{View: in, Rows: rows, Vocab: vocab}, k, RawLogits, draw,
							positions, scratch, out)
					}, func(m webgpu.Memory, counts []int) {
						for i := range rows {
							counts[Decode(m, i, k).Token]++
						}
					})
				spectest.ChiSquare(t, fmt.Sprintf("lanes %d temperature %g", lanes, temperature), counts,
					kerneltest.Exactly(row, kerneltest.Words(p), 0).Distribution(kerneltest.Everything))
				b.Free(in, draw, positions, scratch, out)
			}
		}
	})
}

// TestSampleWithoutReplacement draws two of a few ids: the first from p, the second from p without the first.
func TestSampleWithoutReplacement(t *testing.T) {
	kerneltest.CountsDraws(t)
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const rows, vocab, k = 64, 6, 2
		row := kerneltest.Logits(13, 1, vocab)
		x := slices.Repeat(row, rows)
		for _, lanes := range kerneltest.Ways(dev) {
			p := kernels.DrawParams{Temperature: 1.7, Seed: 21, Stream: 1, Coupled: true}
			in, draw, positions := b.F32(x), b.U32(kerneltest.Words(p)), b.U32(make([]uint32, rows))
			scratch, out := b.Poisoned(Scratch(rows, vocab)/4), b.Poisoned(rows*kernels.SampleWords(k))
			counts := spread(b, rows, vocab*vocab, kerneltest.SpreadRuns(lanes), positions, out,
				func(r *kernels.Recorder) {
					Record(r, lanes, kernels.Logits{View: in, Rows: rows, Vocab: vocab}, k, TemperedLogProbs, draw,
						positions, scratch, out)
				}, func(m webgpu.Memory, counts []int) {
					for i := range rows {
						s := Decode(m, i, k)
						counts[int(s.IDs[0])*vocab+int(s.IDs[1])]++
					}
				})
			q := kerneltest.Exactly(row, kerneltest.Words(p), 0).Distribution(kerneltest.Everything)
			pairs := make([]float64, vocab*vocab)
			for first := range q {
				for second := range q {
					if first != second {
						pairs[first*vocab+second] = q[first] * q[second] / (1 - q[first])
					}
				}
			}
			spectest.ChiSquare(t, fmt.Sprintf("lanes %d", lanes), counts, pairs)
			b.Free(in, draw, positions, scratch, out)
		}
	})
}
