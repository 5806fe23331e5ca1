package runner

import (
	"math"
	"slices"
	"strings"
	"testing"

	"foretoken/models/graph"
	"foretoken/models/modeltest"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// turn is a request of a talk: it goes on from the text so far, cut to its first tokens, with more behind them.
type turn struct {
	name   string
	keep   int // tokens of the text so far; 0: none, -1: all
	more   []int32
	tokens int
	full   bool // of FORETOKEN_FULL=1 alone
}

// talk has what the cache of a chat sees: a text, its continuation, an answer made again, an edit, another text.
var talk = []turn{
	{name: "first", more: text, tokens: 8},
	{name: "continued", keep: -1, more: []int32{300, 17}, tokens: 6},
	{name: "again", keep: len(text) + 10, tokens: 6, full: true},
	{name: "edited", keep: len(text) - 2, more: []int32{99, 100}, tokens: 8, full: true},
	{name: "another", more: []int32{text[4], text[3]}, tokens: 8, full: true},
}

// answer holds the tokens of a turn and the bits of their log-probabilities.
type answer struct {
	tokens []int32
	bits   []uint32
}

// answers runs the talk, and counts the drafted tokens that the target accepted. With fresh set, each turn begins with
// empty caches.
func answers(t *testing.T, target *Target, draft *Draft, c method.Config, s spec.Sampling,
	fresh bool) (all []answer, accepted int) {
	t.Helper()
	target.Reset()
	draft.Reset()
	var seq []int32
	for _, turn := range talk {
		if turn.full && !full() {
			continue
		}
		if fresh {
			target.Reset()
			draft.Reset()
		}
		if turn.keep >= 0 {
			seq = seq[:turn.keep]
		}
		prompt := append(slices.Clone(seq), turn.more...)
		g, err := method.New(target, c, draft, nil)
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		stats, err := g.Generate(background, prompt, spec.Options{Sampling: s, MaxTokens: turn.tokens, LogProbs: true},
			func(e *spec.Event) error {
				a.tokens = append(a.tokens, e.Tokens...)
				for _, p := range e.LogProbs {
					a.bits = append(a.bits, math.Float32bits(p))
				}
				return nil
			})
		if err != nil {
			t.Fatalf("%s: %v", turn.name, err)
		}
		if reuses := turn.keep != 0 && !fresh; reuses != (stats.Reused > 0) || len(a.tokens) == 0 {
			t.Errorf("%s: %d tokens, %d of the prompt's reused", turn.name, len(a.tokens), stats.Reused)
		}
		seq = append(prompt, a.tokens...)
		all, accepted = append(all, a), accepted+stats.Accepted
	}
	return all, accepted
}

// TestArchitecturesAreExact runs a model of every architecture with a draft of its own: chains and trees on kept caches
// give the tokens and the bits of plain decoding without caches. FORETOKEN_FULL=1 adds ways to draft, sampling, turns
// and most architectures on an accelerator; TestOracle runs many rows at once.
func TestArchitecturesAreExact(t *testing.T) {
	ways := []method.Config{{Drafter: method.DrafterChain, Depth: 3},
		{Drafter: method.DrafterEAGLE2, Depth: 3, TopK: 3, Nodes: 10}}
	samplings := []spec.Sampling{{}}
	if full() {
		ways = append(ways, method.Config{Drafter: method.DrafterNgram, Depth: 4, NgramMax: 3, NgramMin: 1},
			method.Config{Drafter: method.DrafterStatic, Shape: [][]int{{3}, {2, 1}}})
		samplings = append(samplings, spec.Sampling{Temperature: 0.8, Seed: 7})
	}
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		for _, name := range modeltest.Architectures() {
			if !dev.Info().Host() && !inBrowser[name] && !full() {
				continue
			}
			t.Run(name, func(t *testing.T) {
				of, typ, _ := strings.Cut(name, "-")
				target := loadTarget(t, dev, name, graph.Options{MaxRows: 16, TopK: 4})
				draft := loadDraft(t, dev, of+"~-"+typ, graph.Options{})
				accepted := 0
				for _, s := range samplings {
					want, _ := answers(t, target, draft, method.Config{Drafter: method.DrafterNone}, s, true)
					for _, way := range ways {
						got, n := answers(t, target, draft, way, s, false)
						accepted += n
						for i, a := range want {
							if !slices.Equal(got[i].tokens, a.tokens) || !slices.Equal(got[i].bits, a.bits) {
								t.Errorf("%s at T=%g, answer %d: %v, plain decoding gives %v; of the same bits: %t",
									way.Drafter, s.Temperature, i, got[i].tokens, a.tokens,
									slices.Equal(got[i].bits, a.bits))
							}
						}
					}
				}
				if accepted == 0 {
					t.Error("no drafted token was accepted")
				}
			})
		}
	})
}
