package main

import (
	"time"

	"foretoken"
	"foretoken/spec"
)

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fill writes a round over the event before it; nothing of either is kept by the page.
func (e *engine) fill(out *event, in *foretoken.Event, elapsed time.Duration) {
	r := in.Round
	out.Round, out.Text, out.Finish, out.Elapsed = r.Round, in.Text, r.Finish, ms(elapsed)
	out.Tokens = append(out.Tokens[:0], in.Tokens...)
	out.MS = phases{ms(r.Draft), ms(r.Verify), ms(r.Readback), ms(r.Host)}
	out.Counts.set(r.Stats)
	t := &out.Tree
	t.Tokens, t.Texts, t.Parents = t.Tokens[:0], t.Texts[:0], t.Parents[:0]
	t.Depths, t.Scores, t.Accepted, t.Relaxed = t.Depths[:0], t.Scores[:0], t.Accepted[:0], t.Relaxed[:0]
	e.drafted.compare(t, r)
	for _, id := range t.Pruned.Tokens {
		t.Pruned.Texts = append(t.Pruned.Texts, string(e.session.Tokenizer().Piece(id)))
	}
	out.Bin, out.Phi = 0, 0
	if r.Proposal != nil {
		out.Bin, out.Phi = r.Proposal.Bin, r.Proposal.Phi
	}
	if r.Tree != nil {
		for i, id := range r.Tree.Tokens {
			t.Tokens, t.Parents = append(t.Tokens, id), append(t.Parents, r.Tree.Parents[i])
			t.Depths, t.Scores = append(t.Depths, r.Tree.Depths[i]), append(t.Scores, r.Tree.Scores[i])
			t.Texts = append(t.Texts, string(e.session.Tokenizer().Piece(id)))
		}
	}
	if len(r.Path) > 0 {
		t.Accepted = append(t.Accepted, r.Path[1:]...)
		for i, node := range r.Path[1:] {
			if i < len(r.Origins) && r.Origins[i] == spec.Relaxed {
				t.Relaxed = append(t.Relaxed, node)
			}
		}
	}
}

// set copies the counts of a request.
func (c *counts) set(s *spec.Stats) {
	*c = counts{s.Calls, s.Nodes, s.OutputTokens, s.Drafted, s.Accepted, s.Relaxed, s.Corrected, s.Bonus, s.Plain,
		append(c.DepthDrafted[:0], s.DepthDrafted...), append(c.DepthAccepted[:0], s.DepthAccepted...)}
}
