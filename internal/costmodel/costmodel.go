// Package costmodel answers what passes of a session's models cost on their device: it predicts them from the models'
// sizes, takes the costs that an earlier session stored, and times passes.
package costmodel

import (
	"context"
	"encoding/json"
	"time"

	"foretoken/internal/strictjson"
	"foretoken/spec"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// Model holds the costs of the passes of one set of models. It is not safe for concurrent use.
type Model struct {
	key     string                // identifies the models among others on the same adapter
	stored  map[string]string     // costs in JSON by key, from earlier sessions
	predict func() *goodput.Costs // before any pass was timed

	costs *goodput.Costs // nil until Known
	timed bool           // costs were timed by this session, or stored ones found to hold
	stale bool           // costs were stored by an earlier session and not checked yet
}

// New returns the costs of the models that key identifies among others on the same adapter. stored holds the costs of
// earlier sessions, as Stored returned them; predict returns costs to begin with where it has none of these models.
func New(key string, stored map[string]string, predict func() *goodput.Costs) *Model {
	return &Model{key: key, stored: stored, predict: predict}
}

// Rates returns rough costs per class of devices (bytes read in the time of one dispatch; cost of one more row), fitted
// to docs/reports/costs.json and gpu-costs.json.
func Rates(i webgpu.Info) goodput.Rates {
	switch {
	case i.Host():
		return goodput.Rates{Bytes: 128 << 10, Row: 0.6}
	case i.Software:
		return goodput.Rates{Bytes: 512 << 10, Row: 0.7}
	}
	return goodput.Rates{Bytes: 4 << 20, Row: 0.15}
}

// Known returns the costs: until they are timed, the ones that an earlier session stored, or predictions. Every request
// that uses them updates them.
func (m *Model) Known() *goodput.Costs {
	if m.costs == nil {
		m.costs = m.predict()
		text, ok := m.stored[m.key]
		m.stale = ok && strictjson.DecodeForeign([]byte(text), m.costs) == nil
	}
	return m.costs
}

// Guess returns the costs for a request that does not wait until passes are timed, and reports whether some of its
// passes were never measured.
func (m *Model) Guess(p Passes) (costs *goodput.Costs, guessed bool) {
	costs = m.Known()
	return costs, !p.measured(costs) && !costs.Opened()
}

// Timed reports whether passes were timed, or stored times checked, or so many rounds of requests were timed that no
// pass needs to be.
func (m *Model) Timed() bool { return m.timed || m.costs != nil && m.costs.Opened() }

// Ensure returns costs that were timed, and times the passes where they were not.
func (m *Model) Ensure(ctx context.Context, p Passes) (*goodput.Costs, error) {
	costs := m.Known()
	if m.timed && p.measured(costs) {
		return costs, nil
	}
	err := m.time(ctx, p)
	if err == nil {
		m.timed, m.stale = true, false
	}
	return costs, err
}

// Stored returns the costs for New of a later session, or nil before they are timed.
func (m *Model) Stored() map[string]string {
	if !m.Timed() {
		return nil
	}
	b, err := json.Marshal(m.costs)
	if err != nil {
		return nil
	}
	return map[string]string{m.key: string(b)}
}

// Passes are the passes that a method decides by.
type Passes struct {
	Target spec.Target
	Drafts [goodput.MostModels]spec.DraftModel // nil for a model that the method does not use
	Config method.Config
	After  bool // times the target's passes after its sequence, which it keeps; the drafts' sequences are emptied
}

const (
	// budget bounds the time in seconds of a measurement that need not be complete.
	budget = 0.2
	// length is the number of tokens in the cache before a pass.
	length = 24
	// filler is the number of tokens of the text that passes run over.
	filler = 64
)

// rows returns the nodes of the largest tree.
func (p *Passes) rows() int { return min(p.Config.Budget().Nodes, p.Target.Limits().MaxRows) }

// measured reports whether costs of all passes were measured.
func (p *Passes) measured(costs *goodput.Costs) bool {
	var models []int
	for i, d := range p.Drafts {
		if d != nil {
			models = append(models, i)
		}
	}
	return costs.Measured(p.rows(), models...)
}

// possible reports whether the contexts hold the passes.
func (p *Passes) possible() bool {
	at, positions := length, p.Target.Limits().Context
	if p.After {
		at = p.Target.Len()
	}
	for _, d := range p.Drafts {
		if d != nil {
			positions = min(positions, d.Limits().Context)
		}
	}
	return positions >= 2*filler && positions >= at+p.rows()
}

// time times passes of the target and its drafts over filler text, or checks stored costs, which it leaves unchanged if
// they still hold.
func (m *Model) time(ctx context.Context, p Passes) error {
	if !p.possible() {
		return nil // too short for trees to matter; rounds update the costs all the same
	}
	rows := p.rows()
	if err := p.Target.Prepare(spec.Programs{Budget: spec.Budget{Nodes: rows}}); err != nil {
		return err
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
	if !p.After {
		defer p.Target.Reset()
		p.Target.Reset()
		if err := p.Target.Prefill(ctx, text[:length]); err != nil {
			return err
		}
	}
	if m.stale {
		holds, err := m.costs.Holds(probe, rows)
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
		programs := p.Config.Programs(0, d.Limits())
		if err := d.Prepare(programs); err != nil {
			return err
		}
		probe.Drafts[i] = probeDraft(ctx, d, text[:known], min(length, known))
		probe.Drafts[i].Widths = programs.Widths
	}
	return m.costs.Measure(probe, rows, budget)
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
