package kernels

import (
	"context"
	"fmt"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/open"
)

// benchBuffers makes buffers of words for a benchmark.
func benchBuffers(b *testing.B, dev webgpu.Device) func(words []uint32) View {
	return func(words []uint32) View {
		buf, err := dev.NewBuffer("bench", 4*len(words), webgpu.Storage)
		if err != nil {
			b.Fatal(err)
		}
		if err := dev.Write(buf, 0, webgpu.U32Bytes(words)); err != nil {
			b.Fatal(err)
		}
		return View{Buffer: buf, Size: 4 * len(words)}
	}
}

// BenchmarkSampling times what a pass pays for its logits, readback included. "empty"
// is a readback after the smallest kernel there is.
func BenchmarkSampling(b *testing.B) {
	dev, _, err := open.Device(context.Background(), open.Accelerator)
	if err != nil {
		b.Skip(err)
	}
	defer dev.Destroy()
	buffer := benchBuffers(b, dev)
	measure := func(name string, out View, record func(*Recorder)) {
		b.Run(name, func(b *testing.B) {
			r := NewRecorder(name, dev.Info())
			record(r)
			built, err := Build(dev, r)
			if err != nil {
				b.Fatal(err)
			}
			defer built.Free()
			m := webgpu.NewMemory(out.Size)
			for b.Loop() {
				if err := dev.Run(built.Programs, webgpu.Region{Buffer: out.Buffer, Offset: out.Offset, Dst: m.Bytes()}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	p := DrawParams{Temperature: 0.8, Seed: 1, TopK: 40, TopP: 0.95}
	for _, vocab := range []int{512, 32000} {
		for _, rows := range []int{1, 16} {
			var views []View
			view := func(words []uint32) View { v := buffer(words); views = append(views, v); return v }
			in := Logits{View: view(bits(testLogits(1, rows, vocab))), Rows: rows, Vocab: vocab}
			target := Logits{View: view(bits(testLogits(2, rows+1, vocab))), Rows: rows + 1, Vocab: vocab}
			positions := view(positionsFrom(1, rows+1))
			p.Coupled = false
			draw := view(words(p))
			p.Coupled = true
			coupled := view(words(p))
			scratch := view(make([]uint32, max(SampleScratch(rows, vocab), FilterScratch(rows+1))/4))
			out := view(make([]uint32, (rows+1)*SampleWords(10)))
			q, tq := view(make([]uint32, rows*FilterWords)), view(make([]uint32, (rows+1)*FilterWords))
			for _, lanes := range []Lanes{Serial, Grouped} {
				at := fmt.Sprintf("vocab=%d/rows=%d/lanes=%d", vocab, rows, lanes)
				measure("empty/"+at, out, func(r *Recorder) { r.Select(selectOf(view, out)) })
				measure("sample/"+at, out, func(r *Recorder) { r.Sample(lanes, in, 10, RawLogits, draw, positions, scratch, out) })
				measure("coupled/"+at, out, func(r *Recorder) { r.Sample(lanes, in, 10, LogProbs, coupled, positions, scratch, out) })
				measure("filter/"+at, q, func(r *Recorder) { r.Filter(lanes, in, draw, positions, scratch, q) })
				measure("filters+reject/"+at, out, func(r *Recorder) {
					r.Filter(lanes, in, draw, positions, scratch, q)
					r.Filter(lanes, target, draw, positions, scratch, tq)
					r.Reject(lanes, Rejection{Target: target, Draft: in, TargetRecord: tq, DraftRecord: q, Draw: draw, Positions: positions, Out: out})
				})
			}
			for _, v := range views {
				dev.FreeBuffer(v.Buffer)
			}
		}
	}
}

// selectOf is the smallest selection there is, writing to out.
func selectOf(view func([]uint32) View, out View) Selection {
	word := func() View { return view(make([]uint32, 64)) }
	return Selection{Beams: 1, K: 1, MaxDepth: 1, Samples: word(), Scores: word(), Ancestors: word(), Slots: word(),
		NextTokens: word(), NextScores: word(), NextAncestors: word(), Out: out}
}
