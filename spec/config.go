package spec

import (
	"errors"
	"fmt"
	"strings"
)

// The drafters a Config names.
const (
	DrafterNone        = "none"         // plain decoding
	DrafterChain       = "chain"        // the draft model's best token, Depth times over
	DrafterEAGLE2      = "eagle2"       // a tree of Depth+1 levels, reranked to Nodes
	DrafterNgram       = "ngram"        // prompt lookup as in Hugging Face's transformers
	DrafterNgramSimple = "ngram-simple" // lookup as in llama.cpp's ngram-simple
)

// The verifiers a Config names.
const (
	VerifierMatch     = "match"     // sample-and-match: exactly the tokens of plain decoding
	VerifierRejection = "rejection" // chain rejection sampling: exact in distribution
)

// The largest settings a Config accepts; a model's Limits are mostly narrower.
const (
	MaxDepth = 64
	MaxTopK  = 64
	MaxNodes = 4096
)

// Config names a drafter, its settings and a verifier.
type Config struct {
	Drafter  string `json:"drafter"`
	Verifier string `json:"verifier"` // "" is VerifierMatch
	// Depth is EAGLE-2's d: passes after the root's, giving d+1 levels of tokens.
	// For a chain and for n-grams it is the number of tokens drafted a round.
	Depth int `json:"depth"`
	TopK  int `json:"top_k"` // EAGLE-2's k: candidates per beam and beams per level
	Nodes int `json:"nodes"` // EAGLE-2's N: nodes verified, the root included
	// NgramMax and NgramMin bound the sizes of n-gram looked up by DrafterNgram, longest
	// first; DrafterNgramSimple looks up NgramMax only.
	NgramMax int `json:"ngram_max"`
	NgramMin int `json:"ngram_min"`
	// Uncoupled ranks candidates by ln q alone above temperature 0, where by default
	// the noise that the target will draw with is added; see TreeDrafter.
	Uncoupled bool `json:"uncoupled"`
}

// DefaultConfig gives a drafter with the settings its source uses, verified by
// matching: EAGLE-2's d=5, k=10, N=60; chains of 5; prompt lookup of 10 tokens
// after n-grams of 2 to 1; llama.cpp's n-gram size of 12 and 48 tokens.
func DefaultConfig(drafter string) Config {
	c := Config{Drafter: drafter, Verifier: VerifierMatch}
	switch drafter {
	case DrafterChain:
		c.Depth = 5
	case DrafterEAGLE2:
		c.Depth, c.TopK, c.Nodes = 5, 10, 60
	case DrafterNgram:
		c.Depth, c.NgramMax, c.NgramMin = 10, 2, 1
	case DrafterNgramSimple:
		c.Depth, c.NgramMax = 48, 12
	}
	return c
}

// UsesDraftModel tells whether the drafter needs a draft model.
func (c Config) UsesDraftModel() bool {
	return c.Drafter == DrafterChain || c.Drafter == DrafterEAGLE2
}

