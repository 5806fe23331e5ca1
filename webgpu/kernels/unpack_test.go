package kernels_test

import (
	"testing"

	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

func TestUnpackAgainstDefinition(t *testing.T) {
	// One block by hand: Q4_0 keeps the first half in low nibbles, offset by 8.
	words := []uint32{0x00000021, 0, 0, 0x90000000}
	got := make([]float64, 32)
	kernels.UnpackRow(kernels.Q4_0, words, kerneltest.Bits([]float32{0.5}), 0, 32, got)
	for at, want := range map[int]float64{0: (1 - 8) * 0.5, 16: (2 - 8) * 0.5, 15: (0 - 8) * 0.5, 31: (9 - 8) * 0.5} {
		if got[at] != want {
			t.Errorf("q4_0[%d] = %g, want %g", at, got[at], want)
		}
	}
	// Byte k of a block of Q1_0 has weights k, 16 + k and so on, and one of Q2_0 four of them.
	block := make([]float64, 128)
	kernels.UnpackRow(kernels.Q1_0, []uint32{0x00008101, 0, 0, 0}, kerneltest.Bits([]float32{0.5}), 0, 128, block)
	for at, v := range block {
		want := -0.5
		if at == 0 || at == 1 || at == 113 {
			want = 0.5
		}
		if v != want {
			t.Errorf("q1_0[%d] = %g, want %g", at, v, want)
		}
	}
	kernels.UnpackRow(kernels.Q2_0, []uint32{0x000000e4, 0, 0, 0}, kerneltest.Bits([]float32{0.5}), 0, 64, block)
	for at, v := range block[:64] {
		want := map[int]float64{16: 0, 32: 0.5, 48: 1}
		if w, ok := want[at]; v != w && (ok || v != -0.5) {
			t.Errorf("q2_0[%d] = %g", at, v)
		}
	}
	kernels.UnpackRow(kernels.Q8_0, []uint32{0x80ff7f01, 0, 0, 0, 0, 0, 0, 0}, kerneltest.Bits([]float32{2}), 0, 32,
		got)
	for at, want := range []float64{2, 254, -2, -256} {
		if got[at] != want {
			t.Errorf("q8_0[%d] = %g, want %g", at, got[at], want)
		}
	}
}
