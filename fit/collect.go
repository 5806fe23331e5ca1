// Package fit fits calibrations of a pair of models: HeteroSpec's entropy bins, C2T's classifier and acceptance
// heads. It collects examples by teacher forcing on a foretoken.Session, keeps them in journals that survive an
// interrupt, and trains with GoMLX, which no other package imports.
package fit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"foretoken"
	"foretoken/spec"
	"foretoken/spec/draft"
	"foretoken/spec/method"
)

// Examples are collected by teacher forcing: the target continues a prompt once, and the draft then proposes at one
// position of that text after the other. The target's tokens are known, so nothing is verified, and a tree costs
// only its drafting.

// Options configures the target's text and the teacher forcing along it.
type Options struct {
	Temperature float64 // of the target's continuations; 0 is greedy
	Seed        uint64  // of their draws
	// Uncoupled drafts without the target's sampling noise, as a request may. It makes no difference at temperature 0.
	Uncoupled bool
	// Every drafts at every position. Otherwise it drafts where decoding would: each tree begins after the tokens
	// accepted from the tree before.
	Every bool
	// Head drafts with the EAGLE-3 head, not with the draft model.
	Head bool
	// EntropyTop, if not 0, has the entropies of trees be of so many likeliest tokens alone; see spec.DraftRequest.
	EntropyTop int
}

func (o *Options) sampling() spec.Sampling {
	return spec.Sampling{Temperature: o.Temperature, Seed: o.Seed}
}

func (o *Options) coupled() bool { return o.Temperature > 0 && !o.Uncoupled }

// Continuation is a prompt with the target's continuation.
type Continuation struct {
	Prompt []int32 `json:"prompt"` // token ids, BOS included
	Tokens []int32 `json:"tokens"` // the target's; an end-of-text token is the last
}

func (c *Continuation) ids() []int32 {
	return slices.Concat(c.Prompt, c.Tokens)
}

// Continue lets the target continue a prompt by up to tokens tokens. With a draft it decodes speculatively, which
// does not change the tokens.
func Continue(ctx context.Context, s *foretoken.Session, prompt string, tokens int, o Options) (*Continuation, error) {
	ids := s.Tokenizer().Encode(prompt, true)
	if len(ids) == 0 {
		return nil, errors.New("foretoken: the prompt is empty and the model has no token to begin with")
	}
	r := foretoken.DefaultRequest()
	if s.Info().Draft == nil {
		r.Policy, r.Depth, r.TopK, r.Nodes = method.DrafterNone, 0, 0, 0
	}
	r.MaxTokens, r.Temperature, r.Seed = tokens, o.Temperature, o.Seed
	out, err := s.GenerateIDs(ctx, ids, r, nil)
	if err != nil {
		return nil, err
	}
	if out.Finish == spec.FinishAborted {
		return nil, context.Cause(ctx)
	}
	return &Continuation{Prompt: ids, Tokens: out.TokenIDs}, nil
}

// visit receives a tree drafted after root and future, the target's tokens after it, at least one per level. It
// returns how many of them decoding would accept from the tree. The arguments are valid during the call only.
type visit func(root int32, levels []spec.Level, future []int32) (accepted int, err error)

var (
	// errNothingToDraft is the error for a session without a draft.
	errNothingToDraft = errors.New(
		"foretoken: a calibration belongs to a pair of models, and the session was opened without a draft")
	// errNoHead is the error for a session without an EAGLE-3 head.
	errNoHead = errors.New("foretoken: a calibration of a head was asked for, and the session was opened without one")
)

// grower drafts trees.
type grower struct {
	spec.DraftModel
	target spec.Model // a head reads the features of what its target holds; nil: a draft model
}

