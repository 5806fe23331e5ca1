package foretoken

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"foretoken/spec"
)

// tuningCosts is the role under which Session.Tuning keeps what passes cost.
const tuningCosts = "costs"

// measureFor is how long, in seconds, costs are measured at most where less than all of
// them will do.
const measureFor = 0.2

// weigh gives a request of the goodput tree the costs that it decides by: its own, those
// of this session, those kept from an earlier one, or else measured now.
func (s *Session) weigh(ctx context.Context, r *Request) error {
	c := r.config()
	if c.Drafter != spec.DrafterAuto || r.Aids.Costs != nil || c.Validate() != nil {
		return nil // the generator says what is wrong with it
	}
	var err error
	r.Aids.Costs, err = s.costs(ctx, c)
	return err
}

// costs are those of the session's pair, for trees within a config. They go on learning
// from every request that uses them.
func (s *Session) costs(ctx context.Context, c spec.Config) (*spec.Costs, error) {
	known, kept := s.knownCosts()
	rows := s.weighedRows(c)
	if kept || !known.Measured(rows, s.draft != nil) {
		if err := s.measure(ctx, known, c, rows, kept, false); err != nil {
			return nil, err
		}
	}
	s.measured = known
	return known, nil
}

// knownCosts are those of this session, or kept from an earlier one, or new ones.
func (s *Session) knownCosts() (known *spec.Costs, kept bool) {
	if s.measured != nil {
		return s.measured, false
	}
	if known = s.keptCosts(); known != nil {
		return known, true
	}
	return spec.NewCosts(), false
}

// weighedRows is the largest tree that costs are measured for.
func (s *Session) weighedRows(c spec.Config) int {
	return min(c.Budget().Nodes, s.target.Limits().MaxRows)
}

// measure times passes of both models over a short text of no meaning. Kept costs that still
// hold are left as they are. Amid a request the target's passes follow its sequence, which stays as it is; the
// draft's is emptied.
func (s *Session) measure(ctx context.Context, costs *spec.Costs, c spec.Config, rows int, kept, amid bool) error {
	const length = 24 // tokens that passes find in the cache
	if err := s.target.Prepare(rows); err != nil {
		return err
	}
	text := make([]int32, 64)
	for i := range text {
		text[i] = int32(i % s.target.Limits().Vocab)
	}
	positions := s.target.Limits().Context
	if s.draft != nil {
		positions = min(positions, s.draft.Limits().Context)
	}
	at := length
	if amid {
		at = s.target.Len()
	}
	if positions < 2*len(text) || positions < at+rows {
		return nil // too short for trees to matter; what rounds take is learnt all the same
	}
	begin := time.Now()
	p := spec.Probe{Clock: func() float64 { return time.Since(begin).Seconds() }}
	tree := &spec.Tree{}
	p.Verify = func(n int) error {
		tree.Reset(text[0])
		for i := 1; i < n; i++ {
			tree.Add(int32(i-1)/2, text[i], 0)
		}
		_, err := s.target.Verify(ctx, tree, spec.Sampling{})
		return err
	}
	if !amid {
		defer s.target.Reset()
		s.target.Reset()
		if err := s.target.Prefill(ctx, text[:length], nil); err != nil {
			return err
		}
	}
	if kept {
		holds, err := costs.Holds(p, rows)
		if err != nil || holds && costs.Measured(rows, s.draft != nil) {
			return err
		}
		if !holds {
			costs.Forget()
		}
	}
	widths := []int{1}
	if s.draft != nil {
		d := s.draft
		widths = spec.DraftWidths(c.TopK, d.Limits())
		if err := prepare(d, c, 0); err != nil {
			return err
		}
		defer d.Reset()
		d.Reset()
		if err := d.Prefill(ctx, text[:length], nil); err != nil {
			return err
		}
		p.Draft = func(levels, beams int) error {
			_, err := d.DraftTree(ctx, spec.DraftRequest{Pending: text[:1], Depth: levels - 1, K: beams})
			return err
		}
		p.Feed = func(n int) error {
			d.Reset()
			if err := d.Prefill(ctx, text[:n], nil); err != nil {
				return err
			}
			return d.Settle()
		}
		p.Grow = func(levels, _ int) error {
			_, err := d.Grow(ctx, levels)
			return err
		}
	}
	return costs.Measure(p, rows, widths, measureFor)
}

// costsKey names the pair among others on the same adapter.
func (s *Session) costsKey() string {
	key := fmt.Sprintf("%s %d %s", s.pair.Target.Name, s.pair.Target.Bytes, s.pair.Target.Hash)
	if s.draft != nil {
		key += fmt.Sprintf(" + %s %d %s", s.pair.Draft.Name, s.pair.Draft.Bytes, s.pair.Draft.Hash)
	}
	return key
}

// keptCosts are those that Options.Tuning brought, nil if there are none or if they cannot
// be used: measuring anew is quick.
func (s *Session) keptCosts() *spec.Costs {
	text, ok := s.kept[s.costsKey()]
	if !ok {
		return nil
	}
	var c spec.Costs
	if json.Unmarshal([]byte(text), &c) != nil {
		return nil
	}
	return &c
}

// tuneCosts adds the costs to what Tuning gives.
func (s *Session) tuneCosts(out map[string]map[string]string) {
	if s.measured == nil {
		if len(s.kept) > 0 {
			out[tuningCosts] = s.kept
		}
		return
	}
	if b, err := json.Marshal(s.measured); err == nil {
		out[tuningCosts] = map[string]string{s.costsKey(): string(b)}
	}
}
