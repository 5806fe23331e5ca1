package sample

import (
	"fmt"
	"slices"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestGumbelNoise reads the noise from the device: with equal logits and coupled ranking the best scores are the
// largest draws.
func TestGumbelNoise(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, lanes := range []kernels.Lanes{kernels.Serial, kernels.Grouped} {
			for _, vocab := range []int{32, 64, 32003} {
				const rows, k = 16, 64
				p := kernels.DrawParams{Temperature: 1, Seed: 0x123456789abcdef0, Stream: 1, Coupled: true}
				at := kerneltest.PositionsFrom(100, rows)
				in, draw, positions := b.F32(make([]float32, rows*vocab)), b.U32(kerneltest.Words(p)), b.U32(at)
				scratch, out := b.Poisoned(Scratch(rows, vocab)/4), b.Poisoned(rows*kernels.SampleWords(k))
				got := b.Run(func(r *kernels.Recorder) {
					Record(r, lanes, kernels.Logits{View: in, Rows: rows, Vocab: vocab}, k, RawLogits, draw, positions,
						scratch, out)
				}, out)[0]
				for row := range rows {
					s := Decode(got, row, k)
					want := kerneltest.Exactly(make([]float32, vocab), kerneltest.Words(p), at[row]).Scores()
					sorted := slices.Clone(want)
					slices.Sort(sorted)
					for i := range min(k, vocab) {
						what := fmt.Sprintf("lanes %d vocab %d row %d noise %d of id %d", lanes, vocab, row, i,
							s.IDs[i])
						kerneltest.Near(t, what, s.Values[i], want[s.IDs[i]], 4e-6)
						kerneltest.Near(t, what+" by rank", s.Values[i], sorted[vocab-1-i], 4e-6)
					}
				}
				b.Free(in, draw, positions, scratch, out)
			}
		}
	})
}
