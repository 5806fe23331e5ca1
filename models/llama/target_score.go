package llama

import (
	"context"
	"fmt"
	"slices"

	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/sample"
)

// Score empties the sequence, runs tokens and returns ln p of each token but the first, given those before it,
// under the unfiltered softmax at temperature 1. The tokens stay in the sequence.
func (t *Target) Score(ctx context.Context, tokens []int32) ([]float32, error) {
	if err := t.checkText(tokens); err != nil {
		return nil, err
	}
	t.Reset()
	scores := make([]float32, 0, len(tokens))
	for at := 0; at < len(tokens); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := min(t.PrefillRows(), t.PassRows(), len(tokens)-at)
		got, err := t.scoreChunk(tokens[at:], n)
		if err != nil {
			return nil, err
		}
		if i := slices.Index(got, sample.Unscored); i >= 0 { // bound: each is passed once
			return nil, fmt.Errorf("llama: %s: the logits after position %d are not finite: its weights overflow; use "+
				"another model", t.File, at+i)
		}
		scores = append(scores, got...)
		at += n
	}
	return scores[:max(len(tokens)-1, 0)], nil
}

// scoreChunk commits the first n of tokens and returns ln p of each one's successor. For the last token of a text
// the value is meaningless.
func (t *Target) scoreChunk(tokens []int32, n int) ([]float32, error) {
	if err := t.prepareTrees(n); err != nil {
		return nil, err
	}
	program, err := t.scoreProgram(kv.Bucket(n))
	if err != nil {
		return nil, err
	}
	b := &t.prefill.batch
	if err := b.Append(tokens[:n]); err != nil {
		return nil, err
	}
	rows := t.paddedRows(n)
	b.Pad(n, rows)
	// Nothing is drawn: the field of the position to draw for holds the token to score.
	for i := range n {
		next := uint32(0)
		if i+1 < len(tokens) {
			next = uint32(tokens[i+1])
		}
		b.SetDrawn(i, next)
	}
	if err := b.Write(rows); err != nil {
		return nil, err
	}
	t.programs, t.regions = t.programs[:0], t.regions[:0]
	t.eachPart(n, func(_ part, p *partPrograms) { t.programs = append(t.programs, p.verify, program) })
	t.read(t.results.scores, n)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	return t.results.of(t.results.scores, n).F32(), nil
}

// scoreProgram returns the program that scores the rows of a bucket, compiled at first use.
func (t *Target) scoreProgram(at int) (webgpu.Program, error) {
	if p, ok := t.scores[at]; ok {
		return p, nil
	}
	r := t.Recorder(fmt.Sprintf("score %d", kv.Buckets[at]))
	sample.RecordScore(r, t.Kernels.Lanes, t.LogitRows(kv.Buckets[at]), t.prefill.batch.Drawn, t.results.scores.view)
	return graph.BuildInto(t.Graph, t.scores, at, r)
}
