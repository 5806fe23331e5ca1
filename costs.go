package foretoken

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"foretoken/internal/strictjson"
	"foretoken/spec"
	"foretoken/spec/goodput"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// tuningCosts is the key under which Session.Tuning stores the costs of passes.
const tuningCosts = "costs"

// measureFor bounds the time in seconds of a measurement that need not be complete.
const measureFor = 0.2

// ensureCosts gives a request of the goodput tree the costs to decide by: its own, the session's, stored ones, or new
// measurements.
func (s *Session) ensureCosts(ctx context.Context, r *Request) error {
	c := r.Config()
	if !c.WeighsCosts() || r.Fitted.Costs != nil || c.Validate() != nil {
		return nil // compileRequest reports an invalid config
	}
	if r.Fitted.Costs = s.knownCosts(); !s.timed || !s.measuredFor(s.costs, c) {
		return s.measureCosts(ctx, c, s.options.Lean && s.target.Len() > 0)
	}
	return nil
}

// TimePasses times the passes that auto decides by, or checks stored times, so that the first request does not.
func (s *Session) TimePasses(ctx context.Context) error {
	return s.Exclusive(ctx, func(Models) error {
		r := DefaultRequest()
		return s.ensureCosts(ctx, &r)
	})
}

// knownCosts returns the session's costs: those stored by an earlier session, or guesses, until they are timed. Every
// request that uses them updates them.
func (s *Session) knownCosts() *goodput.Costs {
	if s.costs == nil {
		s.costs = s.storedCosts()
		s.stale = s.costs != nil
	}
	if s.costs == nil {
		s.costs = s.predictedCosts()
	}
	return s.costs
}

// rates returns the rates of a device's class, round numbers by which passes had the proportions of the reports costs
// and gpu-costs.
func rates(i webgpu.Info) goodput.Rates {
	switch {
	case i.Host():
		return goodput.Rates{Bytes: 128 << 10, Row: 0.6}
	case i.Software:
		return goodput.Rates{Bytes: 512 << 10, Row: 0.7}
	}
	return goodput.Rates{Bytes: 4 << 20, Row: 0.15}
}

// predictedCosts returns what passes may cost before one was timed.
func (s *Session) predictedCosts() *goodput.Costs {
	var drafts [goodput.MostModels]goodput.Work
	if s.draft != nil {
		drafts[goodput.SmallDraft] = work(s.draft.Work())
	}
	if s.head != nil {
		drafts[goodput.EAGLE3] = work(s.head.Work())
	}
	return goodput.Predict(rates(s.dev.Info()), work(s.target.Work()), drafts)
}

func work(dispatches int, bytes int64) goodput.Work {
	return goodput.Work{Dispatches: dispatches, Bytes: bytes}
}

const (
	// patience is the number of requests that a lean session serves by guesses while it waits for an idle moment.
	patience = 2
	// short is the time in seconds of a pass that a request, which waits for all sizes, may time.
	short = 0.01
)

// overdue reports whether requests came so densely that no pause was long enough, so that the next one has to time the
// passes.
func (s *Session) overdue() bool {
	return s.state == ready && !s.timed && s.guessed >= patience && s.costs.Verify.At(1) < short
}

// measuredFor reports whether the passes that a config decides by were measured.
func (s *Session) measuredFor(costs *goodput.Costs, c method.Config) bool {
	drafts, err := s.drafts(c)
	var models []int
	for i, d := range drafts {
		if d != nil {
			models = append(models, i)
		}
	}
	return err == nil && costs.Measured(s.costRows(c), models...)
}

// costRows returns the rows of the largest tree whose cost is measured.
func (s *Session) costRows(c method.Config) int {
	return min(c.Budget().Nodes, s.target.Limits().MaxRows)
}

// measureCosts times the session's costs, or checks stored ones, which it leaves unchanged if they still hold. With
// after, the target's passes follow its sequence and do not change it; the sequences of the drafts are emptied.
func (s *Session) measureCosts(ctx context.Context, c method.Config, after bool) error {
	err := s.timePasses(ctx, s.knownCosts(), c, s.stale, after)
	if err == nil {
		s.timed, s.stale = true, false
	}
	return err
}

