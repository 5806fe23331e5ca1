package attention

import (
	"fmt"
	"math"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// RopeTable returns cosines and sines (positions, rotary/2, 2) of the angles position · inverse[i], times magnitude,
// which is 1 except for YaRN.
func RopeTable(positions int, inverse []float64, magnitude float64) []float32 {
	table := make([]float32, 0, positions*len(inverse)*2)
	for p := range positions {
		for _, f := range inverse {
			sin, cos := math.Sincos(float64(p) * f)
			table = append(table, float32(magnitude*cos), float32(magnitude*sin))
		}
	}
	return table
}

// RecordRope rotates the queries of qkv (m, h.Width()) in place and writes rotated keys and unrotated values to the
// caches (slots, h.KV·h.Dim) at each row's slot. If bias.Buffer is not 0, it first adds bias (h.Width()), f32, to
// queries, keys and values. If h.Shares, it writes no cache, but binds the shared one. Su et al. 2021.
func RecordRope(r *kernels.Recorder, h kernels.Heads, rows, table, bias, qkv, keys, values kernels.View, m int) {
	input := "rope_plain"
	if bias.Buffer != 0 {
		input = "rope_bias"
	}
	recordRope(r, h, input, rows, table, bias, qkv, keys, values, m)
}

// RecordRopeGain is RecordRope without a bias, and multiplies rotated queries and keys by gain (2, h.Dim), f32: of
// queries, then of keys. A norm whose gain follows the rotation has it so.
func RecordRopeGain(r *kernels.Recorder, h kernels.Heads, rows, table, gain, qkv, keys, values kernels.View, m int) {
	recordRope(r, h, "rope_gain", rows, table, gain, qkv, keys, values, m)
}

func recordRope(r *kernels.Recorder, h kernels.Heads, input string, rows, table, more, qkv, keys, values kernels.View,
	m int) {
	if h.Dim%8 != 0 || h.Rotary%4 != 0 || h.Rotary > h.Dim {
		panic(fmt.Sprintf("attention: RecordRope of %d of %d elements", h.Rotary, h.Dim))
	}
	access := append(kernels.Inputs(2), webgpu.ReadWrite, webgpu.ReadWrite)
	views := []kernels.View{rows, table, qkv, keys, values}
	if more.Buffer != 0 {
		access, views = append(access, webgpu.ReadOnly), append(views, more)
	}
	l := h.Layout()
	files, threads := "rope_params "+input+" rope rope_"+h.Format.String(), h.Width()/4
	if h.Format == kernels.KVQ8 { // a thread processes four elements of a query, or a block of a key or value
		files, threads = "rope_params "+input+" rope_q8", h.Query*h.Dim/4+2*h.RowKV()*h.Dim/l.Block
	}
	gained := input == "rope_gain"
	host := kernels.Host{Ref: ropeRef(l, gained), Entry: "rope",
		Words: append(kernels.Params(int(l.Format), l.Block), kernels.Flag(gained))}
	r.Add(shaders.Source(files, access, host, l.Constants()...), [3]int{(threads + 31) / 32, m, 1},
		kernels.Params(m, h.Query, h.RowKV(), h.Dim, int(kernels.Flag(h.HalfSplit)), h.Rotary), views...)
}
