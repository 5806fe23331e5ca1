package sample

import (
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestKeep copies rows to every place and checks that all other rows do not change.
func TestKeep(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const rows, vocab, stride, kept, keptStride = 4, 100, 128, 9, 112
		x := kerneltest.Bits(kerneltest.Normals(1, rows*stride))
		in := b.U32(x)
		for _, place := range [][KeepWords]uint32{{0, 4}, {2, 4}, {3, 1}, {1, 3}, {5, 4}, {7, 4}, {8, 1}, {4, 0},
			{2, 60}} {
			to, out := b.U32(place[:]), b.Poisoned(kept*keptStride)
			got := b.Run(func(r *kernels.Recorder) {
				RecordKeep(r, kernels.Logits{View: in, Rows: rows, Vocab: vocab, Stride: stride}, to,
					kernels.Logits{View: out, Rows: kept, Vocab: vocab, Stride: keptStride})
			}, out)[0]
			for i, word := range got {
				row, id := i/keptStride-int(place[0]), i%keptStride
				want := uint32(0x7fc0dead)
				if row >= 0 && row < min(rows, int(place[1])) && id < vocab {
					want = x[row*stride+id]
				}
				if word != want {
					t.Fatalf("place %v: word %d of row %d is %#x, want %#x", place, id, i/keptStride, word, want)
				}
			}
			b.Free(to, out)
		}
	})
}
