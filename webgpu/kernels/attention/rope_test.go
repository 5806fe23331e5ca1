package attention

import (
	"math"
	"slices"
	"testing"

	"github.com/x448/float16"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

func TestRope(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, h := range []kernels.Heads{{Query: 3, KV: 1, Dim: 64, Rotary: 64}, {Query: 4, KV: 2, Dim: 8, Rotary: 8},
			{Query: 2, KV: 2, Dim: 96, Rotary: 64}, {Query: 2, KV: 1, Dim: 40, Rotary: 12},
			{Query: 3, KV: 1, Dim: 48}, {Query: 4, KV: 2, Dim: 16, Rotary: 8, Shares: true}} {
			for _, h.HalfSplit = range []bool{false, true} {
				for _, h.Format = range []kernels.KVFormat{kernels.KVF32, kernels.KVF16, kernels.KVQ8} {
					for _, more := range []string{"", "bias", "gain"} {
						if testing.Short() && more != "" && h.Dim != 40 || h.Shares && more != "" {
							continue
						}
						testRope(b, h, more)
					}
				}
			}
		}
	})
}

// testRope compares with the definition: after a bias, before a gain, or without either.
func testRope(b kerneltest.Bench, h kernels.Heads, more string) {
	const positions, slots, magnitude = 300, 80, 1.25
	var inverse []float64
	for i := range h.Rotary / 2 {
		inverse = append(inverse, math.Pow(10000, -2*float64(i)/float64(h.Rotary)))
	}
	angles := RopeTable(positions, inverse, magnitude)
	if h.Rotary == 0 {
		angles = make([]float32, 2) // never read
	}
	table, offsets, gains := b.F32(angles), make([]float32, h.Width()), slices.Repeat([]float32{1}, 2*h.Dim)
	var bias, gain kernels.View
	switch more {
	case "bias":
		offsets = kerneltest.Normals(11, h.Width())
		bias = b.F32(offsets)
		defer b.Free(bias)
	case "gain":
		gains = kerneltest.Normals(12, 2*h.Dim)
		gain = b.F32(gains)
		defer b.Free(gain)
	}
	x, kvWidth := kerneltest.Normals(10, 64*h.Width()), h.KV*h.Dim
	position, slot := func(i int) int { return (i * 37) % positions }, func(i int) int { return (i*11 + 5) % slots }
	run := func(order []int) (qkv []uint32, keys, values []float64) {
		var rows []uint32
		for _, i := range order {
			rows = append(rows, uint32(position(i)), uint32(slot(i)), 0, 0)
		}
		r, in := b.U32(rows), b.F32(kerneltest.Gather(x, h.Width(), order))
		k, v := b.Poisoned(h.CacheWords(slots)), b.Poisoned(h.CacheWords(slots))
		defer b.Free(r, in, k, v)
		out := b.Run(func(rec *kernels.Recorder) {
			if more == "gain" {
				RecordRopeGain(rec, h, r, table, gain, in, k, v, len(order))
			} else {
				RecordRope(rec, h, r, table, bias, in, k, v, len(order))
			}
		}, in, k, v)
		for i, cache := range out[1:] {
			if h.Shares && slices.ContainsFunc(cache, func(w uint32) bool { return w != 0x7fc0dead }) {
				b.T.Fatalf("%+v: cache %d of another layer was written", h, i)
			}
		}
		return out[0], kerneltest.Unpacked(h, out[1]), kerneltest.Unpacked(h, out[2])
	}
	defer b.Free(table)
	all := make([]int, 64)
	for i := range all {
		all[i] = i
	}
	qkv, keys, values := run(all)
	for i := range 64 {
		for head := range h.Width() / h.Dim {
			want := make([]float64, h.Dim)
			for d := range want {
				want[d] = float64(x[i*h.Width()+head*h.Dim+d] + offsets[head*h.Dim+d])
			}
			if head < h.Query+h.RowKV() {
				for pair, f := range inverse {
					a, c := 2*pair, 2*pair+1
					if h.HalfSplit {
						a, c = pair, pair+h.Rotary/2
					}
					sin, cos := math.Sincos(float64(position(i)) * f)
					want[a], want[c] = magnitude*(want[a]*cos-want[c]*sin), magnitude*(want[a]*sin+want[c]*cos)
				}
				for d := range want {
					want[d] *= float64(gains[h.Dim*min(head/h.Query, 1)+d])
				}
			}
			for d, w := range want {
				var got float64
				tol := 1e-5 * math.Max(math.Abs(w), 100)
				switch {
				case head < h.Query:
					got = float64(math.Float32frombits(qkv[i*h.Width()+head*h.Dim+d]))
				case head < h.Query+h.RowKV():
					got = keys[slot(i)*kvWidth+(head-h.Query)*h.Dim+d]
				default:
					got = values[slot(i)*kvWidth+(head-h.Query-h.KV)*h.Dim+d]
				}
				if block := h.Layout().Block; head >= h.Query && block > 0 { // half a step of the block's scale
					most := 0.0
					for _, v := range want[d/block*block:][:block] {
						most = math.Max(most, math.Abs(v))
					}
					tol += most / 127 * 0.5001
				} else if head >= h.Query && h.Format == kernels.KVF16 {
					tol += 1e-3 * math.Abs(w)
				}
				if math.IsNaN(got) || math.Abs(got-w) > tol {
					b.T.Fatalf("%+v %s row %d head %d element %d: %g, reference says %g", h, more, i, head, d, got, w)
				}
			}
		}
	}
	if h.Dim == 8 || h.Dim == 40 && h.Format == kernels.KVQ8 && more != "" {
		kerneltest.Invariant(b.T, h.Width(), func(order []int) []uint32 {
			q, k, v := run(order)
			var out []uint32
			for at, i := range order { // queries, then this row's cache entries
				out = append(out, q[at*h.Width():at*h.Width()+h.Query*h.Dim]...)
				for _, cache := range [][]float64{k, v} {
					for _, x := range cache[slot(i)*kvWidth:][:kvWidth] {
						out = append(out, math.Float32bits(float32(x)))
					}
				}
			}
			return out
		})
	}
}

