package kernels

import (
	"context"
	"fmt"
	"testing"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/open"
)

// BenchmarkMatMul times a product of a matrix of x26m's gates and ups, 3072×512, in
// each format and family of the device, from one row of x to 32. GB/s are of weights read, which for
// one row is what bounds a GPU. compile-ms is what the first run of a pipeline takes beyond another.
//
//	go test ./webgpu/kernels -run - -bench MatMul/format=q8_0
func BenchmarkMatMul(b *testing.B) {
	dev, _, err := open.Device(context.Background(), open.Accelerator)
	if err != nil {
		b.Skip(err)
	}
	defer dev.Destroy()
	const n, k, repeat = 3072, 512, 8
	view := benchBuffers(b, dev)
	// x is as long as models have theirs, see Window.
	x, out := view(append(bits(normals(1, 32*k)), make([]uint32, Window/4-32*k)...)), view(make([]uint32, 32*n))
	for f := range formats {
		t := newTestWeight(f, n, k)
		w := &Weight{Format: f, Rows: n, Cols: k, Parts: []WeightPart{{Rows: n, Quants: view(t.quants)}}}
		if f.Quantised() {
			w.Parts[0].Scales = view(t.scales)
		}
		for _, family := range Families(dev.Info()) {
			for _, m := range []int{1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32} {
				b.Run(fmt.Sprintf("format=%s/family=%s/M=%d", f, family, m), func(b *testing.B) {
					r := NewRecorder("bench", dev.Info())
					for range repeat {
						r.MatMul(family, w, Rows{View: x, Stride: k}, Rows{View: out, Stride: n}, m, false)
					}
					begin := time.Now()
					built, err := Build(dev, r)
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
					b.ReportMetric(float64(4*(len(t.quants)+len(t.scales)))/float64(each.Nanoseconds()), "GB/s")
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
