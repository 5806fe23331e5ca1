package attention

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// attended is a random sequence in a KV cache whose slots are shuffled from the first third on, with 64 rows at
// different positions, some of them deep in a tree.
type attended struct {
	h                      kernels.Heads
	span, stride, slots    int
	qkv                    []float32 // (64, width)
	rows, table, ancestors []uint32
	keys, values           []float32 // (slots, kv·dim)
}

// cachedAs returns elements after rounding to the format of the cache.
func cachedAs(h kernels.Heads, x []float32) []float32 {
	var out []float32
	for _, v := range kerneltest.Unpacked(h, kerneltest.Packed(h, x)) {
		out = append(out, float32(v))
	}
	return out
}

func newAttended(h kernels.Heads, span int) *attended {
	rng := rand.New(rand.NewPCG(uint64(h.Dim), uint64(span)))
	a := &attended{h: h, span: span, stride: 8, slots: span + 64}
	a.qkv = kerneltest.Normals(7, 64*h.Width())
	for i := range a.qkv {
		a.qkv[i] /= float32(math.Sqrt(float64(h.Dim)))
	}
	a.keys = cachedAs(h, kerneltest.Normals(8, a.slots*h.KV*h.Dim))
	a.values = cachedAs(h, kerneltest.Normals(9, a.slots*h.KV*h.Dim))
	even := span / 3 // length of the identity prefix
	slots := make([]int, a.slots)
	for j, k := range rng.Perm(a.slots - even) {
		slots[even+j] = even + k
	}
	for j := range even {
		slots[j] = j
	}
	for j := range span {
		a.table = append(a.table, uint32(slots[j]))
	}
	for i := range 64 {
		position := (i * 7 * max(span/448, 1)) % span // 64 rows reach the end of a long context
		tree := min(rng.IntN(6), position)            // the last `tree` positions are ancestors
		straight := min(even, position+1-tree)
		a.rows = append(a.rows, uint32(position), 0, uint32(position+1-tree),
			uint32([]int{0, straight / 2, straight}[i%3]))
		for k := range a.stride {
			slot := uint32(slots[span+rng.IntN(64)])
			if k < tree && rng.IntN(2) == 0 { // half of them have the keys of the sequence
				slot = a.table[position+1-tree+k]
			}
			a.ancestors = append(a.ancestors, slot)
		}
	}
	return a
}

// plain computes the row's attention from scratch in float64.
func (a *attended) plain(i int) []float32 {
	h, position := a.h, int(a.rows[4*i])
	out := make([]float32, h.Query*h.Dim)
	for q := range h.Query {
		kvh := q / (h.Query / h.KV)
		weights, most := make([]float64, position+1), math.Inf(-1)
		first := 0
		if h.Window > 0 {
			first = max(position+1-h.Window, 0)
		}
		slot := func(j int) int {
			if shared := int(a.rows[4*i+2]); j >= shared {
				return int(a.ancestors[i*a.stride+j-shared])
			}
			return int(a.table[j])
		}
		for j := first; j <= position; j++ {
			for d := range h.Dim {
				weights[j] += float64(a.qkv[i*h.Width()+q*h.Dim+d]) * float64(a.keys[(slot(j)*h.KV+kvh)*h.Dim+d])
			}
			weights[j] *= cmp.Or(h.Scale, 1/math.Sqrt(float64(h.Dim)))
			most = math.Max(most, weights[j])
		}
		sum := 0.0
		clear(weights[:first])
		for j := first; j <= position; j++ {
			weights[j] = math.Exp(weights[j] - most)
			sum += weights[j]
		}
		for d := range h.Dim {
			v := 0.0
			for j, w := range weights {
				v += w / sum * float64(a.values[(slot(j)*h.KV+kvh)*h.Dim+d])
			}
			out[q*h.Dim+d] = float32(v)
		}
	}
	return out
}

// run attends with rows in the given order. scratch is the number of rows that scratch has room for.
func (a *attended) run(b kerneltest.Bench, order []int, scratch int) []uint32 {
	m, h := len(order), a.h
	span := a.span
	if h.Window > 0 {
		span = min(span, h.Window)
	}
	s := kernels.Slots{Rows: b.U32(kerneltest.Gather(a.rows, kernels.RowWords, order)), Table: b.U32(a.table),
		Ancestors: b.U32(kerneltest.Gather(a.ancestors, a.stride, order)), Stride: a.stride}
	qkv, keys := b.F32(kerneltest.Gather(a.qkv, h.Width(), order)), b.U32(kerneltest.Packed(h, a.keys))
	values := b.U32(kerneltest.Packed(h, a.values))
	scores, out := b.Poisoned(max(min(m, scratch)*Scratch(h, a.span, span), 1)), b.Poisoned(m*h.Query*h.Dim)
	defer b.Free(s.Rows, s.Table, s.Ancestors, qkv, keys, values, scores, out)
	return b.Run(func(r *kernels.Recorder) { Record(r, h, s, qkv, keys, values, scores, out, m, span) }, out)[0]
}