// timePasses times passes of the target and its drafts over filler text; see measureCosts.
func (s *Session) timePasses(ctx context.Context, costs *goodput.Costs, c method.Config, stored, after bool) error {
	const length = 24 // tokens in the cache before a pass
	rows := s.costRows(c)
	if err := s.target.Prepare(rows); err != nil {
		return err
	}
	text := make([]int32, 64)
	for i := range text {
		text[i] = int32(i % s.target.Limits().Vocab)
	}
	drafts, err := s.drafts(c)
	if err != nil {
		return err
	}
	positions := s.target.Limits().Context
	for _, d := range drafts {
		if d != nil {
			positions = min(positions, d.Limits().Context)
		}
	}
	at := length
	if after {
		at = s.target.Len()
	}
	if positions < 2*len(text) || positions < at+rows {
		return nil // too short for trees to matter; rounds update the costs all the same
	}
	begin := time.Now()
	p := goodput.Probe{Clock: func() float64 { return time.Since(begin).Seconds() }}
	tree := &spec.Tree{}
	p.Verify = func(n int) error {
		tree.Reset(text[0])
		for i := 1; i < n; i++ {
			tree.Add(int32(i-1)/2, text[i], 0)
		}
		_, err := s.target.Verify(ctx, tree, spec.Sampling{})
		return err
	}
	if !after {
		defer s.target.Reset()
		s.target.Reset()
		if err := s.target.Prefill(ctx, text[:length]); err != nil {
			return err
		}
	}
	if stored {
		holds, err := costs.Holds(p, rows)
		if err != nil || holds && s.measuredFor(costs, c) {
			return err
		}
		if !holds {
			fresh := s.predictedCosts()
			fresh.Learnt = costs.Learnt
			*costs, s.stale = *fresh, false
		}
	}
	p.Drafts = make([]goodput.DraftProbe, len(drafts))
	for i, d := range drafts {
		known := len(text)
		if i == goodput.EAGLE3 { // a head has the features of what the target holds
			known = min(known, s.target.Len())
		}
		if d == nil || known < 1 {
			continue
		}
		defer d.Reset()
		p.Drafts[i] = probeDraft(ctx, d, text[:known], min(length, known))
		p.Drafts[i].Widths = goodput.DraftWidths(c.TopK, d.Limits())
		if err := recordDraft(d, c, c.Programs(0)); err != nil {
			return err
		}
	}
	return costs.Measure(p, rows, measureFor)
}

// probeDraft returns the passes of a draft after the first tokens of a text, and prefills of up to all of it.
func probeDraft(ctx context.Context, d drafter, text []int32, length int) goodput.DraftProbe {
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
			_, err := d.DraftTree(ctx, spec.DraftRequest{Pending: text[:1], Depth: levels - 1, K: beams})
			return err
		},
		Grow: func() error {
			_, err := d.Grow(ctx, 1)
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

// costsKey identifies the models among others on the same adapter.
func (s *Session) costsKey() string {
	key := fmt.Sprintf("%s %d %s", s.pair.Target.Name, s.pair.Target.Bytes, s.pair.Target.Hash)
	if s.draft != nil {
		key += fmt.Sprintf(" + %s %d %s", s.pair.Draft.Name, s.pair.Draft.Bytes, s.pair.Draft.Hash)
	}
	if s.head != nil {
		key += fmt.Sprintf(" + %s %d %s", s.headPair.Draft.Name, s.headPair.Draft.Bytes, s.headPair.Draft.Hash)
	}
	return key
}

// storedCosts returns the costs in Options.Tuning, or nil if they are missing or unreadable.
func (s *Session) storedCosts() *goodput.Costs {
	text, ok := s.stored[s.costsKey()]
	if !ok {
		return nil
	}
	var c goodput.Costs
	if strictjson.DecodeForeign([]byte(text), &c) != nil {
		return nil
	}
	return &c
}

// tuneCosts adds the costs to the result of Tuning.
func (s *Session) tuneCosts(out map[string]map[string]string) {
	if !s.timed {
		return
	}
	if b, err := json.Marshal(s.costs); err == nil {
		out[tuningCosts] = map[string]string{s.costsKey(): string(b)}
	}
}
