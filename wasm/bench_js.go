package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"foretoken"
	"foretoken/webgpu"

	"github.com/hack-pad/safejs"
)

// benchUpdate tells how far a benchmark is: what runs now, or the rows so far.
type benchUpdate struct {
	Done  int    `json:"done"`
	Total int    `json:"total"`
	Now   string `json:"now,omitempty"` // the policy that runs
	// Rows are those of all prompts, without figures; only after results arrived.
	Rows []foretoken.BenchRow `json:"rows,omitempty"`
}

// benchReport is a finished or stopped benchmark.
type benchReport struct {
	foretoken.BenchReport
	Stopped bool `json:"stopped"`
}

// watched is a session that tells what it runs.
type watched struct {
	*foretoken.Session
	tell func(policy string)
}

func (w watched) Generate(ctx context.Context, prompt string, r foretoken.Request, emit func(*foretoken.Event) error) (*foretoken.Result, error) {
	w.tell(r.Policy)
	return w.Session.Generate(ctx, prompt, r, emit)
}

// bench measures methods: (plan JSON, onUpdate) → report JSON. When stopped, the report
// holds what was measured until then.
func (e *engine) bench(args []safejs.Value) (string, error) {
	body, leave, err := e.enter(args)
	if err != nil {
		return "", err
	}
	defer leave()
	p, err := readPlan(body)
	if err != nil {
		return "", withCode("bad_option", err)
	}
	var cells []foretoken.BenchCell
	var at benchUpdate
	send := func() {
		if len(args) < 2 || args[1].Type() != safejs.TypeFunction {
			return
		}
		b, err := json.Marshal(&at)
		if err == nil {
			_, _ = args[1].Invoke(string(b)) // a page that throws at progress is the page's affair
		}
	}
	report := benchReport{}
	p.Problem = func(method, prompt string, err error) error {
		if errors.Is(err, webgpu.ErrDeviceLost) {
			return err
		}
		reason := err.Error()
		if prompt != "" {
			reason = fmt.Sprintf("on prompt %s: %s", prompt, reason)
		}
		report.Missing = append(report.Missing, foretoken.BenchMissing{Method: method, Reason: reason})
		return nil
	}
	p.Progress = func(done, total int) {
		at = benchUpdate{Done: done, Total: total}
		if len(cells) > 0 {
			for _, row := range foretoken.Summarise(cells).Rows {
				if row.Category == "" {
					row.Figures = nil
					at.Rows = append(at.Rows, row)
				}
			}
		}
		send()
	}
	session := watched{e.session, func(policy string) {
		at.Now, at.Rows = policy, nil
		send()
	}}
	ctx, done := e.cancellable()
	defer done()
	err = foretoken.RunBench(ctx, session, p, func(c foretoken.BenchCell) { cells = append(cells, c) })
	report.Stopped = err != nil && ctx.Err() != nil
	if err != nil && !report.Stopped {
		if len(report.Missing) > 0 {
			first := report.Missing[0]
			err = fmt.Errorf("%w (%s: %s)", err, first.Method, first.Reason)
		}
		return "", err
	}
	e.keepCosts()
	missing := report.Missing
	report.BenchReport = foretoken.Summarise(cells)
	i := e.session.Info()
	report.Device = i.Device.Backend + ", " + i.Device.Adapter
	report.Target = i.Target.File + " " + i.Target.Quant
	if i.Draft != nil {
		report.Draft = i.Draft.File + " " + i.Draft.Quant
	}
	report.Note = fmt.Sprintf("%d prompts", len(p.Prompts))
	report.Missing = missing
	b, err := json.Marshal(&report)
	return string(b), err
}
