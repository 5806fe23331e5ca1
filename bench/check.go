package bench

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"foretoken/spec"
)

// Bounds of valid measurements: sums of counts and squares of speed ratios stay in range, and a summary has room
// for the repetitions.
const (
	maxCount = 1 << 40
	minSpeed = 1.0 / maxCount // smaller speeds are 0: no measurable time
	maxTime  = 1 << 48        // three days, in nanoseconds
	maxReps  = 1 << 16
	maxWidth = 1 << 12 // intervals of a histogram
)

// Validate refuses a cell that no benchmark can produce: cells are read back from files, which may be damaged or
// written by another program.
func (c *Cell) Validate() error {
	fail := func(field string, format string, args ...any) error {
		return fmt.Errorf("foretoken: benchmark: field %s %s", field, fmt.Sprintf(format, args...))
	}
	if c.Key == "" {
		return fail("key", "is missing or empty")
	}
	if c.Rep < 0 || c.Rep >= maxReps {
		return fail("rep", "is %d, want 0 to %d", c.Rep, maxReps-1)
	}
	for _, f := range []struct {
		field string
		v     float64
	}{{"temperature", c.Temperature}, {"loss", c.Loss}} {
		if !(math.Abs(f.v) <= maxCount) {
			return fail(f.field, "is %g, want a number of at most %g", f.v, float64(maxCount))
		}
	}
	for _, f := range []struct {
		field string
		v     float64
	}{{"decode_tok_s", c.TokS}, {"plain_decode_tok_s", c.PlainTokS}} {
		if f.v != 0 && !(f.v >= minSpeed && f.v <= maxCount) {
			return fail(f.field, "is %g, want 0 or %g to %g", f.v, minSpeed, float64(maxCount))
		}
	}
	s := &c.Stats
	for _, f := range []struct {
		field string
		n     int
	}{{"lost", c.Lost}, {"prefix", c.Prefix}, {"equal", c.Equal}, {"length", c.Length}, {"edits", c.Edits},
		{"loss_tokens", c.LossTokens},
		{"stats.output_tokens", s.OutputTokens},
		{"stats.calls", s.Calls}, {"stats.rounds", s.Rounds}, {"stats.tokens_verified", s.Nodes},
		{"stats.drafted", s.Drafted}, {"stats.accepted", s.Accepted}, {"stats.relaxed", s.Relaxed}} {
		if f.n < 0 || f.n > maxCount {
			return fail(f.field, "is %d, want 0 to %d", f.n, maxCount)
		}
	}
	for _, d := range []spec.DistanceSum{s.Distances.Accepted, s.Distances.Rejected} {
		if d.Tokens < 0 || d.Tokens > maxCount || !(d.Sum >= 0 && d.Sum <= 1.001*float64(d.Tokens)) {
			return fail("stats.distances", "sums %d distances to %g, want at most 1 each", d.Tokens, d.Sum)
		}
	}
	times := map[string]int64{"stats.draft_ns": int64(s.Draft), "stats.verify_ns": int64(s.Verify),
		"stats.readback_ns": int64(s.Readback), "stats.host_ns": int64(s.Host)}
	if c.Figures != nil {
		times["figures.decision_ns"], times["figures.decode_ns"] = c.Figures.DecisionNS, c.Figures.DecodeNS
	}
	for _, field := range slices.Sorted(maps.Keys(times)) {
		if ns := times[field]; ns < -maxTime || ns > maxTime { // a coarse clock may make a remainder negative
			return fail(field, "is %d, want at most %d", ns, maxTime)
		}
	}
	if len(s.DepthDrafted) != len(s.DepthAccepted) {
		return fail("stats", "counts %d depths drafted and %d accepted, want as many", len(s.DepthDrafted),
			len(s.DepthAccepted))
	}
	if f := c.Figures; f != nil {
		for _, n := range []int{f.Rounds, f.Joint, f.Submits} {
			if n < 0 || n > maxCount {
				return fail("figures", "counts %d rounds or submits, want 0 to %d", n, maxCount)
			}
		}
		all := []*Histogram{&f.Entropy, &f.Estimates, &f.Distances, &f.Logits, &f.Ratios}
		for i := range f.Bins {
			all = append(all, &f.Bins[i].Phi, &f.Bins[i].TCR)
		}
		for _, h := range all {
			if err := h.validate(); err != nil {
				return fail("figures", "%v", err)
			}
		}
	}
	return nil
}

func (h *Histogram) validate() error {
	if len(h.N) != len(h.Hits) || h.Most < 0 || h.Most > maxWidth || len(h.N) > h.Most {
		return fmt.Errorf("have a histogram of at most %d intervals with %d counts and %d hits", h.Most,
			len(h.N), len(h.Hits))
	}
	if !(h.Width >= 0 && h.Width <= maxCount) || h.Width == 0 && len(h.N) > 0 {
		return fmt.Errorf("have a histogram with intervals of %g", h.Width)
	}
	for i, n := range h.N {
		if hits := h.Hits[i]; n < 0 || n > maxCount || hits < 0 || hits > n {
			return fmt.Errorf("have a histogram with %d hits of %d", hits, n)
		}
	}
	return nil
}
