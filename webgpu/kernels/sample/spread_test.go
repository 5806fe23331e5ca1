package sample

import (
	"math/rand/v2"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestSpread checks that logits over part of a vocabulary get to their ids and that all other ids are impossible.
func TestSpread(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, c := range []struct{ vocab, some, stride, offset int }{{64, 1, 64, 0}, {100, 37, 128, 64},
			{2048, 1536, 2048, 4096}, {5000, 4999, 5056, 0}} {
			rng := rand.New(rand.NewPCG(uint64(c.vocab), 3))
			const m = 5
			in := c.some + 3
			x, source := kerneltest.Normals(4, m*in), make([]uint32, c.vocab)
			for i := range source {
				source[i] = NoSource
			}
			for i, id := range rng.Perm(c.vocab)[:c.some] {
				source[id] = uint32(i)
			}
			from, logits, out := b.U32(source), b.F32(x), b.Poisoned(c.offset+m*c.stride)
			got := b.Run(func(r *kernels.Recorder) {
				RecordSpread(r, from, logits, in, c.some, kernels.Rows{View: out, Offset: c.offset, Stride: c.stride},
					c.vocab, m)
			}, out)[0]
			for i, w := range got[:c.offset] {
				if w != 0x7fc0dead {
					t.Fatalf("word %d before the rows was written", i)
				}
			}
			words := kerneltest.Bits(x)
			for row := range m {
				line := got[c.offset+row*c.stride:]
				for id, i := range source {
					want := kernels.Word(kernels.LowLogit)
					if i != NoSource {
						want = words[row*in+int(i)]
					}
					if line[id] != want {
						t.Fatalf("vocab %d: row %d id %d is %#x, want %#x", c.vocab, row, id, line[id], want)
					}
				}
			}
			b.Free(from, logits, out)
		}
	})
}
