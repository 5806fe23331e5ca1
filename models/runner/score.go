package runner

import (
	"context"
	"fmt"
	"slices"

	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/sample"
)

// Score implements spec.Target. The tokens stay in the sequence.
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
		n := min(t.Graph.PrefillRows(), t.Graph.PassRows(), len(tokens)-at)
		got, err := t.scoreChunk(tokens[at:], n)
		if err != nil {
			return nil, err
		}
		if i := slices.Index(got, sample.Unscored); i >= 0 { // bound: each is passed once
			return nil, fmt.Errorf("runner: %s: the logits after position %d are not finite: its weights overflow; "+
				"use another model", t.Graph.File, at+i)
		}
		scores = append(scores, got...)
		at += n
	}
	return scores[:max(len(tokens)-1, 0)], nil
}

// scoreChunk commits the first n of tokens and returns ln p of each one's successor. For the last token of a text
// the value is meaningless.
func (t *Target) scoreChunk(tokens []int32, n int) ([]float32, error) {
	p := &t.passes
	if err := p.prepare(n); err != nil {
		return nil, err
	}
	program, err := t.scoreProgram(kv.Bucket(n))
	if err != nil {
		return nil, err
	}
	if err := p.batch.Append(tokens[:n]); err != nil {
		return nil, err
	}
	rows := p.padded(n)
	p.batch.Pad(n, rows)
	// Nothing is drawn: the field of the position to draw for holds the token to score.
	for i := range n {
		next := uint32(0)
		if i+1 < len(tokens) {
			next = uint32(tokens[i+1])
		}
		p.batch.SetDrawn(i, next)
	}
	if err := p.batch.Write(rows); err != nil {
		return nil, err
	}
	t.programs = t.programs[:0]
	p.each(n, func(_ part, of *partPrograms) { t.programs = append(t.programs, of.verify, program) })
	if err := t.run(t.programs, p.results.read(p.results.scores, n)); err != nil {
		return nil, err
	}
	return p.results.of(p.results.scores, n).F32(), nil
}

// scoreProgram returns the program that scores the rows of a bucket, compiled at first use.
func (t *Target) scoreProgram(at int) (webgpu.Program, error) {
	if p, ok := t.scores[at]; ok {
		return p, nil
	}
	g := t.Graph
	r := g.Recorder(fmt.Sprintf("score %d", kv.Buckets[at]))
	sample.RecordScore(r, g.Kernels.Lanes, g.LogitRows(kv.Buckets[at]), t.passes.batch.Drawn,
		t.passes.results.scores.view)
	return graph.BuildInto(g, t.scores, at, r)
}
