package main

import (
	"context"
	"fmt"

	"foretoken"
	"foretoken/bench"

	"github.com/hack-pad/safejs"
)

// measurement is a page's request to measure passes: their costs, or the time of each kernel.
type measurement struct {
	What      string         `json:"what"` // costs or profile
	Rows      []int          `json:"rows"` // profile: one number at most
	Beams     int            `json:"beams"`
	Methods   string         `json:"methods"` // of profile, as of a benchmark
	Prompt    string         `json:"prompt"`
	Tokens    int            `json:"tokens"`
	Repeat    int            `json:"repeat"`
	Length    int            `json:"length"`
	Shorter   []int          `json:"shorter"` // costs
	Prompts   []bench.Prompt `json:"prompts"`
	MaxTokens int            `json:"max_tokens"`
}

// measure times passes: (measurement JSON, onUpdate) → report JSON.
func (e *engine) measure(ctx context.Context, body []byte, args []safejs.Value) (any, error) {
	var m measurement
	if err := decode(body, &m); err != nil {
		return nil, withCode("bad_option", fmt.Errorf("foretoken: measurement: %w", err))
	}
	send := callback(args, 1)
	progress := func(done, total int) { send(benchUpdate{Done: done, Total: total}) }
	var report any
	var err error
	switch m.What {
	case "costs":
		report, err = bench.MeasureCosts(ctx, e.session,
			bench.CostOptions{Rows: m.Rows, Tokens: m.Tokens, Repeat: m.Repeat, Length: m.Length,
				Shorter: m.Shorter, Prompts: m.Prompts, MaxTokens: m.MaxTokens, Progress: progress})
	case "profile":
		o := bench.ProfileOptions{Beams: m.Beams, Length: m.Length, Repeat: m.Repeat, Prompt: m.Prompt,
			Progress: progress}
		if len(m.Rows) > 0 {
			o.Rows = m.Rows[0]
		}
		if m.Methods != "" {
			if o.Methods, err = bench.ParseMethods(m.Methods,
				foretoken.Request{MaxTokens: m.MaxTokens, Seed: 1}); err != nil {
				return nil, withCode("bad_option", err)
			}
		}
		report, err = bench.Profile(ctx, e.session, o)
	default:
		err = withCode("bad_option",
			fmt.Errorf("foretoken: measurement: field what is %.80q, want costs or profile", m.What))
	}
	return report, err
}
