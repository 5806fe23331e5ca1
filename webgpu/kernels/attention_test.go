package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"foretoken/webgpu"
)

// attended is a random sequence in a KV cache whose slots are shuffled, with
// 64 rows at different positions, some of them deep in a tree.
type attended struct {
	h                      Heads
	span, stride, slots    int
	qkv                    []float32 // (64, width)
	rows, table, ancestors []uint32
	keys, values           []float32 // (slots, kv·dim)
}

func newAttended(h Heads, span int) *attended {
	rng := rand.New(rand.NewPCG(uint64(h.Dim), uint64(span)))
	a := &attended{h: h, span: span, stride: 8, slots: span + 64}
	a.qkv = normals(7, 64*h.Width())
	for i := range a.qkv {
		a.qkv[i] /= float32(math.Sqrt(float64(h.Dim)))
	}
	a.keys, a.values = normals(8, a.slots*h.KV*h.Dim), normals(9, a.slots*h.KV*h.Dim)
	slots := rng.Perm(a.slots)
	for j := range span {
		a.table = append(a.table, uint32(slots[j]))
	}
	for i := range 64 {
		position := (i * 7) % span
		tree := min(rng.IntN(6), position) // the last `tree` positions are ancestors
		a.rows = append(a.rows, uint32(position), 0, uint32(position+1-tree), 0)
		for k := range a.stride {
			slot := uint32(slots[span+rng.IntN(64)])
			if k < tree && rng.IntN(2) == 0 { // half of them the sequence's own keys
				slot = a.table[position+1-tree+k]
			}
			a.ancestors = append(a.ancestors, slot)
		}
	}
	return a
}

// plain is the row's attention computed from scratch in float64.
func (a *attended) plain(i int) []float32 {
	h, position := a.h, int(a.rows[4*i])
	out := make([]float32, h.Query*h.Dim)
	for q := range h.Query {
		kvh := q / (h.Query / h.KV)
		weights, most := make([]float64, position+1), math.Inf(-1)
		slot := func(j int) int {
			if shared := int(a.rows[4*i+2]); j >= shared {
				return int(a.ancestors[i*a.stride+j-shared])
			}
			return int(a.table[j])
		}
		for j := range weights {
			for d := range h.Dim {
				weights[j] += float64(a.qkv[i*h.Width()+q*h.Dim+d]) * float64(a.keys[(slot(j)*h.KV+kvh)*h.Dim+d])
			}
			weights[j] /= math.Sqrt(float64(h.Dim))
			most = math.Max(most, weights[j])
		}
		sum := 0.0
		for j := range weights {
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

func (a *attended) run(b bench, lanes Lanes, order []int) []uint32 {
	m, h := len(order), a.h
	pack := func(x []float32) View {
		words := make([]uint32, h.Format.Words(len(x)))
		for i, v := range x {
			storeKV(h.Format, words, i, v)
		}
		return b.u32(words)
	}
	s := Slots{b.u32(gather(a.rows, RowWords, order)), b.u32(a.table), b.u32(gather(a.ancestors, a.stride, order)), a.stride}
	qkv, keys, values := b.f32(gather(a.qkv, h.Width(), order)), pack(a.keys), pack(a.values)
	scores, out := b.poisoned(m*h.Query*a.span), b.poisoned(m*h.Query*h.Dim)
	defer b.free(s.Rows, s.Table, s.Ancestors, qkv, keys, values, scores, out)
	return b.run(func(r *Recorder) { r.Attention(lanes, h, s, qkv, keys, values, scores, out, m, a.span) }, out)[0]
}

func TestAttention(t *testing.T) {
	shapes := []Heads{
		{Query: 1, KV: 1, Dim: 8}, {Query: 3, KV: 1, Dim: 64}, {Query: 8, KV: 4, Dim: 32},
		{Query: 6, KV: 2, Dim: 48}, {Query: 7, KV: 1, Dim: 96}, {Query: 4, KV: 4, Dim: 128}, {Query: 2, KV: 1, Dim: 256},
	}
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		all := make([]int, 64)
		for i := range all {
			all[i] = i
		}
		for _, lanes := range []Lanes{Serial, Grouped} {
			for _, h := range shapes {
				for _, h.Format = range []KVFormat{KVF32, KVF16} {
					a := newAttended(h, 150)
					name := fmt.Sprintf("lanes %d %+v", lanes, h)
					tol := 2e-5
					if h.Format == KVF16 {
						tol = 3e-2
					}
					var want []float32
					for i := range 64 {
						want = append(want, a.plain(i)...)
					}
					closeTo(t, name, webgpu.Memory(a.run(b, lanes, all)).F32(), want, tol, 3)
					if h.Dim == 48 {
						invariant(t, h.Query*h.Dim, func(order []int) []uint32 { return a.run(b, lanes, order) })
					}
				}
			}
		}
	})
}

// A token deep in a tree and the same token decoded plainly see the same keys
// in the same order: the bits must agree although the slots differ.
func TestAttentionTreeEqualsPlain(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, lanes := range []Lanes{Serial, Grouped} {
			a := newAttended(Heads{Query: 6, KV: 2, Dim: 32}, 70)
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
			got, width := a.run(b, lanes, all), a.h.Query*a.h.Dim
			for i := range 64 {
				sameBits(t, fmt.Sprintf("lanes %d, %d tree levels", lanes, i%8), got[i*width:(i+1)*width], got[:width])
			}
		}
	})
}

