package main

import (
	"time"

	"foretoken"
	"foretoken/spec"
)

type stats struct {
	Calls          int  `json:"calls"`
	Rounds         int  `json:"rounds"`
	TokensVerified int  `json:"tokens_verified"`
	Committed      int  `json:"committed"`
	Drafted        int  `json:"drafted"`
	Accepted       int  `json:"accepted"`
	Relaxed        int  `json:"relaxed"` // accepted tokens that the target had not chosen
	Lossy          bool `json:"lossy"`
	// rounds that decoded plainly while drafting's kernels were compiled
	Warming            int             `json:"warming"`
	Recoveries         int             `json:"recoveries,omitempty"` // times that a lost device was replaced
	RecoveryMS         float64         `json:"recovery_ms,omitempty"`
	Bins               []spec.BinStats `json:"bins,omitempty"` // HeteroSpec's
	AcceptanceLength   float64         `json:"acceptance_length"`
	AcceptancePerDepth []float64       `json:"acceptance_per_depth"`
	DraftAcceptance    float64         `json:"draft_acceptance"`
	PerRound           phases          `json:"ms_per_round"`
	FirstMS            float64         `json:"ttft_ms"`
	PromptTokens       int             `json:"prompt_tokens"`
	Reused             int             `json:"reused"`    // prompt tokens held from an earlier request
	Prefilled          int             `json:"prefilled"` // those consumed before the first round
	PrefillSpeed       float64         `json:"prefill_tok_s"`
	DecodeSpeed        float64         `json:"decode_tok_s"`
	TotalMS            float64         `json:"total_ms"`
}

type result struct {
	Text      string      `json:"text"`
	PromptIDs []int32     `json:"prompt_ids"`
	TokenIDs  []int32     `json:"token_ids"`
	Finish    spec.Finish `json:"finish"`
	Stats     stats       `json:"stats"`
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fill writes a round over the event before it; nothing of either is kept by the page.
func (e *engine) fill(out *event, in *foretoken.Event, elapsed time.Duration) {
	r := in.Round
	out.Round, out.Text, out.Finish, out.Elapsed = r.Round, in.Text, r.Finish, ms(elapsed)
	out.Tokens = append(out.Tokens[:0], in.Tokens...)
	out.MS = phases{ms(r.Draft), ms(r.Verify), ms(r.Readback), ms(r.Host)}
	t := &out.Tree
	t.Tokens, t.Texts, t.Parents = t.Tokens[:0], t.Texts[:0], t.Parents[:0]
	t.Depths, t.Scores, t.Accepted, t.Relaxed = t.Depths[:0], t.Scores[:0], t.Accepted[:0], t.Relaxed[:0]
	e.drafted.compare(t, r)
	for _, id := range t.Pruned.Tokens {
		t.Pruned.Texts = append(t.Pruned.Texts, string(e.session.Tokenizer().Piece(id)))
	}
	out.Bin, out.Phi, out.Warming = 0, 0, r.Warming
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

func resultOf(r *foretoken.Result) result {
	return result{Text: r.Text, PromptIDs: r.PromptIDs, TokenIDs: r.TokenIDs, Finish: r.Finish,
		Stats: statsOf(&r.Stats)}
}

func statsOf(s *spec.Stats) stats {
	return stats{Calls: s.Calls, Rounds: s.Rounds, TokensVerified: s.Nodes, Committed: s.OutputTokens,
		Drafted: s.Drafted, Accepted: s.Accepted, Relaxed: s.Relaxed, Lossy: s.Lossy, Warming: s.Warming,
		Recoveries: s.Recoveries, RecoveryMS: ms(s.Recovery), Bins: s.Bins, AcceptanceLength: s.AcceptedLength(),
		AcceptancePerDepth: append([]float64{}, s.DepthAcceptance()...), DraftAcceptance: s.DraftAcceptance(),
		PerRound:     phases{s.PerRound(s.Draft), s.PerRound(s.Verify), s.PerRound(s.Readback), s.PerRound(s.Host)},
		PromptTokens: s.PromptTokens, Reused: s.Reused, Prefilled: s.Prefilled, FirstMS: ms(s.FirstToken()),
		PrefillSpeed: s.PrefillSpeed(), DecodeSpeed: s.DecodeSpeed(), TotalMS: ms(s.Prefill + s.Decode)}
}
