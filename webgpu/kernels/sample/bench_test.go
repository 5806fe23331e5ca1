package sample

import (
	"context"
	"fmt"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/open"
)

// BenchmarkSampling times the sampling of a pass with readback, on each device. "empty" is a readback after a minimal
// kernel.
func BenchmarkSampling(b *testing.B) {
	for _, kind := range []string{"reference", "cpu", open.Accelerator} {
		b.Run(kind, func(b *testing.B) {
			dev, _, err := open.Device(context.Background(), kind)
			if err != nil {
				b.Skip(err)
			}
			defer dev.Destroy()
			benchSampling(b, dev)
		})
	}
}

func benchSampling(b *testing.B, dev webgpu.Device) {
	buffer := kerneltest.New(b, dev).U32
	measure := func(name string, out kernels.View, record func(*kernels.Recorder)) {
		b.Run(name, func(b *testing.B) {
			r := kernels.NewRecorder(name, dev.Info())
			record(r)
			built, err := kernels.Build(dev, r)
			if err != nil {
				b.Fatal(err)
			}
			defer built.Free()
			m := webgpu.NewMemory(out.Size)
			for b.Loop() {
				if err := dev.Run(built.Programs,
					webgpu.Region{Buffer: out.Buffer, Offset: out.Offset, Dst: m.Bytes()}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	smallest, place := kernels.Logits{View: buffer([]uint32{0}), Rows: 1, Vocab: 1}, buffer([]uint32{0, 1})
	p := kernels.DrawParams{Temperature: 0.8, Seed: 1, TopK: 40, TopP: 0.95}
	for _, vocab := range []int{512, 32000, 151936} {
		for _, rows := range []int{1, 16} {
			var views []kernels.View
			view := func(words []uint32) kernels.View { v := buffer(words); views = append(views, v); return v }
			in := kernels.Logits{View: view(kerneltest.Bits(kerneltest.Logits(1, rows, vocab))), Rows: rows,
				Vocab: vocab}
			target := kernels.Logits{View: view(kerneltest.Bits(kerneltest.Logits(2, rows+1, vocab))), Rows: rows + 1,
				Vocab: vocab}
			positions := view(kerneltest.PositionsFrom(1, rows+1))
			p.Coupled = false
			draw := view(kerneltest.Words(p))
			p.Coupled = true
			coupled := view(kerneltest.Words(p))
			scratch := view(make([]uint32, max(Scratch(rows, vocab), FilterScratch(rows+1))/4))
			out := view(make([]uint32, (rows+1)*kernels.SampleWords(10)))
			q, tq := view(make([]uint32, rows*kernels.FilterWords)), view(make([]uint32, (rows+1)*kernels.FilterWords))
			for _, lanes := range kerneltest.Ways(dev) {
				at := fmt.Sprintf("vocab=%d/rows=%d/lanes=%d", vocab, rows, lanes)
				measure("empty/"+at, out, func(r *kernels.Recorder) {
					RecordKeep(r, smallest, place, kernels.Logits{View: out, Rows: 1, Vocab: 1})
				})
				measure("sample/"+at, out, func(r *kernels.Recorder) {
					Record(r, lanes, in, 10, RawLogits, draw, positions, scratch, out)
				})
				measure("coupled/"+at, out, func(r *kernels.Recorder) {
					Record(r, lanes, in, 10, LogProbs, coupled, positions, scratch, out)
				})
				measure("filter/"+at, q, func(r *kernels.Recorder) {
					RecordFilter(r, lanes, in, draw, positions, scratch, q)
				})
				measure("filters+reject/"+at, out, func(r *kernels.Recorder) {
					RecordFilter(r, lanes, in, draw, positions, scratch, q)
					RecordFilter(r, lanes, target, draw, positions, scratch, tq)
					RecordReject(r, lanes, Rejection{Target: target, Draft: in, TargetRecord: tq, DraftRecord: q,
						Draw: draw, Positions: positions, Out: out})
				})
			}
			for _, v := range views {
				dev.FreeBuffer(v.Buffer)
			}
		}
	}
}
