package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"foretoken"
	"foretoken/bench"
	"foretoken/models/gguf"
	"foretoken/webgpu"

	"github.com/hack-pad/safejs"
)

// benchUpdate reports a benchmark's progress: the current run, or the rows so far.
type benchUpdate struct {
	Done  int    `json:"done"`
	Total int    `json:"total"`
	Now   string `json:"now,omitempty"` // the policy that runs
	// Rows are those of all prompts, without figures; only after results arrived.
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

// bench measures methods: (plan JSON, onUpdate) → report JSON. When stopped, the report
// holds what was measured until then.
func (e *engine) bench(ctx context.Context, body []byte, args []safejs.Value) (any, error) {
	p, err := readPlan(body)
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
			name := cmp.Or(first.Method, "prompt "+gguf.Show(first.Prompt))
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
