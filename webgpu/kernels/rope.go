package kernels

import (
	"fmt"
	"math"

	"foretoken/webgpu"
)

// KVFormat is how keys and values are cached.
type KVFormat int

const (
	KVF32 KVFormat = iota
	KVF16          // two to a word
)

func (f KVFormat) String() string { return [...]string{"f32", "f16"}[f] }

// Words is how many 32-bit words n cached elements take.
func (f KVFormat) Words(n int) int { return n >> f }

// Heads is the shape of an attention layer.
type Heads struct {
	Query, KV int // Query is a multiple of KV
	Dim       int // of a head, a multiple of 8 from 8 to 256
	Rotary    int // leading elements of a head that are rotated, a multiple of 4
	HalfSplit bool
	Format    KVFormat
}

// Width is the row length of a buffer that holds queries, keys and values.
func (h Heads) Width() int { return (h.Query + 2*h.KV) * h.Dim }

// RowWords is the size of a row's entry in the rows buffer that Rope and
// Attention read: position, KV slot, count of leading positions whose slots the
// sequence's table gives, 0. Positions from that count on are the row's
// ancestors in the tree, itself last, whose slots the ancestor list gives.
const RowWords = 4

// RopeTable is the cosines and sines (positions, rotary/2, 2) for angles
// position · inverse[i].
func RopeTable(positions int, inverse []float64) []float32 {
	table := make([]float32, 0, positions*len(inverse)*2)
	for p := range positions {
		for _, f := range inverse {
			sin, cos := math.Sincos(float64(p) * f)
			table = append(table, float32(cos), float32(sin))
		}
	}
	return table
}

// Rope rotates the queries of qkv (m, h.Width()) in place, and writes rotated keys and
// plain values to the caches (slots, h.KV·h.Dim) at each row's slot. Su et al. 2021.
func (r *Recorder) Rope(h Heads, rows, table, qkv, keys, values View, m int) {
	if h.Dim%8 != 0 || h.Rotary%4 != 0 || h.Rotary > h.Dim {
		panic(fmt.Sprintf("kernels: Rope of %d of %d elements", h.Rotary, h.Dim))
	}
	access := []webgpu.Access{webgpu.Constants, webgpu.ReadOnly, webgpu.ReadOnly, webgpu.ReadWrite, webgpu.ReadWrite, webgpu.ReadWrite}
	half := uint32(0)
	if h.HalfSplit {
		half = 1
	}
	threads := (h.Query + 2*h.KV) * h.Dim / 4
	r.add(source("rope rope_"+h.Format.String(), access, ropeRef(h.Format)), [3]int{(threads + 31) / 32, m, 1},
		[]uint32{u32(m), u32(h.Query), u32(h.KV), u32(h.Dim), half, u32(h.Rotary)}, rows, table, qkv, keys, values)
}
