package attention

import (
	"math"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

func TestRope(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, h := range []kernels.Heads{{Query: 3, KV: 1, Dim: 64, Rotary: 64}, {Query: 4, KV: 2, Dim: 8, Rotary: 8},
			{Query: 2, KV: 2, Dim: 96, Rotary: 64}, {Query: 2, KV: 1, Dim: 40, Rotary: 12}} {
			for _, h.HalfSplit = range []bool{false, true} {
				for _, h.Format = range []kernels.KVFormat{kernels.KVF32, kernels.KVF16, kernels.KVQ8} {
					for _, bias := range []bool{false, true} {
						if testing.Short() && bias && h.Dim != 40 {
							continue
						}
						testRope(b, h, bias)
					}
				}
			}
		}
	})
}

func testRope(b kerneltest.Bench, h kernels.Heads, biased bool) {
	const positions, slots, magnitude = 300, 80, 1.25
	var inverse []float64
	for i := range h.Rotary / 2 {
		inverse = append(inverse, math.Pow(10000, -2*float64(i)/float64(h.Rotary)))
	}
	table, offsets := b.F32(RopeTable(positions, inverse, magnitude)), make([]float32, h.Width())
	var bias kernels.View
	if biased {
		offsets = kerneltest.Normals(11, h.Width())
		bias = b.F32(offsets)
		defer b.Free(bias)
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
		out := b.Run(func(rec *kernels.Recorder) { RecordRope(rec, h, r, table, bias, in, k, v, len(order)) }, in, k, v)
		return out[0], kerneltest.Unpacked(h, out[1]), kerneltest.Unpacked(h, out[2])
	}
	defer b.Free(table)
	all := make([]int, 64)
	for i := range all {
		all[i] = i
	}
	qkv, keys, values := run(all)
	for i := range 64 {
		for head := range h.Query + 2*h.KV {
			want := make([]float64, h.Dim)
			for d := range want {
				want[d] = float64(x[i*h.Width()+head*h.Dim+d] + offsets[head*h.Dim+d])
			}
			if head < h.Query+h.KV {
				for pair, f := range inverse {
					a, c := 2*pair, 2*pair+1
					if h.HalfSplit {
						a, c = pair, pair+h.Rotary/2
					}
					sin, cos := math.Sincos(float64(position(i)) * f)
					want[a], want[c] = magnitude*(want[a]*cos-want[c]*sin), magnitude*(want[a]*sin+want[c]*cos)
				}
			}
			for d, w := range want {
				var got float64
				tol := 1e-5 * math.Max(math.Abs(w), 100)
				switch {
				case head < h.Query:
					got = float64(math.Float32frombits(qkv[i*h.Width()+head*h.Dim+d]))
				case head < h.Query+h.KV:
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
					b.T.Fatalf("%+v bias %t row %d head %d element %d: %g, reference says %g", h, biased, i, head, d,
						got, w)
				}
			}
		}
	}
	if h.Dim == 8 || h.Dim == 40 && h.Format == kernels.KVQ8 && biased {
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
