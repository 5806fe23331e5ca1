package foretoken

import (
	"context"
	"errors"
	"fmt"

	"foretoken/spec"
)

// What calibrations are fitted to is collected by teacher forcing: the target continues
// a prompt once, and the draft is then asked at one position after the other of that
// text what it would have proposed there. The target has spoken already, so nothing is
// verified, and a tree costs its drafting alone.

// CollectOptions say how a text came about and how it is gone through.
type CollectOptions struct {
	Temperature float64 // of the target's continuations; 0 is greedy
	Seed        uint64  // of their draws
	// Uncoupled drafts without the noise that the target drew with, as a request does that
	// asks for it. It makes no difference at temperature 0.
	Uncoupled bool
	// Every drafts at every position. Otherwise the positions are those that decoding
	// would stop at: each tree begins where what was accepted of the one before ends.
	Every bool
}

func (o *CollectOptions) sampling() spec.Sampling {
	return spec.Sampling{Temperature: o.Temperature, Seed: o.Seed}
}

func (o *CollectOptions) coupled() bool { return o.Temperature > 0 && !o.Uncoupled }

// Continuation is a prompt and what the target makes of it.
type Continuation struct {
	Prompt []int32 `json:"prompt"` // its tokens, the one that begins every text included
	Tokens []int32 `json:"tokens"` // the target's; an end-of-text token is the last
}

// text is all tokens.
func (c *Continuation) text() []int32 {
	return append(append(make([]int32, 0, len(c.Prompt)+len(c.Tokens)), c.Prompt...), c.Tokens...)
}

// Continue has the target continue a prompt by up to tokens tokens. It decodes
// speculatively where there is a draft, which changes none of them.
func (s *Session) Continue(ctx context.Context, prompt string, tokens int, o CollectOptions) (*Continuation, error) {
	ids := s.tok.Encode(prompt, true)
	if len(ids) == 0 {
		return nil, errors.New("foretoken: the prompt is empty and the model has no token to begin with")
	}
	r := DefaultRequest()
	if s.draft == nil {
		r.Policy, r.Depth, r.TopK, r.Nodes = spec.DrafterNone, 0, 0, 0
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

// visit is shown a tree drafted after root, and future, the tokens that the target put
// after it, at least as many as there are levels. It tells how many of them decoding
// would have accepted from the tree. Everything is valid during the call.
type visit func(root int32, levels []spec.Level, future []int32) (accepted int, err error)

// errNothingToDraft refuses to collect from a session that has no draft.
var errNothingToDraft = errors.New("foretoken: a calibration is about a pair of models, and the session was opened without a draft")

// warmDraft warms a session that is to draft.
func (s *Session) warmDraft(ctx context.Context) error {
	if s.draft == nil {
		return errNothingToDraft
	}
	return s.Warm(ctx)
}

// walk goes through a text and has the draft grow a tree of depth passes after the
// root's, k beams each, at one position after the other. It ends where the text has
// fewer tokens left than the tree has levels: such a tree could not be judged whole.
func walk(ctx context.Context, model spec.DraftModel, c *Continuation, depth, k int, o CollectOptions, visit visit) error {
	text := c.text()
	model.Reset()
	fed := 0 // tokens of the text that the draft has consumed
	most := max(min(spec.MaxPending, model.Limits().MaxRows), 1)
	for root := len(c.Prompt) - 1; root+depth+1 < len(text) && root+1+depth <= model.Limits().Context; {
		if surplus := root + 1 - most; surplus > fed {
			if err := model.Prefill(ctx, text[fed:surplus], nil); err != nil {
				return err
			}
			fed = surplus
		}
		levels, err := model.DraftTree(ctx, spec.DraftRequest{Pending: text[fed : root+1], Depth: depth, K: k, Coupled: o.coupled(), Sampling: o.sampling()})
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
		beams := trodden(levels, future[:step-1])
		if err := model.Commit(beams); err != nil {
			return err
		}
		fed += len(beams)
		root += step
	}
	return nil
}

// trodden are the beams that hold the tokens of a path from the root, as far down as
// the draft has consumed them: what DraftModel.Commit takes.
func trodden(levels []spec.Level, path []int32) []int32 {
	var beams []int32
	under := int32(0)
	for d, token := range path {
		at := int32(-1)
		for i, c := range levels[d].Candidates {
			if c.Beam == under && c.Token == token {
				at = int32(i)
				break
			}
		}
		beam := int32(-1)
		for i, c := range levels[d].Beams {
			if c == at {
				beam = int32(i)
			}
		}
		if at < 0 || beam < 0 || d == len(levels)-1 {
			break
		}
		beams, under = append(beams, beam), beam
	}
	return beams
}