func TestRope(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, h := range []Heads{{Query: 3, KV: 1, Dim: 64, Rotary: 64}, {Query: 4, KV: 2, Dim: 8, Rotary: 8}, {Query: 2, KV: 2, Dim: 96, Rotary: 64}} {
			for _, h.HalfSplit = range []bool{false, true} {
				for _, h.Format = range []KVFormat{KVF32, KVF16} {
					testRope(b, h)
				}
			}
		}
	})
}

func testRope(b bench, h Heads) {
	const positions, slots = 300, 80
	var inverse []float64
	for i := range h.Rotary / 2 {
		inverse = append(inverse, math.Pow(10000, -2*float64(i)/float64(h.Rotary)))
	}
	table := b.f32(RopeTable(positions, inverse))
	x, kvWidth := normals(10, 64*h.Width()), h.KV*h.Dim
	position, slot := func(i int) int { return (i * 37) % positions }, func(i int) int { return (i*11 + 5) % slots }
	run := func(order []int) (qkv, keys, values webgpu.Memory) {
		var rows []uint32
		for _, i := range order {
			rows = append(rows, uint32(position(i)), uint32(slot(i)), 0, 0)
		}
		r, in := b.u32(rows), b.f32(gather(x, h.Width(), order))
		k, v := b.poisoned(h.Format.Words(slots*kvWidth)), b.poisoned(h.Format.Words(slots*kvWidth))
		defer b.free(r, in, k, v)
		out := b.run(func(rec *Recorder) { rec.Rope(h, r, table, in, k, v, len(order)) }, in, k, v)
		return out[0], out[1], out[2]
	}
	defer b.free(table)
	all := make([]int, 64)
	for i := range all {
		all[i] = i
	}
	qkv, keys, values := run(all)
	tol := 1e-5
	if h.Format == KVF16 {
		tol = 1e-3
	}
	for i := range 64 {
		for head := range h.Query + 2*h.KV {
			want := make([]float64, h.Dim)
			for d := range want {
				want[d] = float64(x[i*h.Width()+head*h.Dim+d])
			}
			if head < h.Query+h.KV {
				for pair, f := range inverse {
					a, c := 2*pair, 2*pair+1
					if h.HalfSplit {
						a, c = pair, pair+h.Rotary/2
					}
					sin, cos := math.Sincos(float64(position(i)) * f)
					want[a], want[c] = want[a]*cos-want[c]*sin, want[a]*sin+want[c]*cos
				}
			}
			for d, w := range want {
				var got float64
				switch {
				case head < h.Query:
					got = float64(qkv.F32()[i*h.Width()+head*h.Dim+d])
				case head < h.Query+h.KV:
					got = loadKV(h.Format, keys, slot(i)*kvWidth+(head-h.Query)*h.Dim+d)
				default:
					got = loadKV(h.Format, values, slot(i)*kvWidth+(head-h.Query-h.KV)*h.Dim+d)
				}
				if math.IsNaN(got) || math.Abs(got-w) > tol*math.Max(math.Abs(w), 100) {
					b.t.Fatalf("%+v row %d head %d element %d: %g, reference says %g", h, i, head, d, got, w)
				}
			}
		}
	}
	if h.Dim == 8 {
		invariant(b.t, h.Width(), func(order []int) []uint32 {
			q, k, v := run(order)
			var out []uint32
			for at, i := range order { // queries, then this row's cache entries as bits
				out = append(out, q[at*h.Width():at*h.Width()+h.Query*h.Dim]...)
				for d := range kvWidth {
					out = append(out, math.Float32bits(float32(loadKV(h.Format, k, slot(i)*kvWidth+d))))
				}
				for d := range kvWidth {
					out = append(out, math.Float32bits(float32(loadKV(h.Format, v, slot(i)*kvWidth+d))))
				}
			}
			return out
		})
	}
}
