package attention

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/open"
)

// BenchmarkAttention times the attention of a pass of x26m, eight layers with eight query heads and four key heads
// of 64 elements, after short and long texts in every cache format. The variants run in turn; the median counts.
//
//	go test ./webgpu/kernels/attention -run - -bench Attention -benchtime 20x
func BenchmarkAttention(b *testing.B) {
	for _, kind := range []string{"cpu", open.Accelerator} {
		b.Run(kind, func(b *testing.B) {
			dev, _, err := open.Device(context.Background(), kind)
			if err != nil {
				b.Skip(err)
			}
			defer dev.Destroy()
			benchAttention(b, dev)
		})
	}
}

func benchAttention(b *testing.B, dev webgpu.Device) {
	const layers, longest, most = 8, 4096, 16
	view := kerneltest.New(b, dev).U32
	type timed struct {
		name  string
		built *kernels.Built
		took  []time.Duration
	}
	h := kernels.Heads{Query: 8, KV: 4, Dim: 64}
	qkv, out := view(kerneltest.Bits(kerneltest.Normals(1, most*h.Width()))), view(make([]uint32, most*h.Query*h.Dim))
	table := make([]uint32, longest)
	for j := range table {
		table[j] = uint32(j)
	}
	slots, ancestors := view(table), view(make([]uint32, most))
	scratch := view(make([]uint32, most*Scratch(h, longest, longest)))
	for _, h.Format = range []kernels.KVFormat{kernels.KVF32, kernels.KVF16, kernels.KVQ8} {
		var keys, values []kernels.View
		cache := kerneltest.Packed(h, kerneltest.Normals(2, longest*h.KV*h.Dim))
		for range layers {
			keys, values = append(keys, view(cache)), append(values, view(cache))
		}
		for _, m := range []int{1, 16} {
			b.Run(fmt.Sprintf("kv=%s/rows=%d", h.Format, m), func(b *testing.B) {
				var all []*timed
				for _, length := range []int{64, 256, longest} {
					rows := make([]uint32, 0, m*kernels.RowWords)
					for range m {
						rows = append(rows, uint32(length-1), 0, uint32(length), 0)
					}
					s := kernels.Slots{Rows: view(rows), Table: slots, Ancestors: ancestors, Stride: 1}
					r := kernels.NewRecorder("bench", dev.Info())
					for n := range layers {
						Record(r, h, s, qkv, keys[n], values[n], scratch, out, m, longest)
					}
					built, err := kernels.Build(dev, r)
					if err != nil {
						b.Fatal(err)
					}
					defer built.Free()
					all = append(all, &timed{name: fmt.Sprintf("ms-after-%d", length), built: built})
				}
				var word [4]byte
				run := func() {
					for _, t := range all {
						begin := time.Now()
						if err := dev.Run(t.built.Programs,
							webgpu.Region{Buffer: out.Buffer, Dst: word[:]}); err != nil {
							b.Fatal(err)
						}
						t.took = append(t.took, time.Since(begin))
					}
				}
				run() // compile and touch memory first
				for _, t := range all {
					t.took = nil
				}
				for b.Loop() {
					run()
				}
				for _, t := range all {
					slices.Sort(t.took)
					b.ReportMetric(float64(t.took[len(t.took)/2].Microseconds())/1000, t.name)
				}
			})
		}
		for n := range layers {
			dev.FreeBuffer(keys[n].Buffer)
			dev.FreeBuffer(values[n].Buffer)
		}
	}
}
