package kernels

import (
	"fmt"
	"math"

	"foretoken/webgpu"
)

// Heads is the shape of an attention layer.
type Heads struct {
	Query, KV int // Query is a multiple of KV
	Dim       int // of a head, a multiple of 8 from 8 to 256
	Rotary    int // leading elements of a head that are rotated, a multiple of 4
	HalfSplit bool
	Window    int // positions a row attends to, itself included; 0: all
	Format    KVFormat
}

// Width is the row length of a buffer that holds queries, keys and values.
func (h Heads) Width() int { return (h.Query + 2*h.KV) * h.Dim }

// RowWords is the size of a row's entry in the rows buffer that Rope and
// Attention read: position, KV slot, count of leading positions whose slots the
// sequence's table gives, count of leading ones of these that are known to be in the slots of
// their own number (0 is always right). Positions from the former count on are the row's
// ancestors in the tree, itself last, whose slots the ancestor list gives.
const RowWords = 4

// RopeTable is the cosines and sines (positions, rotary/2, 2) for angles
// position · inverse[i], times magnitude, which is 1 but for YaRN.
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

// Rope adds bias (h.Width()) f32, where there is one (its Buffer is not 0), to queries, keys
// and values, rotates the queries of qkv (m, h.Width()) in place, and writes rotated keys and
// plain values to the caches (slots, h.KV·h.Dim) at each row's slot. Su et al. 2021.
func (r *Recorder) Rope(h Heads, rows, table, bias, qkv, keys, values View, m int) {
	if h.Dim%8 != 0 || h.Rotary%4 != 0 || h.Rotary > h.Dim {
		panic(fmt.Sprintf("kernels: Rope of %d of %d elements", h.Rotary, h.Dim))
	}
	access := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite}
	views := []View{rows, table, qkv, keys, values}
	input := "rope_plain"
	if bias.Buffer != 0 {
		input, access, views = "rope_bias", append(access, webgpu.ReadOnly), append(views, bias)
	}
	half := uint32(0)
	if h.HalfSplit {
		half = 1
	}
	l := h.layout()
	files, threads := "rope_params "+input+" rope rope_"+h.Format.String(), (h.Query+2*h.KV)*h.Dim/4
	var constants []constant
	if h.Format == KVQ8 { // a thread takes four elements of a query, or a block of a key or value
		files, threads = "rope_params "+input+" rope_q8", h.Query*h.Dim/4+2*h.KV*h.Dim/l.block
		constants = l.constants(1)
	}
	r.add(source(files, access, ropeRef(l), constants...), [3]int{(threads + 31) / 32, m, 1},
		[]uint32{u32(m), u32(h.Query), u32(h.KV), u32(h.Dim), half, u32(h.Rotary)}, views...)
}
