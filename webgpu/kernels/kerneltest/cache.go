package kerneltest

import (
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Packed encodes elements for a cache. TestRope tests the rounding.
func Packed(h kernels.Heads, x []float32) webgpu.Memory {
	cache := webgpu.NewMemory(4 * h.CacheWords(len(x)/(h.KV*h.Dim)))
	h.Layout().Store(cache, 0, x)
	return cache
}

func Unpacked(h kernels.Heads, cache webgpu.Memory) []float64 {
	l := h.Layout()
	x := make([]float64, len(cache)/l.Slot()*l.Width)
	l.Load(cache, 0, x)
	return x
}
