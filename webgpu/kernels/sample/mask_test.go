package sample

import (
	"math"
	"math/rand/v2"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestMask compares every logit of every row, for each of 64 rows alone and in batches.
func TestMask(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		rng := rand.New(rand.NewPCG(1, 9))
		for _, vocab := range []int{1, 31, 32, 33, 2048, 2500} {
			const rows, count = 64, 3
			words, stride := MaskWords(vocab), (vocab+63)/64*64
			masks := make([]uint32, count*words)
			for i := range masks {
				if masks[i] = rng.Uint32(); i%3 == 0 {
					masks[i] = math.MaxUint32
				}
			}
			clear(masks[2*words:]) // no token remains
			which := make([]uint32, rows)
			for i := range which {
				which[i] = []uint32{0, 1, 2, NoMask, count}[i%5]
			}
			x := kerneltest.Bits(kerneltest.Normals(3, rows*stride))
			held := b.U32(masks)
			run := func(order []int) []uint32 {
				in, of := b.U32(kerneltest.Gather(x, stride, order)), b.U32(kerneltest.Gather(which, 1, order))
				defer b.Free(in, of)
				return b.Run(func(r *kernels.Recorder) {
					RecordMask(r, kernels.Logits{View: in, Rows: len(order), Vocab: vocab, Stride: stride}, of, held,
						count)
				}, in)[0]
			}
			for row := range rows {
				for id, got := range run([]int{row}) {
					want := x[row*stride+id]
					if m := which[row]; m < count && id < vocab && masks[int(m)*words+id/32]>>(id%32)&1 == 0 {
						want = math.Float32bits(kernels.LowLogit)
					}
					if got != want {
						t.Fatalf("vocabulary %d, mask %d: logit %d is %#x, want %#x", vocab, which[row], id, got, want)
					}
				}
			}
			if vocab == 2500 {
				kerneltest.Invariant(t, stride, run)
			}
			b.Free(held)
		}
	})
}
