package matmul

import (
	"context"
	"fmt"
	"testing"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/open"
)

// BenchmarkMatMul times a product of a matrix of x26m's gates and ups, 3072×512, in each format and family of the
// device, for 1 to 32 rows of x. GB/s counts the weights, whose bandwidth bounds a GPU at one row. compile-ms is
// the difference between the first run of a pipeline and a later one.
//
//	go test ./webgpu/kernels/matmul -run - -bench MatMul/format=q8_0
func BenchmarkMatMul(b *testing.B) {
	dev, _, err := open.Device(context.Background(), open.Accelerator)
	if err != nil {
		b.Skip(err)
	}
	defer dev.Destroy()
	benchmark(b, dev, func(f kernels.Format) []Family { return Families(dev.Info(), f) })
}

// BenchmarkHost is BenchmarkMatMul on the cpu device, whose families are the same kernel.
func BenchmarkHost(b *testing.B) {
	dev := openHost(b)
	benchmark(b, dev, func(f kernels.Format) []Family { return Families(dev.Info(), f)[:1] })
}

func benchmark(b *testing.B, dev webgpu.Device, families func(kernels.Format) []Family) {
	const n, k, repeat = 3072, 512, 8
	view := kerneltest.New(b, dev).U32
	x := view(kerneltest.Bits(kerneltest.Normals(1, 32*k)))
	out, packed := view(make([]uint32, 32*n)), view(make([]uint32, 32*PackedWords(k)))
	for f := range kernels.Formats {
		t := kerneltest.NewWeight(f, n, k)
		w := &kernels.Weight{Format: f, Rows: n, Cols: k,
			Parts: []kernels.WeightPart{{Rows: n, Quants: view(t.Quants)}}}
		if f.Quantised() {
			w.Parts[0].Scales = view(t.Scales)
		}
		for _, family := range families(f) {
			for _, m := range []int{1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32} {
				b.Run(fmt.Sprintf("format=%s/family=%s/M=%d", f, family, m), func(b *testing.B) {
					r := kernels.NewRecorder("bench", dev.Info())
					r.Rounded = packed
					for range repeat {
						Record(r, family, w, kernels.Rows{View: x, Stride: k}, kernels.Rows{View: out, Stride: n}, m,
							false)
					}
					begin := time.Now()
					built, err := kernels.Build(dev, r)
					if err != nil {
						b.Fatal(err)
					}
					defer built.Free()
					var word [4]byte
					run := func() {
						if err := dev.Run(built.Programs, webgpu.Region{Buffer: out.Buffer, Dst: word[:]}); err != nil {
							b.Fatal(err)
						}
					}
					run()
					first := time.Since(begin)
					for b.Loop() {
						run()
					}
					each := b.Elapsed() / time.Duration(b.N*repeat)
					b.ReportMetric(float64(each.Nanoseconds()), "ns/product")
					b.ReportMetric(float64(4*(len(t.Quants)+len(t.Scales)))/float64(each.Nanoseconds()), "GB/s")
					b.ReportMetric(float64((first - repeat*each).Milliseconds()), "compile-ms")
				})
			}
		}
		for _, p := range w.Parts {
			dev.FreeBuffer(p.Quants.Buffer)
			if f.Quantised() {
				dev.FreeBuffer(p.Scales.Buffer)
			}
		}
	}
}
