//go:build !js

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken/bench"
	"foretoken/internal/quote"
	"foretoken/spec/goodput"
)

type costsOptions struct {
	models     modelOptions
	rows       string
	tokens     int
	repeat     int
	lengths    string
	maxTokens  int
	prompts    string
	limit      int
	json       string
	parsedRows []int
	length     int
	shorter    []int
}

func verifyCostCommand(c *console) *cobra.Command {
	o := costsOptions{}
	cmd := &cobra.Command{
		Use:   "verify-cost",
		Short: "Measure the cost of passes, and the most that drafting can gain",
		Long: "Measure T(M), the time of the target's pass over M rows, readback included, and that of the\n" +
			"draft's chains of K tokens. All kinds of passes run in turn; medians are shown.\n\n" +
			"With a draft, prompts are continued greedily to see which tokens it predicts. A chain of K then\n" +
			"commits E tokens a round, and E·T(1)/(T(K+1) + T_d(K)) is its ceiling: the speed over plain decoding\n" +
			"if a round cost nothing else.",
		Example: `  foretoken bench verify-cost
  foretoken bench verify-cost --target model.gguf --rows 1-16
  foretoken bench verify-cost --target model.gguf --draft small.gguf --prompts prompts.jsonl --json costs.json`,
		Args: flagsOnly,
		RunE: checkedRun(o.complete, func(ctx context.Context) error { return o.run(ctx, c) }),
	}
	f := cmd.Flags()
	o.models.flags(f)
	f.StringVar(&o.rows, "rows", "1-32", "rows of the target's passes: numbers, and ranges over the sizes that are "+
		"compiled (others are padded up), such as 1-16 or 1,5,7")
	f.IntVar(&o.tokens, "tokens", 8, "tokens of the draft's longest chain")
	f.IntVar(&o.repeat, "repeat", 9, "timed passes of each kind")
	f.StringVar(&o.lengths, "length", "", "tokens in the cache before a pass (default 64, or as many as fit); "+
		"with several numbers, such as 256,4096, all are timed in turn, the draft at the largest")
	f.StringVar(&o.prompts, "prompts", "", "file of prompts in the format of bench (default one line of text)")
	f.IntVar(&o.limit, "limit", 8, "use at most N prompts, taken evenly from the categories")
	f.IntVar(&o.maxTokens, "max-tokens", 64, "tokens to generate for each prompt")
	f.StringVar(&o.json, "json", "", "write the report to this file")
	return cmd
}

func (o *costsOptions) complete(given *pflag.FlagSet) error {
	if err := cmp.Or(o.models.check(), checkMinimums(given, []minimum{{"tokens", o.tokens, 1}, {"repeat", o.repeat, 1},
		{"limit", o.limit, 1}, {"max-tokens", o.maxTokens, 1}, {"context", o.models.context, 1}})); err != nil {
		return err
	}
	if given.Changed("length") {
		for part := range strings.SplitSeq(o.lengths, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(part))
			if err != nil || n < 1 {
				return usagef("--length is %q, want 1 or more, or several numbers such as 256,4096", o.lengths)
			}
			o.shorter = append(o.shorter, n)
		}
		slices.Sort(o.shorter)
		o.shorter = slices.Compact(o.shorter)
		last := len(o.shorter) - 1
		o.length, o.shorter = o.shorter[last], o.shorter[:last]
	}
	var err error
	if o.parsedRows, err = parseRows(o.rows); err != nil {
		return err
	}
	if most := o.parsedRows[len(o.parsedRows)-1]; most > 64 {
		o.models.nodes = most
	}
	return cmp.Or(checkFileNames(given, "json", "prompts"), checkFolders(o.json))
}

// parseRows reads row counts and ranges of them. A range yields its ends and the compiled sizes between them.
func parseRows(s string) ([]int, error) {
	var rows []int
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		low, err := strconv.Atoi(from)
		high := low
		if err == nil && isRange {
			high, err = strconv.Atoi(to)
		}
		if err != nil || low < 1 || high < low || high > 1024 {
			return nil, usagef("--rows is %q, want numbers and ranges from 1 to 1024, such as 1-32 or 1,4,16", s)
		}
		rows = append(rows, low, high)
		for _, n := range goodput.RowBuckets() {
			if low < n && n < high {
				rows = append(rows, n)
			}
		}
	}
	slices.Sort(rows)
	return slices.Compact(rows), nil
}

