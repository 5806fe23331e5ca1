package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"foretoken/webgpu"
)

// vocabularies are a bound for the tests' sizes: small, just off a power of two, real ones.
func vocabularies() []int {
	if testing.Short() {
		return []int{32, 511, 512, 2048}
	}
	return []int{32, 511, 512, 2048, 5000, 32003, 151936}
}

var sampleDraws = []DrawParams{
	{Seed: 1},
	{Temperature: 0.7, Seed: 2},
	{Temperature: 1.5, Seed: 1 << 40, Stream: 1},
	{Temperature: 0.8, Seed: 3, Coupled: true},
	{Seed: 4, Coupled: true}, // at temperature 0 coupling changes nothing
}

// sampleCase runs Sample on rows of logits and checks every record.
func sampleCase(b bench, lanes Lanes, x []float32, rows, vocab, stride, k int, values Values, p DrawParams) {
	t := b.t
	t.Helper()
	at := positionsFrom(1000, rows)
	in, draw, positions := b.f32(x), b.u32(words(p)), b.u32(at)
	scratch, out := b.poisoned(SampleScratch(rows, vocab)/4), b.poisoned(rows*SampleWords(k))
	defer b.free(in, draw, positions, scratch, out)
	got := b.run(func(r *Recorder) {
		r.Sample(lanes, Logits{in, rows, vocab, stride}, k, values, draw, positions, scratch, out)
	}, out)[0]
	for row := range rows {
		what := fmt.Sprintf("lanes %d vocab %d k %d values %d draw %+v row %d", lanes, vocab, k, values, p, row)
		e := exactly(x[row*stride:][:vocab], words(p), at[row])
		s := DecodeSample(got, row, k)
		e.drawn(t, what, int(s.Token), everything)
		if int(s.Argmax) != e.argmax {
			t.Fatalf("%s: argmax %d, want %d", what, s.Argmax, e.argmax)
		}
		lse, entropy := logSumExp(e.z, everything)
		near(t, what+": log-sum-exp", s.LogSumExp, lse, 2e-6*max(1, math.Abs(lse)))
		near(t, what+": entropy", s.Entropy, entropy, 1e-4)

		ranking, shift := e.z, lse
		coupled := p.Coupled && p.Temperature > 0
		if coupled {
			ranking = e.scores()
			shift, _ = logSumExp(ranking, everything)
		}
		if values == RawLogits {
			shift = 0
		}
		value, tempered := func(id uint32) float64 { return ranking[id] - shift }, values == TemperedLogProbs && e.scale > 0
		if tempered {
			x := e.scaled()
			lse, _ := logSumExp(x, everything)
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
				if id != 0 || v != float32(LowLogit) {
					t.Fatalf("%s: candidate %d beyond the vocabulary is %d, %g", what, i, id, v)
				}
				continue
			}
			if int(id) >= vocab || seen[id] {
				t.Fatalf("%s: candidate %d has id %d, out of range or a second time", what, i, id)
			}
			seen[id] = true
			want := ranking[order[i]]
			if !coupled && int(id) != order[i] || math.Abs(ranking[id]-want) > nearby(want) {
				t.Fatalf("%s: candidate %d is %d (%g), want %d (%g)", what, i, id, ranking[id], order[i], want)
			}
			if !coupled && values == RawLogits && float64(v) != want {
				t.Fatalf("%s: candidate %d has raw logit %g, want %g", what, i, v, want)
			}
			near(t, what+": value", v, value(id), nearby(want)+nearby(value(id)))
		}
	}
}

func TestSample(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, lanes := range ways(dev) {
			for _, vocab := range vocabularies() {
				x := testLogits(uint64(vocab), samplingRows, vocab)
				for i, p := range sampleDraws {
					if vocab > 100000 && i != 1 && i != 3 {
						continue
					}
					ks := []int{1, 4, 10, 64}
					if vocab > 10000 { // every setting, but not with every k
						ks = ks[i%4 : i%4+1]
					}
					for j, k := range ks {
						sampleCase(b, lanes, x, samplingRows, vocab, vocab, k, Values((i+j)%3), p)
					}
				}
				for range 3 { // the same again: nothing may hang on what was there before
					sampleCase(b, lanes, x[:vocab], 1, vocab, vocab, 10, LogProbs, sampleDraws[3])
					sampleCase(b, lanes, x[:vocab], 1, vocab, vocab, 10, TemperedLogProbs, sampleDraws[3])
				}
			}
			// Padding beyond the vocabulary is not looked at.
			sampleCase(b, lanes, slices.Concat(testLogits(7, 1, 300), make([]float32, 20), testLogits(8, 1, 300), make([]float32, 20)),
				2, 290, 320, 10, RawLogits, sampleDraws[1])
		}
	})
}

