package llama

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	"foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/kernels/sample"
)

// BenchmarkKernels times each kernel of the built-in target alone, with many dispatches per submit, at the row
// counts of plain decoding, of a chain and of a tree.
func BenchmarkKernels(b *testing.B) {
	raw, err := os.ReadFile(filepath.Join("..", "demo", "target-q8_0.gguf"))
	if err != nil {
		b.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes("target-q8_0.gguf", raw))
	if err != nil {
		b.Fatal(err)
	}
	m, err := LoadTarget(context.Background(), accelerator(b), f, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	b.Log(m.Tuning())
	const repeat = 32
	c, w, y, p := m.cfg, &m.work, &m.layers[0], &m.prefill.batch
	rows := func(v kernels.View, stride int) kernels.Rows { return kernels.Rows{View: v, Stride: stride} }
	slots, cache := p.Slots(), m.seq.Layers[0]
	for _, n := range []int{1, 4, 16} {
		for i := range n { // the context of a run of 64 tokens
			p.Set(i, 1, 150, uint32(i), 151)
		}
		if err := p.Write(p.Capacity()); err != nil {
			b.Fatal(err)
		}
		for name, record := range map[string]func(r *kernels.Recorder){
			"embed": func(r *kernels.Recorder) { layer.RecordEmbed(r, m.embed.weights[0], p.Tokens, w.x, n, 1) },
			"norm": func(r *kernels.Recorder) {
				layer.RecordNorm(r, m.tuning.Lanes, w.x, y.attnNorm, w.norm, n, c.Dim, c.Eps)
			},
			"qkv": func(r *kernels.Recorder) {
				m.matmul(r, y.qkv, rows(w.norm, c.Dim), rows(w.qkv, m.heads.Width()), n, false)
			},
			"rope": func(r *kernels.Recorder) {
				attention.RecordRope(r, m.heads, p.Rows, m.rope, y.bias, w.qkv, cache.Keys, cache.Values, n)
			},
			"attention": func(r *kernels.Recorder) {
				attention.Record(r, m.heads, slots, w.qkv, cache.Keys, cache.Values, w.scores, w.att, n,
					m.widestSpan())
			},
			"out": func(r *kernels.Recorder) {
				m.matmul(r, y.out, rows(w.att, m.heads.Query*m.heads.Dim), rows(w.x, c.Dim), n, true)
			},
			"gates": func(r *kernels.Recorder) {
				m.matmul(r, y.gates, rows(w.norm, c.Dim), rows(w.gates, 2*c.Layers[0].FFN.Width), n, false)
			},
			"silu": func(r *kernels.Recorder) { layer.RecordSiLU(r, w.gates, w.act, n, c.Layers[0].FFN.Width) },
			"down": func(r *kernels.Recorder) {
				m.matmul(r, y.down, rows(w.act, c.Layers[0].FFN.Width), rows(w.x, c.Dim), n, true)
			},
			"head": func(r *kernels.Recorder) { m.head(r, 0, n, w.logits, 0) },
			"sample": func(r *kernels.Recorder) {
				sample.Record(r, m.tuning.Lanes, m.logitRows(n), m.opts.TopK, sample.RawLogits, w.draw, p.Drawn,
					w.scratch, m.results.records.view)
			},
			"pass": func(r *kernels.Recorder) { m.forward(r, p, n) },
		} {
			r := m.recorder(name)
			for range repeat {
				record(r)
			}
			built, err := kernels.Build(m.dev, r)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/rows=%d", name, n), func(b *testing.B) {
				var word [4]byte
				for b.Loop() {
					if err := m.dev.Run(built.Programs, webgpu.Region{Buffer: w.scratch.Buffer,
						Dst: word[:]}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*repeat), "µs/dispatch")
			})
			built.Free()
		}
	}
}
