package spec

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Parts make up a Generator. Package method chooses them by name.
type Parts struct {
	Drafter  Drafter
	Verifier Verifier
	Policy   Policy
	Lossy    bool             // the verifier may commit tokens that the target would not have chosen
	Models   []DraftModel     // of the drafter, whose ReadbackTime events count
	Clock    func() time.Time // nil: time.Now
}

// Options are a request's.
type Options struct {
	Sampling  Sampling
	MaxTokens int     // tokens to produce; 0: until the context is full
	EOS       []int32 // ids that end the sequence; the one met is committed, what follows is not
	// Cut, when not nil, is shown every run of newly committed tokens, end-of-sequence
	// id included, before it becomes part of the sequence. It returns how
	// many to keep, at least one, and whether to stop there. Stop strings
	// are found by it: the token that completes one is the last kept.
	Cut func(tokens []int32) (n int, stop bool)
	// Constraint, unless nil, restricts the target's choice of tokens.
	Constraint Constraint
	// LogProbs adds the log-probability of each token to the events.
	LogProbs bool
	// Recover, unless nil, is called after an error of the prefill or of a round that committed nothing. If it
	// returns no error, both models are back with empty caches: the engine prefills the committed tokens again and
	// repeats the step with the same noise. Otherwise it returns the error to end with.
	Recover func(ctx context.Context, cause error) error
}

// Generator runs the rounds of speculative decoding over one pair of models.
// It serves one request at a time and is not safe for concurrent use.
type Generator struct {
	target Target
	parts  Parts
}

// New builds a generator of parts. The caller answers for parts that go together; package method makes such parts.
func New(target Target, p Parts) (*Generator, error) {
	if target == nil || p.Drafter == nil || p.Verifier == nil || p.Policy == nil {
		return nil, errors.New("spec: a generator needs a target, a drafter, a verifier and a policy")
	}
	if p.Clock == nil {
		p.Clock = time.Now
	}
	return &Generator{target: target, parts: p}, nil
}

// Generate produces text after prompt, which holds at least one token (the caller
// adds a beginning-of-sequence id). It calls emit once a round, and once more
// with a closing event without tokens where no round carries the reason for
// the end. Prompt and output together never exceed the target's context.
//
// Cancelling ctx ends the generation within one round; that is an outcome
// (FinishAborted) and not an error. An error of emit ends it and is returned
// as it is. The statistics count what was committed in every case.
func (g *Generator) Generate(ctx context.Context, prompt []int32, o Options, emit func(*Event) error) (Stats, error) {
	if err := o.validate(prompt, g.target.Limits()); err != nil {
		return Stats{}, err
	}
	r := newRequest(g, prompt, o, emit)
	err := r.run(ctx)
	return r.stats, err
}

func (o *Options) validate(prompt []int32, lim Limits) error {
	if err := o.Sampling.Validate(); err != nil {
		return err
	}
	if o.MaxTokens < 0 {
		return fmt.Errorf("spec: max tokens is %d, want 0 (no limit) or more", o.MaxTokens)
	}
	if len(prompt) == 0 {
		return errors.New("spec: the prompt is empty; it needs at least one token")
	}
	if len(prompt) > lim.Context {
		return fmt.Errorf("spec: the prompt has %d tokens, but the context holds %d", len(prompt), lim.Context)
	}
	for i, id := range prompt {
		if id < 0 || int(id) >= lim.Vocab {
			return fmt.Errorf("spec: prompt token %d is %d, outside the vocabulary of %d", i, id, lim.Vocab)
		}
	}
	return nil
}