// promptsFor reads a prompt file; without one it returns a built-in prompt.
func promptsFor(path string, limit int, builtin bool) ([]bench.Prompt, error) {
	if path == "" {
		if builtin {
			return []prompt{{ID: "function", Prompt: "// Max returns the larger of two numbers.\nfunc "}}, nil
		}
		return []prompt{{ID: "story", Prompt: "Once upon a time"}}, nil
	}
	all, err := readPrompts(path)
	if err != nil {
		return nil, err
	}
	return choosePrompts(all, 0, limit), nil
}

func (o *costsOptions) run(ctx context.Context, c *console) error {
	prompts, err := promptsFor(o.prompts, o.limit, o.models.target == "")
	if err != nil {
		return err
	}
	report, err := measureSession(ctx, c, &o.models, "passes",
		func(s *session, progress func(done, total int)) (*bench.CostReport, error) {
			return bench.MeasureCosts(ctx, s.Session, bench.CostOptions{Rows: o.parsedRows, Tokens: o.tokens,
				Repeat: o.repeat, Length: o.length, Shorter: o.shorter,
				Prompts: prompts, MaxTokens: o.maxTokens, Progress: progress})
		})
	if err != nil {
		return err
	}
	if err := printCosts(c, report); err != nil {
		return err
	}
	return writeJSON(o.json, report)
}

// measureSession opens a session, runs measure under a progress bar that counts what, and closes the session.
func measureSession[R any](ctx context.Context, c *console, models *modelOptions, what string,
	measure func(s *session, progress func(done, total int)) (R, error)) (report R, err error) {
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = errInterrupted
		}
	}()
	s, err := openSession(ctx, c, models)
	if err != nil {
		return report, err
	}
	defer s.close()
	var bar bar
	defer bar.clear()
	return measure(s, bar.counting(c, what))
}

// writeJSON writes a report to a file; path "" writes nothing.
func writeJSON(path string, report any) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(path, append(b, '\n'))
}

func printCosts(c *console, r *bench.CostReport) error {
	p := &benchPrinter{out: c.out}
	p.line("%s · target %s · draft %s · %d tokens in the cache, medians of %d passes in turn", r.Device,
		quote.Name(r.Target), quote.Name(cmp.Or(r.Draft, "-")), r.Length, r.Repeat)
	p.line("")
	var rows [][]string
	for i, v := range r.Verify {
		row := []string{strconv.Itoa(v.N), fmt.Sprintf("%.2f", v.MS), fmt.Sprintf("%.2f", v.Ratio),
			fmt.Sprintf("%.2f", v.MS/float64(v.N))}
		for _, after := range r.After {
			row = append(row, fmt.Sprintf("%.2f", after.Verify[i].MS), fmt.Sprintf("%.2f", after.Verify[i].MS/v.MS))
		}
		rows = append(rows, row)
	}
	head := []string{"rows", "T(M) ms", "T(M)/T(1)", "ms a row"}
	for _, after := range r.After {
		head = append(head, fmt.Sprintf("after %d, ms", after.Length), "rate kept")
	}
	p.grid(head, rows)
	if len(r.Chain) == 0 {
		return p.err
	}
	p.line("")
	rows = nil
	for i, d := range r.Chain {
		row := []string{strconv.Itoa(d.N), fmt.Sprintf("%.2f", d.MS), fmt.Sprintf("%.2f", d.Ratio), "", ""}
		if i < len(r.Chains) {
			row[3] = fmt.Sprintf("%.2f", r.Chains[i].Tokens)
			if r.Chains[i].Speedup > 0 {
				row[4] = fmt.Sprintf("%.2f", r.Chains[i].Speedup)
			}
		}
		rows = append(rows, row)
	}
	p.grid([]string{"K", "T_d(K) ms", "T_d(K)/T(1)", "E", "ceiling"}, rows)
	if r.Texts > 0 {
		p.line("")
		p.line("ceiling over %d texts: %.2f× plain decoding with chains of %d; E is tokens a round, "+
			"the ceiling E·T(1)/(T(K+1) + T_d(K))", r.Texts, r.Best.Speedup, r.Best.K)
	}
	return p.err
}
