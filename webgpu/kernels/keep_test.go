package kernels

import (
	"testing"

	"foretoken/webgpu"
)

// TestKeep copies rows to every place and leaves all others alone.
func TestKeep(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const rows, vocab, stride, kept, keptStride = 4, 100, 128, 9, 112
		x := bits(normals(1, rows*stride))
		in := b.u32(x)
		for _, place := range [][KeepWords]uint32{{0, 4}, {2, 4}, {3, 1}, {1, 3}, {5, 4}, {7, 4}, {8, 1}, {4, 0}, {2, 60}} {
			to, out := b.u32(place[:]), b.poisoned(kept*keptStride)
			got := b.run(func(r *Recorder) {
				r.Keep(Logits{View: in, Rows: rows, Vocab: vocab, Stride: stride}, to, Logits{View: out, Rows: kept, Vocab: vocab, Stride: keptStride})
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
			b.free(to, out)
		}
	})
}
