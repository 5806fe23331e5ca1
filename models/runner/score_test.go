package runner

import (
	"math"
	"slices"
	"testing"

	"foretoken/models/graph"
	"foretoken/models/modeltest"
	"foretoken/spec"
	"foretoken/spec/spectest"
	"foretoken/webgpu"
)

// TestScore compares the log-probabilities of a text with the reference's and with those of decoding it token by
// token.
func TestScore(t *testing.T) {
	for _, name := range []string{"tiny-f32", "tiny-q8_0"} {
		t.Run(name, func(t *testing.T) {
			ref, _ := modeltest.Oracle(t, name)
			onDevices(t, func(t *testing.T, dev webgpu.Device) {
				m := loadTarget(t, dev, name, graph.Options{MaxRows: 8})
				worst, compared := 0.0, 0
				for _, r := range ref.Results {
					if len(r.IDs) == 0 {
						continue
					}
					tokens := append(slices.Clone(r.IDs), r.Cont...)
					scores, err := m.Score(background, tokens)
					if err != nil {
						t.Fatal(err)
					}
					if len(scores) != len(tokens)-1 || m.Len() != len(tokens) {
						t.Fatalf("%d scores of %d tokens, %d in the sequence", len(scores), len(tokens), m.Len())
					}
					for step, top := range r.Top {
						for _, w := range top {
							if int32(w[0]) == r.Cont[step] {
								off := math.Abs(float64(scores[len(r.IDs)-1+step]) - w[1])
								if worst, compared = max(worst, off), compared+1; off > 2e-3 {
									t.Fatalf("%q step %d: ln p is %g, the reference says %g", r.Prompt, step,
										scores[len(r.IDs)-1+step], w[1])
								}
							}
						}
					}
					restart(t, m, tokens[:1])
					m.Reset()
					for i, token := range tokens[:min(len(tokens)-1, 20)] {
						if _, err := verify(m, node(token), spec.Sampling{}); err != nil {
							t.Fatal(err)
						}
						p := spectest.Distribution(spec.Sampling{Temperature: 1}, m.logitsOf(t, 0))
						if want := math.Log(p[tokens[i+1]]); math.Abs(float64(scores[i])-want) > 1e-4 {
							t.Fatalf("%q token %d: ln p is %g, decoded plainly %g", r.Prompt, i+1, scores[i], want)
						}
						if err := m.Commit([]int32{0}); err != nil {
							t.Fatal(err)
						}
					}
				}
				t.Logf("%d log-probabilities, worst difference %.2g nats", compared, worst)
				if compared == 0 {
					t.Error("nothing was compared")
				}
				if scores, err := m.Score(background, []int32{1}); err != nil || len(scores) != 0 {
					t.Errorf("one token: %v, %v", scores, err)
				}
				if _, err := m.Score(background, slices.Repeat([]int32{1}, 129)); err == nil {
					t.Error("a text longer than the context was scored")
				}
			})
		})
	}
}
