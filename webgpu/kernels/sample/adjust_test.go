package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestAdjust compares sums in float64 over lists that overlap and lists that are empty.
func TestAdjust(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, c := range []struct{ vocab, shared, own, entries int }{{50, 8, 4, 8}, {2048, 300, 10, 200},
			{2048, 64, 1, 0}, {33, 1, 33, 1}} {
			t.Run(fmt.Sprint(c), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(c.vocab), uint64(c.shared)))
				const rows = 64
				stride := (c.vocab + 63) / 64 * 64
				list := func(words []uint32, n, room int) {
					ids := rng.Perm(c.vocab)
					for i := range room {
						words[2*i], words[2*i+1] = math.MaxUint32, math.Float32bits(77)
						if i < n {
							words[2*i], words[2*i+1] = uint32(ids[i]), math.Float32bits(float32(rng.NormFloat64()))
						}
					}
				}
				common, lists := make([]uint32, AdjustWords(c.shared)), make([]uint32, rows*c.own*2)
				list(common[2:], c.shared, c.shared)
				common[0] = uint32(c.entries)
				for row := range rows {
					list(lists[row*c.own*2:], rng.IntN(c.own+1), c.own)
				}
				x := kerneltest.Normals(5, rows*stride)
				shared := b.U32(common)
				defer b.Free(shared)
				run := func(order []int) []uint32 {
					in := b.F32(kerneltest.Gather(x, stride, order))
					of := b.U32(kerneltest.Gather(lists, c.own*2, order))
					defer b.Free(in, of)
					return b.Run(func(r *kernels.Recorder) {
						RecordAdjust(r, kernels.Logits{View: in, Rows: len(order), Vocab: c.vocab, Stride: stride},
							shared, c.shared, of, c.own)
					}, in)[0]
				}
				for row := range rows {
					got := run([]int{row})
					for id := range c.vocab {
						want := float64(x[row*stride+id])
						for i := range c.entries {
							if common[2+2*i] == uint32(id) {
								want = float64(x[row*stride+id]) + float64(math.Float32frombits(common[3+2*i]))
							}
						}
						for i := range c.own {
							if at := (row*c.own + i) * 2; lists[at] == uint32(id) {
								want = float64(x[row*stride+id]) + float64(math.Float32frombits(lists[at+1]))
							}
						}
						if g := float64(math.Float32frombits(got[id])); math.Abs(g-want) > 1e-6*math.Max(math.Abs(want),
							1) {
							t.Fatalf("row %d: logit %d is %g, want %g", row, id, g, want)
						}
					}
				}
				kerneltest.Invariant(t, stride, run)
			})
		}
	})
}
