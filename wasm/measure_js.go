package main

import (
	"encoding/json"
	"fmt"

	"foretoken"

	"github.com/hack-pad/safejs"
)

// measurement is what a page asks to be measured of passes: their costs, or where their time goes.
type measurement struct {
	What      string                  `json:"what"` // costs or profile
	Rows      []int                   `json:"rows"` // profile: one number at most
	Beams     int                     `json:"beams"`
	Methods   string                  `json:"methods"` // of profile, as of a benchmark
	Prompt    string                  `json:"prompt"`
	Tokens    int                     `json:"tokens"`
	Repeat    int                     `json:"repeat"`
	Length    int                     `json:"length"`
	Shorter   []int                   `json:"shorter"` // costs
	Prompts   []foretoken.BenchPrompt `json:"prompts"`
	MaxTokens int                     `json:"max_tokens"`
}

// measure times passes: (measurement JSON, onUpdate) → report JSON.
func (e *engine) measure(args []safejs.Value) (string, error) {
	body, leave, err := e.enter(args)
	if err != nil {
		return "", err
	}
	defer leave()
	var m measurement
	if err := decode(body, &m); err != nil {
		return "", withCode("bad_option", fmt.Errorf("foretoken: measurement: %w", err))
	}
	ctx, done := e.cancellable()
	defer done()
	progress := func(done, total int) {
		if len(args) > 1 && args[1].Type() == safejs.TypeFunction {
			b, _ := json.Marshal(benchUpdate{Done: done, Total: total}) // of plain fields: cannot fail
			_, _ = args[1].Invoke(string(b))                            // a page that throws at progress is the page's affair
		}
	}
	var report any
	switch m.What {
	case "costs":
		report, err = e.session.MeasureCosts(ctx, foretoken.CostOptions{Rows: m.Rows, Tokens: m.Tokens, Repeat: m.Repeat, Length: m.Length,
			Shorter: m.Shorter, Prompts: m.Prompts, MaxTokens: m.MaxTokens, Progress: progress})
	case "profile":
		o := foretoken.ProfileOptions{Beams: m.Beams, Length: m.Length, Repeat: m.Repeat, Prompt: m.Prompt, Progress: progress}
		if len(m.Rows) > 0 {
			o.Rows = m.Rows[0]
		}
		if m.Methods != "" {
			if o.Methods, err = foretoken.ParseBenchMethods(m.Methods, foretoken.Request{MaxTokens: m.MaxTokens, Seed: 1}); err != nil {
				return "", withCode("bad_option", err)
			}
		}
		report, err = e.session.Profile(ctx, o)
	default:
		err = withCode("bad_option", fmt.Errorf("foretoken: measurement: field what is %.80q, want costs or profile", m.What))
	}
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(report)
	return string(b), err
}