// TestCacheOfHosts stores values that an f16 rounds in every way, and attends to one position at a time: the values
// must come back as the library rounds them. GPUs may flush the small ones and are free in the large ones.
func TestCacheOfHosts(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		if !dev.Info().Host() {
			t.Skip("not a host")
		}
		b, h := kerneltest.New(t, dev), kernels.Heads{Query: 1, KV: 1, Dim: 8, Format: kernels.KVF16, Window: 1}
		inf, nan := float32(math.Inf(1)), float32(math.NaN())
		values := []float32{0, 1, -2.5, 1.0 / 3, 65504, 65519.996, 65520, 1e30, inf, -inf, nan,
			0x1p-14, 0x1.ffcp-15, 0x1p-24, 0x1p-25, 0x1.000002p-25, 0x1.8p-24, -0x1.8p-23, 1e-30,
			1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-20, 1 + 0x3p-11, -1 - 0x1p-11}
		m := len(values)
		var qkv []float32
		var rows, slots []uint32
		for i, v := range values {
			for e := range h.Width() {
				qkv = append(qkv, 1)
				if e >= 16 {
					qkv[len(qkv)-1] = v
				}
			}
			rows, slots = append(rows, uint32(i), uint32(m-1-i), uint32(m), 0), append(slots, uint32(m-1-i))
		}
		s := kernels.Slots{Rows: b.U32(rows), Table: b.U32(slots), Ancestors: b.U32([]uint32{0}), Stride: 1}
		in, angles, out := b.F32(qkv), b.F32([]float32{1, 0}), b.Poisoned(m*h.Dim)
		k, v := b.Poisoned(h.CacheWords(m)), b.Poisoned(h.CacheWords(m))
		defer b.Free(s.Rows, s.Table, s.Ancestors, in, angles, out, k, v)
		got := b.Run(func(r *kernels.Recorder) {
			RecordRope(r, h, s.Rows, angles, kernels.View{}, in, k, v, m)
			Record(r, h, s, in, k, v, kernels.View{}, out, m, 1)
		}, out)[0].F32()
		for i, v := range values {
			want := float16.Fromfloat32(v).Float32()
			for _, g := range got[i*h.Dim:][:h.Dim] {
				if g != want && !(g != g && want != want) {
					t.Fatalf("%g comes back as %g, want %g", v, g, want)
				}
			}
		}
	})
}
