package foretoken

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"foretoken/internal/kind"
	"foretoken/internal/quote"
	"foretoken/models/tokenizer"
	"foretoken/spec"
)

// EmbedOptions say how Embed pools. The zero value pools as the file says, by default the mean, and scales to length 1.
type EmbedOptions struct {
	Pooling string `json:"pooling"` // "mean" of all positions, or the "last" one; "": the file's pooling_type, or mean
	Raw     bool   `json:"raw"`     // leave the vector's length as it is, instead of 1
}

// Embedding is a text as a vector.
type Embedding struct {
	Vector []float32 `json:"vector"` // graph.Info.Width values
	Tokens int       `json:"tokens"` // of the text
}

// Embed pools the target's final hidden states over a text: texts with like meanings get like vectors, as far as the
// model was trained for that. It needs no draft, and empties the target's KV cache.
func (s *Session) Embed(ctx context.Context, text string, o EmbedOptions) (*Embedding, error) {
	ids, err := s.encode(ctx, "text", text, tokenizer.EncodeOptions{Begin: true, Complete: true})
	if err != nil {
		return nil, err
	}
	return s.EmbedIDs(ctx, ids, o)
}

// EmbedIDs is Embed for a tokenised text.
func (s *Session) EmbedIDs(ctx context.Context, ids []int32, o EmbedOptions) (*Embedding, error) {
	if o.Pooling != "" && o.Pooling != "mean" && o.Pooling != "last" {
		return nil, kind.Refuse("foretoken: %w", &spec.FieldError{Field: "pooling",
			Reason: fmt.Sprintf("is %s, want mean or last", quote.Text(o.Pooling))})
	}
	if len(ids) == 0 {
		return nil, kind.Refuse("foretoken: the text is empty and the model has no token to begin with")
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.pair.Ensure(ctx); err != nil {
		return nil, err
	}
	if most := s.limits.Context; len(ids) > most {
		return nil, kind.Of(ErrContextFull, fmt.Errorf("foretoken: the text has %d tokens, but the context holds %d; "+
			"shorten it, or open the models with a longer context", len(ids), most))
	}
	last := cmp.Or(o.Pooling, s.pair.Target.Graph.Arch.Pooling) == "last"
	var sum []float64
	pool := func() error {
		sum = make([]float64, s.pair.Target.Graph.Arch.Dim)
		at := 0
		return s.pair.Target.Hidden(ctx, ids, func(state []float32) {
			if at++; last && at < len(ids) {
				return
			}
			for i, v := range state {
				sum[i] += float64(v)
			}
		})
	}
	if err := s.pair.Retry(ctx, pool(), pool); err != nil {
		return nil, err
	}
	scale := 1.0
	if !last {
		scale = 1 / float64(len(ids))
	}
	if !o.Raw {
		scale = 1 / norm(sum)
	}
	vector := make([]float32, len(sum))
	for i, v := range sum {
		vector[i] = float32(v * scale)
		if f := float64(vector[i]); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errors.New("foretoken: the text has no embedding: a value of its hidden states is not " +
				"finite, or all are 0; use another model")
		}
	}
	return &Embedding{vector, len(ids)}, nil
}

// norm is the Euclidean length of a vector.
func norm(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}