func TestAttention(t *testing.T) {
	shapes := []kernels.Heads{
		{Query: 1, KV: 1, Dim: 8}, {Query: 3, KV: 1, Dim: 64}, {Query: 8, KV: 4, Dim: 32},
		{Query: 6, KV: 2, Dim: 48}, {Query: 7, KV: 1, Dim: 96}, {Query: 4, KV: 4, Dim: 128},
		{Query: 2, KV: 1, Dim: 256},
		{Query: 6, KV: 2, Dim: 48, Window: 21}, {Query: 2, KV: 1, Dim: 40, Window: 1},
		{Query: 2, KV: 1, Dim: 16, Window: 400},
		{Query: 6, KV: 2, Dim: 24, Scale: 1}, {Query: 6, KV: 2, Dim: 24, Window: 21, Shares: true},
	}
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		all := make([]int, 64)
		for i := range all {
			all[i] = i
		}
		for i, h := range shapes {
			for n, format := range []kernels.KVFormat{kernels.KVF32, kernels.KVF16, kernels.KVQ8} {
				h.Format = format
				// The shape whose bits are compared below meets every format; the others meet two of the three.
				if !dev.Info().Host() && !testing.Short() && !kerneltest.Full() && i%3 == n && h.Dim != 48 {
					continue
				}
				if testing.Short() && (h.Dim != 48 && h.Dim != 24 || h.Format == kernels.KVF16 && h.Window > 0) {
					continue
				}
				a := newAttended(h, 150)
				var want []float32
				for i := range 64 {
					want = append(want, a.plain(i)...)
				}
				got := a.run(b, all, 64)
				kerneltest.CloseTo(t, fmt.Sprintf("%+v", h), webgpu.Memory(got).F32(), want, 2e-5, 3)
				if h.Window == 21 { // a few rows a dispatch: the same bits
					kerneltest.SameBits(t, fmt.Sprintf("%+v in parts", h), a.run(b, all, 5), got)
				}
				// With and without a window in every format; in short runs one format each.
				apart := h.Dim == 48 && (h.Window == 0 || h.Format == kernels.KVF32)
				if testing.Short() {
					apart = h.Dim == 48 && (h.Window > 0 && h.Format == kernels.KVF32 ||
						h.Window == 0 && h.Format == kernels.KVQ8)
				}
				if apart {
					kerneltest.Invariant(t, h.Query*h.Dim, func(order []int) []uint32 { return a.run(b, order, 64) })
				}
			}
		}
	})
}

// TestAttentionLong attends to many blocks, all of them or those of a window.
func TestAttentionLong(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for n, h := range []kernels.Heads{{Query: 8, KV: 4, Dim: 64}, {Query: 6, KV: 2, Dim: 128, Window: 700}} {
			if h.Format = []kernels.KVFormat{kernels.KVF32, kernels.KVQ8}[n]; testing.Short() && n > 0 {
				continue
			}
			a := newAttended(h, 2500)
			order := []int{63, 0, 40, 9, 55, 62, 18}
			var want []float32
			for _, i := range order {
				want = append(want, a.plain(i)...)
			}
			got := a.run(b, order, 64)
			kerneltest.CloseTo(t, fmt.Sprintf("%+v", h), webgpu.Memory(got).F32(), want, 2e-5, 3)
			for at, i := range order {
				width := h.Query * h.Dim
				kerneltest.SameBits(t, fmt.Sprintf("row %d alone", i), a.run(b, []int{i}, 64),
					got[at*width:(at+1)*width])
			}
		}
	})
}

// A token deep in a tree and the same token in plain decoding see the same keys in the same order: the bits must
// agree although the slots differ.
func TestAttentionTreeEqualsPlain(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, window := range []int{0, 4} { // 4 begins among the ancestors of some rows and before those of others
			h := kernels.Heads{Query: 6, KV: 2, Dim: 32, Window: window}
			a := newAttended(h, 70)
			used := map[uint32]bool{}
			for _, slot := range a.table {
				used[slot] = true
			}
			var spare []int // spare[d] holds the key d positions before the last
			for slot := range a.slots {
				if !used[uint32(slot)] {
					spare = append(spare, slot)
				}
			}
			for i := range 64 { // every row at the last position, with more and more of it in the tree
				tree := i % 8
				copy(a.qkv[i*a.h.Width():(i+1)*a.h.Width()], a.qkv[:a.h.Width()])
				a.rows[4*i], a.rows[4*i+2] = uint32(a.span-1), uint32(a.span-tree)
				for k := range tree { // the key moved to a slot that no table entry names
					from, to := int(a.table[a.span-tree+k]), spare[tree-1-k]
					kv := a.h.KV * a.h.Dim
					copy(a.keys[to*kv:(to+1)*kv], a.keys[from*kv:(from+1)*kv])
					copy(a.values[to*kv:(to+1)*kv], a.values[from*kv:(from+1)*kv])
					a.ancestors[i*a.stride+k] = uint32(to)
				}
			}
			all := make([]int, 64)
			for i := range all {
				all[i] = i
			}
			got, width := a.run(b, all, 64), a.h.Query*a.h.Dim
			for i := range 64 {
				kerneltest.SameBits(t, fmt.Sprintf("window %d, %d tree levels", window, i%8),
					got[i*width:(i+1)*width], got[:width])
			}
		}
	})
}