// Validate refuses unknown names, settings out of range and combinations that
// would not be lossless, with the reason.
func (c Config) Validate() error {
	switch c.Verifier {
	case "", VerifierMatch, VerifierRejection:
	default:
		return fmt.Errorf("spec: unknown verifier %q, want %s", c.Verifier, oneOf(VerifierMatch, VerifierRejection))
	}
	switch c.Drafter {
	case DrafterNone:
		return nil
	case DrafterChain:
		if err := inRange("depth", c.Depth, 1, MaxDepth); err != nil {
			return err
		}
	case DrafterEAGLE2:
		if c.Verifier == VerifierRejection {
			return errors.New("spec: the rejection verifier needs tokens sampled from the draft, but an eagle2 tree holds its top-k: " +
				"accepting those with min(1, p/q) would change the output's distribution; use the match verifier, or the chain drafter")
		}
		if err := inRange("depth", c.Depth, 0, MaxDepth-1); err != nil {
			return err
		}
		if err := inRange("top-k", c.TopK, 1, MaxTopK); err != nil {
			return err
		}
		return inRange("nodes", c.Nodes, 2, MaxNodes)
	case DrafterNgram, DrafterNgramSimple:
		if c.Verifier == VerifierRejection {
			return fmt.Errorf("spec: the rejection verifier needs tokens sampled from a draft's distribution, and the %s drafter has none; "+
				"use the match verifier, which is exact for any draft", c.Drafter)
		}
		if err := inRange("depth", c.Depth, 1, MaxDepth); err != nil {
			return err
		}
		if err := inRange("ngram-max", c.NgramMax, 1, MaxDepth); err != nil {
			return err
		}
		if c.Drafter == DrafterNgram {
			if err := inRange("ngram-min", c.NgramMin, 1, c.NgramMax); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("spec: unknown drafter %q, want %s", c.Drafter,
			oneOf(DrafterNone, DrafterChain, DrafterEAGLE2, DrafterNgram, DrafterNgramSimple))
	}
	return nil
}

func inRange(name string, v, lo, hi int) error {
	if v < lo || v > hi {
		return fmt.Errorf("spec: %s is %d, want %d to %d", name, v, lo, hi)
	}
	return nil
}

func oneOf(names ...string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Budget is what the settings allow a round.
func (c Config) Budget() Budget {
	switch c.Drafter {
	case DrafterChain, DrafterNgram, DrafterNgramSimple:
		return Budget{Levels: c.Depth, Width: 1, Nodes: c.Depth + 1}
	case DrafterEAGLE2:
		return Budget{Levels: c.Depth + 1, Width: c.TopK, Nodes: c.Nodes}
	}
	return Budget{}
}

// Parts builds what the config names for a pair of models and refuses settings
// beyond their limits. draft may be nil where UsesDraftModel is false. A
// chain to be verified by rejection is sampled, since the rule needs x ~ q.
func (c Config) Parts(target Target, draft DraftModel) (Parts, error) {
	if err := c.Validate(); err != nil {
		return Parts{}, err
	}
	b := c.Budget()
	if rows := target.Limits().MaxRows; b.Nodes > rows {
		return Parts{}, fmt.Errorf("spec: %d nodes a round, but the target verifies at most %d in one pass", b.Nodes, rows)
	}
	p := Parts{Drafter: None{}, Verifier: Match{}, Policy: Fixed(b)}
	if c.Verifier == VerifierRejection {
		p.Verifier = Rejection{}
	}
	if !c.UsesDraftModel() {
		if c.Drafter == DrafterNgram {
			p.Drafter = PromptLookup{Max: c.NgramMax, Min: c.NgramMin}
		} else if c.Drafter == DrafterNgramSimple {
			p.Drafter = RecentLookup{Size: c.NgramMax}
		}
		return p, nil
	}
	if draft == nil {
		return Parts{}, fmt.Errorf("spec: the %s drafter needs a draft model", c.Drafter)
	}
	if lim := draft.Limits(); b.Width > lim.TopK || b.Width > lim.MaxRows {
		return Parts{}, fmt.Errorf("spec: top-k is %d, but the draft model keeps at most %d", b.Width, min(lim.TopK, lim.MaxRows))
	}
	if c.Verifier != VerifierRejection {
		p.Drafter = &TreeDrafter{Model: draft, Uncoupled: c.Uncoupled}
		return p, nil
	}
	if _, ok := target.(RejectionTarget); !ok {
		return Parts{}, errors.New("spec: this target cannot verify by rejection sampling")
	}
	sampling, ok := draft.(SamplingDraft)
	if !ok {
		return Parts{}, errors.New("spec: the rejection verifier needs a draft model that samples, and this one does not")
	}
	p.Drafter = &SampledChain{Model: sampling}
	return p, nil
}
