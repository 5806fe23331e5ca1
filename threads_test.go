package foretoken

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"foretoken/models/demo"
	"foretoken/spec/method"
	"foretoken/webgpu/simd"
)

// TestThreads decodes on eight threads, the most of a page. Tokens and log-probabilities equal those of one thread, bit
// for bit, before and after the programs have chosen their numbers of parts.
func TestThreads(t *testing.T) {
	target, draft := demoFile(t, demo.TargetName), demoFile(t, demo.DraftName)
	var want []string
	for _, threads := range []int{1, 8} {
		for session := range threads { // each session chooses its numbers of parts again
			dev, err := simd.Open(simd.Options{Threads: threads})
			if err != nil {
				t.Fatal(err)
			}
			s := openPair(t, dev, target, draft, Options{})
			var got []string
			for _, policy := range []string{method.DrafterNone, method.DrafterEAGLE2, method.DrafterAuto} {
				r := Request{Policy: policy, LogProbs: true, MaxTokens: 32}
				if policy == method.DrafterEAGLE2 {
					r.Depth, r.TopK, r.Nodes = 3, 3, 8
				}
				line := ""
				_, err := s.Generate(context.Background(), "func (s *Server) Close() error {", r, func(e *Event) error {
					for _, token := range e.Tokens {
						line += fmt.Sprint(token.ID, " ", *token.LogProb, "; ")
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, line)
			}
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%d threads, session %d:\n%q\nwant\n%q", threads, session, got, want)
			}
			s.Close()
			dev.Destroy()
		}
	}
}
