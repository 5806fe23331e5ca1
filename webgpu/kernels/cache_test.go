package kernels_test

import (
	"math"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// TestBytesOfACache packs blocks by hand.
func TestBytesOfACache(t *testing.T) {
	for dim, block := range map[int]int{8: 8, 16: 16, 24: 8, 32: 32, 40: 8, 48: 16, 64: 32, 80: 16, 96: 32, 256: 32} {
		h := kernels.Heads{Query: 1, KV: 3, Dim: dim, Format: kernels.KVQ8}
		if got := h.Layout().Block; got != block {
			t.Errorf("heads of %d have blocks of %d, want %d", dim, got, block)
		}
		if got, want := h.CacheWords(5), 5*3*(dim/4+dim/block); got != want {
			t.Errorf("heads of %d: %d words, want %d", dim, got, want)
		}
	}
	x := []float32{254, -254, 1, -1, 0.99, 3, -3.01, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	h := kernels.Heads{Query: 1, KV: 2, Dim: 8, Format: kernels.KVQ8}
	got := kerneltest.Packed(h, x)
	// A scale of 2; halves round up: 1 → 0.5 → 1, -1 → -0.5 → 0. The scales of both heads come first.
	want := webgpu.Memory{math.Float32bits(2), 0, 0x7f | 0x81<<8 | 1<<16, 0 | 2<<8 | 0xfe<<16, 0, 0}
	kerneltest.SameBits(t, "bytes", got, want)
	for i, w := range []float64{254, -254, 2, 0, 0, 4, -4, 0} {
		if v := kerneltest.Unpacked(h, got)[i]; v != w {
			t.Errorf("element %d is %g, want %g", i, v, w)
		}
	}
}