// withModels runs work on the models of a session and on the one that o drafts with.
func withModels[T any](ctx context.Context, s *foretoken.Session, o Options,
	work func(foretoken.Models, grower) (T, error)) (out T, err error) {
	switch info := s.Info(); {
	case o.Head && info.EAGLE3 == nil:
		return out, errNoHead
	case !o.Head && info.Draft == nil:
		return out, errNothingToDraft
	}
	err = s.Exclusive(ctx, func(m foretoken.Models) error {
		model := grower{DraftModel: m.Draft}
		if o.Head {
			model = grower{m.Head, m.Target}
		}
		out, err = work(m, model)
		return err
	})
	return out, err
}

// withGrower runs work on the model that o drafts with, once it is ready for trees of depth passes after the root's
// and k beams.
func withGrower[T any](ctx context.Context, s *foretoken.Session, depth, k int, o Options,
	work func(grower) (T, error)) (T, error) {
	return withModels(ctx, s, o, func(_ foretoken.Models, model grower) (out T, err error) {
		err = model.Prepare(spec.Programs{Draft: spec.DraftTree, Depth: depth, Widths: []int{k},
			EntropyTop: o.EntropyTop})
		if err == nil {
			out, err = work(model)
		}
		return out, err
	})
}

// reset empties the sequences.
func (g grower) reset() {
	g.Reset()
	if g.target != nil {
		g.target.Reset()
	}
}

// begin empties the sequences and has the model consume the first n tokens of a text, all of which a head's target
// consumes.
func (g grower) begin(ctx context.Context, text []int32, n int) error {
	g.reset()
	if err := g.follow(ctx, text); err != nil || n == 0 {
		return err
	}
	return g.Prefill(ctx, text[:n])
}

// follow has a head's target consume text.
func (g grower) follow(ctx context.Context, text []int32) error {
	if g.target == nil || g.target.Len() >= len(text) {
		return nil
	}
	return g.target.Prefill(ctx, text[g.target.Len():])
}

// teacherForce lets the draft grow trees along a text, at one position after the other: depth passes after the
// root's, k beams each. It ends where the text has fewer tokens left than the tree has levels.
func teacherForce(ctx context.Context, model grower, c *Continuation, depth, k int, o Options, visit visit) error {
	text := c.ids()
	model.reset()
	fed := 0 // tokens of the text that the draft has consumed
	most := draft.MostPending(model)
	for root := len(c.Prompt) - 1; root+depth+1 < len(text) && root+1+depth <= model.Limits().Context; {
		if err := model.follow(ctx, text[:root]); err != nil {
			return err
		}
		if surplus := root + 1 - most; surplus > fed {
			if err := model.Prefill(ctx, text[fed:surplus]); err != nil {
				return err
			}
			fed = surplus
		}
		levels, err := model.Draft(ctx, spec.DraftRequest{Pending: text[fed : root+1], Depth: depth, K: k,
			Coupled: o.coupled(), Sampling: o.sampling(), EntropyTop: o.EntropyTop})
		if err != nil {
			return err
		}
		fed = root + 1
		future := text[root+1:]
		accepted, err := visit(text[root], levels, future)
		if err != nil {
			return err
		}
		if accepted < 0 || accepted > len(levels) {
			return fmt.Errorf("foretoken: %d tokens accepted of a tree of %d levels", accepted, len(levels))
		}
		step := accepted + 1
		if o.Every {
			step = 1
		}
		beams := acceptedBeams(levels, future[:step-1])
		if err := model.Commit(beams); err != nil {
			return err
		}
		fed += len(beams)
		root += step
	}
	return nil
}

// acceptedBeams returns the beams along a path from the root, as far as the draft has consumed them, for
// DraftModel.Commit.
func acceptedBeams(levels []spec.Level, path []int32) []int32 {
	var beams []int32
	under := int32(0)
	for d, token := range path {
		at := slices.IndexFunc(levels[d].Candidates, func(c spec.Candidate) bool {
			return c.Beam == under && c.Token == token
		})
		beam := slices.Index(levels[d].Beams, int32(at))
		if at < 0 || beam < 0 || d == len(levels)-1 {
			break
		}
		under = int32(beam)
		beams = append(beams, under)
	}
	return beams
}
