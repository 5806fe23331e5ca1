//go:build !js

package foretoken

import (
	"context"
	"testing"

	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu/open"
)

// BenchmarkGenerate decodes 64 tokens of one prompt with the built-in pair and
// reports tokens a second and where the time goes.
func BenchmarkGenerate(b *testing.B) {
	s := demoSession(b, open.Accelerator)
	prompt := goPrompts(b)[20].Prompt
	for _, c := range []struct {
		name string
		r    Request
	}{
		{"plain", Request{Policy: method.DrafterNone}},
		{"chain2", Request{Policy: method.DrafterChain, Depth: 2}},
		{"chain4", Request{Policy: method.DrafterChain, Depth: 4}},
		{"eagle2-d4-k4-n16", Request{Policy: method.DrafterEAGLE2, Depth: 4, TopK: 4, Nodes: 16}},
		{"eagle2-d2-k3-n8", Request{Policy: method.DrafterEAGLE2, Depth: 2, TopK: 3, Nodes: 8}},
		{"ngram", Request{Policy: method.DrafterNgram}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.r.MaxTokens = 64
			var all spec.Stats
			for b.Loop() {
				got, err := s.Generate(context.Background(), prompt, c.r, nil)
				if err != nil {
					b.Fatal(err)
				}
				all.Add(&got.Stats)
			}
			b.ReportMetric(all.DecodeSpeed(), "tok/s")
			b.ReportMetric(all.AcceptedLength(), "tok/call")
			b.ReportMetric(all.PerRound(all.Draft), "draft-ms/round")
			b.ReportMetric(all.PerRound(all.Verify), "verify-ms/round")
			b.ReportMetric(all.PerRound(all.Host), "host-ms/round")
		})
	}
}
