package main

import (
	"time"

	"foretoken"
	"foretoken/spec"
)

type phases struct {
	Draft    float64 `json:"draft"`
	Verify   float64 `json:"verify"`
	Readback float64 `json:"readback"`
	Host     float64 `json:"host"`
}

type tree struct {
	Tokens   []int32   `json:"tokens"`
	Texts    []string  `json:"texts"`
	Parents  []int32   `json:"parents"`
	Depths   []int32   `json:"depths"`
	Scores   []float32 `json:"scores"`
	Accepted []int32   `json:"accepted"` // nodes
}

// event is a round as the page sees it.
type event struct {
	Round   int               `json:"round"`
	Text    string            `json:"text"`
	Tokens  []foretoken.Token `json:"tokens"`
	Tree    tree              `json:"tree"`
	MS      phases            `json:"ms"`
	Elapsed float64           `json:"elapsed_ms"`
	Finish  spec.Finish       `json:"finish,omitempty"`
}

type stats struct {
	Calls              int       `json:"calls"`
	Rounds             int       `json:"rounds"`
	TokensVerified     int       `json:"tokens_verified"`
	Committed          int       `json:"committed"`
	Drafted            int       `json:"drafted"`
	Accepted           int       `json:"accepted"`
	AcceptanceLength   float64   `json:"acceptance_length"`
	AcceptancePerDepth []float64 `json:"acceptance_per_depth"`
	DraftAcceptance    float64   `json:"draft_acceptance"`
	PerRound           phases    `json:"ms_per_round"`
	FirstMS            float64   `json:"ttft_ms"`
	PrefillSpeed       float64   `json:"prefill_tok_s"`
	DecodeSpeed        float64   `json:"decode_tok_s"`
	TotalMS            float64   `json:"total_ms"`
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
	t.Depths, t.Scores, t.Accepted = t.Depths[:0], t.Scores[:0], t.Accepted[:0]
	if r.Tree != nil {
		for i, id := range r.Tree.Tokens {
			t.Tokens, t.Parents = append(t.Tokens, id), append(t.Parents, r.Tree.Parents[i])
			t.Depths, t.Scores = append(t.Depths, r.Tree.Depths[i]), append(t.Scores, r.Tree.Scores[i])
			t.Texts = append(t.Texts, string(e.session.Tokenizer().Piece(id)))
		}
	}
	if len(r.Path) > 0 {
		t.Accepted = append(t.Accepted, r.Path[1:]...)
	}
}

func statsOf(s *spec.Stats) stats {
	return stats{Calls: s.Calls, Rounds: s.Rounds, TokensVerified: s.Nodes, Committed: s.OutputTokens, Drafted: s.Drafted, Accepted: s.Accepted,
		AcceptanceLength: s.AcceptedLength(), AcceptancePerDepth: append([]float64{}, s.DepthAcceptance()...), DraftAcceptance: s.DraftAcceptance(),
		PerRound: phases{s.PerRound(s.Draft), s.PerRound(s.Verify), s.PerRound(s.Readback), s.PerRound(s.Host)},
		FirstMS:  ms(s.FirstToken()), PrefillSpeed: s.PrefillSpeed(), DecodeSpeed: s.DecodeSpeed(), TotalMS: ms(s.Prefill + s.Decode)}
}