func TestSampleBatchInvariant(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const vocab, k = 1000, 10
		x, at := testLogits(3, 64, vocab), positionsFrom(5, 64)
		for _, lanes := range ways(dev) {
			for _, p := range []DrawParams{{Temperature: 0.8, Seed: 7}, {Temperature: 0.8, Seed: 7, Coupled: true}} {
				draw, values := b.u32(words(p)), LogProbs
				if p.Coupled {
					values = TemperedLogProbs
				}
				invariant(t, SampleWords(k), func(order []int) []uint32 {
					n := len(order)
					in, positions := b.f32(gather(x, vocab, order)), b.u32(gather(at, 1, order))
					scratch, out := b.poisoned(SampleScratch(n, vocab)/4), b.poisoned(n*SampleWords(k))
					defer b.free(in, positions, scratch, out)
					return b.run(func(r *Recorder) {
						r.Sample(lanes, Logits{View: in, Rows: n, Vocab: vocab}, k, values, draw, positions, scratch, out)
					}, out)[0]
				})
				b.free(draw)
			}
		}
	})
}

func TestSampleDrawsFromSoftmax(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const rows, vocab, k = 64, 40, 1
		row := testLogits(11, 1, vocab)
		x := slices.Repeat(row, rows)
		for _, lanes := range ways(dev) {
			for _, temperature := range []float64{0.6, 1, 3} {
				p := DrawParams{Temperature: temperature, Seed: 99}
				in, draw, positions := b.f32(x), b.u32(words(p)), b.u32(make([]uint32, rows))
				scratch, out := b.poisoned(SampleScratch(rows, vocab)/4), b.poisoned(rows*SampleWords(k))
				counts := b.spread(rows, vocab, spreadRuns(lanes), positions, out, func(r *Recorder) {
					r.Sample(lanes, Logits{View: in, Rows: rows, Vocab: vocab}, k, RawLogits, draw, positions, scratch, out)
				}, func(m webgpu.Memory, counts []int) {
					for i := range rows {
						counts[DecodeSample(m, i, k).Token]++
					}
				})
				chiSquare(t, fmt.Sprintf("lanes %d temperature %g", lanes, temperature), counts, exactly(row, words(p), 0).distribution(everything))
				b.free(in, draw, positions, scratch, out)
			}
		}
	})
}

// TestSampleWithoutReplacement draws two of a few ids: the first is of p, and the second of
// what is left of p without the first.
func TestSampleWithoutReplacement(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const rows, vocab, k = 64, 6, 2
		row := testLogits(13, 1, vocab)
		x := slices.Repeat(row, rows)
		for _, lanes := range ways(dev) {
			p := DrawParams{Temperature: 1.7, Seed: 21, Stream: 1, Coupled: true}
			in, draw, positions := b.f32(x), b.u32(words(p)), b.u32(make([]uint32, rows))
			scratch, out := b.poisoned(SampleScratch(rows, vocab)/4), b.poisoned(rows*SampleWords(k))
			counts := b.spread(rows, vocab*vocab, spreadRuns(lanes), positions, out, func(r *Recorder) {
				r.Sample(lanes, Logits{View: in, Rows: rows, Vocab: vocab}, k, TemperedLogProbs, draw, positions, scratch, out)
			}, func(m webgpu.Memory, counts []int) {
				for i := range rows {
					s := DecodeSample(m, i, k)
					counts[int(s.IDs[0])*vocab+int(s.IDs[1])]++
				}
			})
			q := exactly(row, words(p), 0).distribution(everything)
			pairs := make([]float64, vocab*vocab)
			for first := range q {
				for second := range q {
					if first != second {
						pairs[first*vocab+second] = q[first] * q[second] / (1 - q[first])
					}
				}
			}
			chiSquare(t, fmt.Sprintf("lanes %d", lanes), counts, pairs)
			b.free(in, draw, positions, scratch, out)
		}
	})
}
