package spec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// hashing is a guide whose word on a node is a hash of all tokens before it: which tokens are left, and
// what is added to some. One that is asked about another sequence says something else.
type hashing struct {
	vocab int
	at    prefix
	asked int
	paths []prefix // scratch
}

func (g *hashing) Shape(tree *Tree, s *Shaping) error {
	g.asked++
	g.paths = append(g.paths[:0], g.at)
	for i := range tree.Tokens {
		if i > 0 {
			g.paths = append(g.paths, g.paths[tree.Parents[i]].then(tree.Tokens[i]))
		}
		mask, common, own := g.says(g.paths[i])
		if mask == nil {
			s.Which = append(s.Which, -1)
		} else {
			s.Which = append(s.Which, int32(len(s.Masks)))
			s.Masks = append(s.Masks, mask)
		}
		if i == 0 {
			s.Common = append(s.Common, common...)
		} else { // what the root's has and this one's has not is taken back
			for _, b := range s.Common {
				if !slices.ContainsFunc(own, func(c Bias) bool { return c.Token == b.Token }) {
					own = append(own, Bias{b.Token, 0})
				}
			}
		}
		s.Own = append(s.Own, own)
	}
	return nil
}

// says gives a mask that leaves at least one token, biases, and the same ones as a node's own.
func (g *hashing) says(p prefix) (mask []uint32, common, own []Bias) {
	h := mix(p.hash + 99)
	for id := range int32(g.vocab) {
		if mix(h+uint64(id))%5 == 0 {
			common = append(common, Bias{id, float32(mix(h*3+uint64(id))%9) - 4})
		}
	}
	own = slices.Clone(common)
	if h%4 > 0 {
		mask = make([]uint32, (g.vocab+31)/32)
		for id := range g.vocab {
			if mix(h+uint64(id)*7)%3 == 0 || id == int(h%uint64(g.vocab)) {
				mask[id/32] |= 1 << (id % 32)
			}
		}
	}
	return mask, common, own
}

func (g *hashing) Take(tokens []int32) error {
	for _, t := range tokens {
		g.at = g.at.then(t)
	}
	return nil
}

// guidedPlain is plain decoding under a guide.
func guidedPlain(s *script, prompt []int32, n int, sampling Sampling, g *hashing) []int32 {
	at := of(prompt)
	var out []int32
	for range n {
		z := s.logits(at, 0)
		mask, common, _ := g.says(g.at)
		shaping := &Shaping{Common: common}
		if mask != nil {
			shaping.Masks, shaping.Which = [][]uint32{mask}, []int32{0}
		}
		applyShape(z, shaping, 0)
		token := sampling.Draw(z, StreamTarget, uint32(at.len))
		out, at, g.at = append(out, token), at.then(token), g.at.then(token)
	}
	return out
}

// TestGuidedSpeculationEqualsGuidedPlainDecoding runs every drafter and method that matches
// tokens under a guide.
func TestGuidedSpeculationEqualsGuidedPlainDecoding(t *testing.T) {
	prompt := []int32{1, 0, 1}
	for _, vocab := range []int{5, 40} {
		for _, differ := range []float64{0.1, 0.6} {
			for _, set := range append(settings(), matched()...) {
				for i, sampling := range samplings() {
					if testing.Short() && i%3 != 0 {
						continue
					}
					sampling.Seed = 11
					target := newTarget(&script{vocab: vocab, steps: 1e6}, 96, 64)
					draft := newDraft(target, 128, differ)
					want := guidedPlain(target.script, prompt, 24, sampling, &hashing{vocab: vocab})
					guide := &hashing{vocab: vocab}
					got, stats := generate(t, set, target, draft, prompt, Options{Sampling: sampling, MaxTokens: 24, Guide: guide})
					expect(t, fmt.Sprintf("%s, sampling %d, differ %v", set.name, i, differ), got, stats, want, FinishLength)
					if guide.asked != stats.Calls {
						t.Fatalf("%s: asked %d times in %d passes", set.name, guide.asked, stats.Calls)
					}
				}
			}
		}
	}
}

// TestGuidedDrawsStayAllowed holds verifiers whose tokens are not plain decoding's to the guide.
func TestGuidedDrawsStayAllowed(t *testing.T) {
	for _, parts := range []func(*scriptedDraft) Parts{
		func(d *scriptedDraft) Parts {
			return Parts{Drafter: &SampledChain{Model: d}, Verifier: Rejection{}, Policy: Fixed{Levels: 3, Width: 1, Nodes: 4}}
		},
		func(d *scriptedDraft) Parts {
			p, err := Config{Drafter: DrafterSampled, Verifier: VerifierWithoutReplacement, Shape: [][]int{{2}, {2, 1}}}.Parts(newTarget(&script{vocab: 40, steps: 1e6}, 96, 64), d)
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
	} {
		target := newTarget(&script{vocab: 40, steps: 1e6}, 96, 64)
		draft := newDraft(target, 128, 0.3)
		set := setting{"drawn", func(*scriptedTarget, *scriptedDraft) Parts { return parts(draft) }}
		for seed := range uint64(20) {
			target.Reset()
			draft.Reset()
			guide := &hashing{vocab: 40}
			got, _ := generate(t, set, target, draft, []int32{1}, Options{Sampling: Sampling{Temperature: 1, Seed: seed}, MaxTokens: 24, Guide: guide})
			check := &hashing{vocab: 40}
			for i, token := range got {
				if mask, _, _ := check.says(check.at); mask != nil && mask[token/32]>>(token%32)&1 == 0 {
					t.Fatalf("seed %d: token %d (%d) was not allowed", seed, i, token)
				}
				if err := check.Take(got[i : i+1]); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// failing ends a generation.
type failing struct{ shape, take error }

func (f failing) Shape(*Tree, *Shaping) error { return f.shape }
func (f failing) Take([]int32) error          { return f.take }

func TestGuideErrorsEndGeneration(t *testing.T) {
	wrong := errors.New("nothing is left")
	target := newTarget(&script{vocab: 5, steps: 1e6}, 96, 64)
	for _, guide := range []Guide{failing{shape: wrong}, failing{take: wrong}} {
		target.Reset()
		g, err := New(target, nil, Config{Drafter: DrafterNone})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Generate(context.Background(), []int32{1}, Options{MaxTokens: 3, Guide: guide}, nil); !errors.Is(err, wrong) {
			t.Errorf("%+v: %v", guide, err)
		}
	}
	plain := struct{ Target }{newTarget(&script{vocab: 5, steps: 1e6}, 96, 64)}
	g, err := New(plain, nil, Config{Drafter: DrafterNone})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Generate(context.Background(), []int32{1}, Options{Guide: failing{}}, nil); err == nil {
		t.Error("a target whose logits cannot be changed was guided")
	}
}
