package graph

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
	"foretoken/models/kv"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	"foretoken/webgpu/kernels/kerneltest"
	layerkernel "foretoken/webgpu/kernels/layer"
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
	m, seq, err := Load(context.Background(), kerneltest.Accelerator(b), f, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	b.Log(m.Kernels.Choices())
	const repeat, most = 32, 16
	inputs, err := m.Buffer("inputs", 4*kv.PassWords(most, 1))
	if err != nil {
		b.Fatal(err)
	}
	records, err := m.Buffer("records", 4*most*kernels.SampleWords(m.Options.TopK))
	if err != nil {
		b.Fatal(err)
	}
	pass := kv.NewPass(seq, inputs.Buffer, 0, most, 1)
	c, w, y, p, cache := m.Arch, &m.Space, &m.layers[0], &pass, pass.Cache(0)
	rows := func(v kernels.View, stride int) kernels.Rows { return kernels.Rows{View: v, Stride: stride} }
	for _, n := range []int{1, 4, most} {
		for i := range n { // the context of a run of 64 tokens
			p.Set(i, 1, 150, uint32(i), 151)
		}
		if err := p.Write(most); err != nil {
			b.Fatal(err)
		}
		for name, record := range map[string]func(r *kernels.Recorder){
			"embed": func(r *kernels.Recorder) { layerkernel.RecordEmbed(r, m.embed.weights[0], p.Tokens, w.X, n, 1) },
			"norm": func(r *kernels.Recorder) {
				layerkernel.RecordNorm(r, m.Kernels.Lanes, w.X, y.mixNorm, w.Norm, n, c.Dim, c.Eps)
			},
			"qkv": func(r *kernels.Recorder) {
				(&recording{m, r, p, n}).matmul(y.qkv, rows(w.Norm, c.Dim), rows(w.qkv, y.heads.Width()), false)
			},
			"rope": func(r *kernels.Recorder) {
				attention.RecordRope(r, y.heads, p.Rows, m.ropes[y.mix.Rope], y.bias, w.qkv, cache.Keys,
					cache.Values, n)
			},
			"attention": func(r *kernels.Recorder) {
				attention.Record(r, y.heads, p.Slots(), w.qkv, cache.Keys, cache.Values, w.scores, w.att, n,
					y.span)
			},
			"out": func(r *kernels.Recorder) {
				(&recording{m, r, p, n}).matmul(y.out, rows(w.att, y.attended()), rows(w.X, c.Dim), true)
			},
			"gates": func(r *kernels.Recorder) {
				(&recording{m, r, p, n}).matmul(y.gates, rows(w.Norm, c.Dim), rows(w.gates, 2*y.width), false)
			},
			"silu": func(r *kernels.Recorder) { layerkernel.RecordSiLU(r, w.gates, w.act, n, y.width) },
			"down": func(r *kernels.Recorder) {
				(&recording{m, r, p, n}).matmul(y.down, rows(w.act, y.width), rows(w.X, c.Dim), true)
			},
			"head": func(r *kernels.Recorder) { m.Head(r, 0, n, 0) },
			"sample": func(r *kernels.Recorder) {
				sample.Record(r, m.Kernels.Lanes, m.LogitRows(n), m.Options.TopK, sample.RawLogits, w.Draw, p.Drawn,
					w.Scratch, records)
			},
			"pass": func(r *kernels.Recorder) { m.Forward(r, p, n) },
		} {
			r := m.Recorder(name)
			for range repeat {
				record(r)
			}
			built, err := kernels.Build(m.Dev, r)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/rows=%d", name, n), func(b *testing.B) {
				var word [4]byte
				for b.Loop() {
					if err := m.Dev.Run(built.Programs, webgpu.Region{Buffer: w.Scratch.Buffer,
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
