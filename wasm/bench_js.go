package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"foretoken"
	"foretoken/bench"
	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/webgpu"

	"github.com/hack-pad/safejs"
)

// benchUpdate reports a benchmark's progress: the current run, or the rows so far.
type benchUpdate struct {
	Done  int    `json:"done"`
	Total int    `json:"total"`
	Now   string `json:"now,omitempty"` // the policy that runs
	// Rows over all prompts, without figures; only after results arrived.
	Rows []bench.Row `json:"rows,omitempty"`
}

// benchReport is a finished or stopped benchmark.
type benchReport struct {
	bench.Report
	Stopped bool `json:"stopped"`
}

// observedSession wraps a session and reports its runs.
type observedSession struct {
	*foretoken.Session
	onRun func(policy string)
}

func (w observedSession) Generate(ctx context.Context, prompt string, r foretoken.Request,
	emit func(*foretoken.Event) error) (*foretoken.Result, error) {
	w.onRun(r.Policy)
	return w.Session.Generate(ctx, prompt, r, emit)
}

// bench measures methods: (matrix JSON, onUpdate) → report JSON. When stopped, the report holds what was measured until
// then.
func (e *engine) bench(ctx context.Context, body []byte, args []safejs.Value) (any, error) {
	p, err := readMatrix(body)
	if err != nil {
		return nil, withCode("bad_option", err)
	}
	var cells []bench.Cell
	var at benchUpdate
	send := callback(args, 1)
	report := benchReport{}
	p.Problem = func(method, prompt string, err error) error {
		if errors.Is(err, webgpu.ErrDeviceLost) {
			return err
		}
		report.Missing = append(report.Missing, bench.Missing{Method: method, Prompt: prompt, Reason: err.Error()})
		return nil
	}
	p.Progress = func(done, total int) {
		at = benchUpdate{Done: done, Total: total}
		for _, row := range bench.Summarise(cells).Rows {
			if row.Category == "" {
				row.Figures = nil
				at.Rows = append(at.Rows, row)
			}
		}
		send(&at)
	}
	session := observedSession{e.session, func(policy string) {
		at.Now, at.Rows = policy, nil
		send(&at)
	}}
	err = bench.Run(ctx, session, p, func(c bench.Cell) { cells = append(cells, c) })
	report.Stopped = err != nil && ctx.Err() != nil
	if err != nil && !report.Stopped {
		if len(report.Missing) > 0 {
			first := report.Missing[0]
			name := cmp.Or(first.Method, "prompt "+quote.Name(first.Prompt))
			err = fmt.Errorf("%w (%s: %s)", err, name, first.Reason)
		}
		return nil, err
	}
	e.keepCosts()
	report.Rows = bench.Summarise(cells).Rows
	report.Device, report.Target, report.Draft = bench.Describe(e.session)
	report.Note = fmt.Sprintf("%d prompts", len(p.Prompts)-bench.Skipped(report.Missing))
	return &report, nil
}

// measurement is a page's request to measure passes: their costs, or the time of each kernel.
type measurement struct {
	What      string         `json:"what"` // costs, profile or doctor
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
	Browser   string         `json:"browser"` // of doctor
}

// measure times passes: (measurement JSON, onUpdate) → report JSON.
func (e *engine) measure(ctx context.Context, body []byte, args []safejs.Value) (any, error) {
	var m measurement
	if err := strictjson.Decode(body, &m); err != nil {
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
				return nil, withCode("bad_option", inField("measurement", "methods", err))
			}
		}
		report, err = bench.Profile(ctx, e.session, o)
	case "doctor":
		report, err = bench.Diagnose(ctx, e.session,
			bench.DoctorOptions{Browser: m.Browser, Repeat: m.Repeat, Progress: progress})
	default:
		err = withCode("bad_option",
			fmt.Errorf("foretoken: measurement: field what is %.80q, want costs, profile or doctor", m.What))
	}
	return report, err
}
