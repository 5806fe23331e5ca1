package stream

import (
	"math/rand/v2"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestSum adds rows up on the devices that compute on the host.
func TestSum(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		if !dev.Info().Host() {
			t.Skip("the kernel has no shader")
		}
		b := kerneltest.New(t, dev)
		for _, shape := range [][2]int{{1, 16}, {1, 4096}, {3, 48}, {64, 1008}, {257, 64}} {
			rows, cols := shape[0], shape[1]
			rng := rand.New(rand.NewPCG(uint64(rows), uint64(cols)))
			words, want := make([]uint32, rows*cols), make([]uint32, rows)
			for i := range words {
				words[i] = rng.Uint32()
				want[i/cols] += words[i]
			}
			x, out := b.U32(words), b.Poisoned(rows)
			got := b.Thrice(func(r *kernels.Recorder) { Record(r, x, out, rows, cols) }, out)[0]
			kerneltest.SameBits(t, "sums", got, want)
			b.Free(x, out)
		}
	})
}
