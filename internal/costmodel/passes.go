package costmodel

import (
	"context"
	"time"

	"foretoken/spec"
	"foretoken/spec/goodput"
)

// Passes are the passes that a method decides by.
type Passes struct {
	Target spec.Target
	Drafts [goodput.MostModels]spec.DraftModel // nil for a model that the method does not use
	Rows   int                                 // nodes of the largest tree, at most the target's Limits.MaxRows
	Width  int                                 // the most beams of a draft
	// Programs lists what a draft of some limits runs.
	Programs func(spec.Limits) spec.Programs
}

const (
	// budget bounds the time in seconds of a measurement that need not be complete.
	budget = 0.2
	// length is the number of tokens in the cache before a pass.
	length = 24
	// filler is the number of tokens of the text that passes run over.
	filler = 64
)

// measured reports whether costs of all passes were measured.
func (p *Passes) measured(costs *goodput.Costs) bool {
	var models []int
	for i, d := range p.Drafts {
		if d != nil {
			models = append(models, i)
		}
	}
	return costs.Measured(p.Rows, models...)
}

// fit reports whether the contexts hold the passes after at tokens.
func (p *Passes) fit(at int) bool {
	positions := p.Target.Limits().Context
	for _, d := range p.Drafts {
		if d != nil {
			positions = min(positions, d.Limits().Context)
		}
	}
	return positions >= 2*filler && positions >= at+p.Rows
}

// time times passes of the target and its drafts over filler text, or checks stored costs, which it leaves unchanged if
// they still hold; see Ensure.
func (m *Model) time(ctx context.Context, p Passes, after bool) error {
	at := length
	if after {
		at = p.Target.Len()
	}
	if !p.fit(at) {
		return nil // too short for trees to matter; rounds update the costs all the same
	}
	if err := p.Target.Prepare(spec.Programs{Budget: spec.Budget{Nodes: p.Rows}}); err != nil {
		return err
	}
	for _, d := range p.Drafts {
		if d == nil {
			continue
		}
		if err := d.Prepare(p.Programs(d.Limits())); err != nil {
			return err
		}
	}
	text := make([]int32, filler)
	for i := range text {
		text[i] = int32(i % p.Target.Limits().Vocab)
	}
	begin := time.Now()
	probe := goodput.Probe{Clock: func() float64 { return time.Since(begin).Seconds() }}
	tree := &spec.Tree{}
	probe.Verify = func(n int) error {
		tree.Reset(text[0])
		for i := 1; i < n; i++ {
			tree.Add(int32(i-1)/2, text[i], 0)
		}
		_, err := p.Target.Verify(ctx, spec.PassRequest{Tree: tree})
		return err
	}
	if !after {
		defer p.Target.Reset()
		p.Target.Reset()
		if err := p.Target.Prefill(ctx, text[:length]); err != nil {
			return err
		}
	}
	if m.stale {
		holds, err := m.costs.Holds(probe, p.Rows)
		if err != nil || holds && p.measured(m.costs) {
			return err
		}
		if !holds {
			fresh := m.predict()
			fresh.Learnt = m.costs.Learnt
			*m.costs, m.stale = *fresh, false
		}
	}
	probe.Drafts = make([]goodput.DraftProbe, len(p.Drafts))
	for i, d := range p.Drafts {
		known := len(text)
		if i == goodput.EAGLE3 { // a head has the features of what the target holds
			known = min(known, p.Target.Len())
		}
		if d == nil || known < 1 {
			continue
		}
		defer d.Reset()
		probe.Drafts[i] = probeDraft(ctx, d, text[:known], min(length, known))
		probe.Drafts[i].Widths = goodput.DraftWidths(p.Width, d.Limits())
	}
	return m.costs.Measure(probe, p.Rows, budget)
}

// probeDraft returns the passes of a draft after the first tokens of a text, and prefills of up to all of it.
func probeDraft(ctx context.Context, d spec.DraftModel, text []int32, length int) goodput.DraftProbe {
	prefill := func(n int) error {
		d.Reset()
		return d.Prefill(ctx, text[:n])
	}
	return goodput.DraftProbe{
		Draft: func(levels, beams int) error {
			if d.ReusePrefix(text[:length]) < length {
				if err := prefill(length); err != nil {
					return err
				}
			}
			_, err := d.Draft(ctx, spec.DraftRequest{Pending: text[:1], Depth: levels - 1, K: beams})
			return err
		},
		Grow: func() error {
			_, err := d.Extend(ctx, spec.Extension{Passes: 1})
			return err
		},
		Prefill: func(n int) error {
			if err := prefill(n); err != nil {
				return err
			}
			return d.Sync()
		},
		Most: len(text),
	}
}
