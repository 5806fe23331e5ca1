// Package costmodel answers what passes of a session's models cost on their device: it predicts them from the models'
// sizes, takes the costs that an earlier session stored, and times passes.
package costmodel

import (
	"context"
	"encoding/json"

	"foretoken/internal/strictjson"
	"foretoken/spec/goodput"
	"foretoken/webgpu"
)

const (
	// patience is the number of requests that decide by costs that were not timed, while a session waits for an idle
	// moment to time passes.
	patience = 2
	// short is the time in seconds of a pass that a request, which waits for all sizes, may time.
	short = 0.01
)

// Model holds the costs of the passes of one set of models. It is not safe for concurrent use.
type Model struct {
	key     string                // identifies the models among others on the same adapter
	stored  map[string]string     // costs in JSON by key, from earlier sessions
	predict func() *goodput.Costs // before any pass was timed

	costs   *goodput.Costs // nil until Known
	timed   bool           // costs were timed by this session, or stored ones found to hold
	stale   bool           // costs were stored by an earlier session and not checked yet
	guessed int            // requests that decided by costs that were not timed
}

// New returns the costs of the models that key identifies among others on the same adapter. stored holds the costs of
// earlier sessions, as Stored returned them; predict returns costs to begin with where it has none of these models.
func New(key string, stored map[string]string, predict func() *goodput.Costs) *Model {
	return &Model{key: key, stored: stored, predict: predict}
}

// Rates returns the rates of a device's class, round numbers by which passes had the proportions of the reports costs
// and gpu-costs.
func Rates(i webgpu.Info) goodput.Rates {
	switch {
	case i.Host():
		return goodput.Rates{Bytes: 128 << 10, Row: 0.6}
	case i.Software:
		return goodput.Rates{Bytes: 512 << 10, Row: 0.7}
	}
	return goodput.Rates{Bytes: 4 << 20, Row: 0.15}
}

// Known returns the costs: those stored by an earlier session, or predictions, until they are timed. Every request that
// uses them updates them.
func (m *Model) Known() *goodput.Costs {
	if m.costs == nil {
		m.costs = m.read()
		m.stale = m.costs != nil
	}
	if m.costs == nil {
		m.costs = m.predict()
	}
	return m.costs
}

// Guess returns the costs for a request that does not wait until passes are timed, and reports whether some of its
// passes were never measured.
func (m *Model) Guess(p Passes) (costs *goodput.Costs, guessed bool) {
	costs = m.Known()
	if guessed = !p.measured(costs); guessed {
		m.guessed++
	}
	return costs, guessed
}

// Overdue reports whether requests came so densely that no pause was long enough, so that the next one has to time the
// passes.
func (m *Model) Overdue() bool {
	return !m.timed && m.guessed >= patience && m.costs.Verify.At(1) < short
}

// Timed reports whether passes were timed, or stored times checked.
func (m *Model) Timed() bool { return m.timed }

// Ensure returns costs that were timed, and times the passes where they were not. With after, the target's passes
// follow its sequence and do not change it; the sequences of the drafts are emptied.
func (m *Model) Ensure(ctx context.Context, p Passes, after bool) (*goodput.Costs, error) {
	costs := m.Known()
	if m.timed && p.measured(costs) {
		return costs, nil
	}
	err := m.time(ctx, p, after)
	if err == nil {
		m.timed, m.stale = true, false
	}
	return costs, err
}

// Stored returns the costs for New of a later session, or nil before they are timed.
func (m *Model) Stored() map[string]string {
	if !m.timed {
		return nil
	}
	b, err := json.Marshal(m.costs)
	if err != nil {
		return nil
	}
	return map[string]string{m.key: string(b)}
}

// read returns the stored costs, or nil if they are missing or unreadable.
func (m *Model) read() *goodput.Costs {
	text, ok := m.stored[m.key]
	if !ok {
		return nil
	}
	var c goodput.Costs
	if strictjson.DecodeForeign([]byte(text), &c) != nil {
		return nil
	}
	return &c
}
