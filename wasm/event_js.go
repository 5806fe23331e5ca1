package main

import (
	"time"

	"foretoken"
	"foretoken/spec"
	"foretoken/trace"
)

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fill writes a round, with the figures of its tree, over the event before it; nothing of either is kept by the page.
func (out *event) fill(in *foretoken.Event, f trace.Figures, elapsed time.Duration) {
	r := in.Round
	*out = event{Round: r.Round, Text: in.Text, Finish: r.Finish, Elapsed: ms(elapsed),
		Tokens: append(out.Tokens[:0], in.Tokens...), Pruned: f.Pruned, Bin: f.Bin, Phi: f.Phi,
		MS: phases{ms(r.Draft), ms(r.Verify), ms(r.Readback), ms(r.Host)}, Counts: out.Counts}
	out.Counts.set(r.Stats)
	if f.Entropy >= 0 {
		out.Entropy = &f.Entropy
	}
	if f.DraftEntropy >= 0 {
		out.DraftEntropy = &f.DraftEntropy
	}
}

// set copies the counts of a request.
func (c *counts) set(s *spec.Stats) {
	*c = counts{s.Calls, s.Nodes, s.OutputTokens, s.Drafted, s.Accepted, s.Relaxed, s.Corrected, s.Bonus, s.Plain,
		append(c.DepthDrafted[:0], s.DepthDrafted...), append(c.DepthAccepted[:0], s.DepthAccepted...)}
}
