//go:build !js

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"foretoken/bench"
	"foretoken/fit"
	"foretoken/internal/quote"
	"foretoken/spec/method"
)

// ofPairs reports whether the suites run on the pairs of models that they name: the command names no models and no
// other methods.
func (o *benchOptions) ofPairs(given *pflag.FlagSet) bool {
	if len(o.files) == 0 {
		return false
	}
	own := []string{"target", "draft", "eagle3", "methods", "repeat", "per-category", "csv", "seed"}
	return !slices.ContainsFunc(own, given.Changed) // bound: flags
}

// timedPrompts is the number of prompts on which the speeds of a suite are measured.
const timedPrompts = 10

// pairRun measures suites on one of their pairs.
type pairRun struct {
	*benchRun
	pair  bench.SuitePair
	store *fit.Journal
}

// runPairs makes the tables of suites with each of their pairs, and writes the reports by the pairs' names.
func (o *benchOptions) runPairs(ctx context.Context, c *console) error {
	store, err := o.journal()
	if err != nil {
		return err
	}
	if store != nil {
		defer store.Close()
	}
	var pairs []bench.SuitePair
	for _, f := range o.files {
		for _, p := range f.Pairs {
			i := slices.IndexFunc(pairs, func(q bench.SuitePair) bool { return q.Name == p.Name }) // bound: pairs
			if i >= 0 && pairs[i] != p {
				return fmt.Errorf("the suites have two pairs %s", quote.Name(p.Name))
			}
			if i < 0 && (len(o.pairs) == 0 || slices.Contains(o.pairs, p.Name)) { // bound: pairs of files
				pairs = append(pairs, p)
			}
		}
	}
	if len(pairs) == 0 {
		return usagef("--pairs is %s, and the suites have none of them", strings.Join(o.pairs, ","))
	}
	reports := map[string]*bench.Report{}
	for _, p := range pairs {
		one := *o
		run := &pairRun{benchRun: &benchRun{benchOptions: &one, c: c}, pair: p, store: store}
		report, err := run.report(ctx)
		if errors.Is(err, fs.ErrNotExist) {
			c.note("the pair %s is left out: %v", quote.Name(p.Name), err)
			continue
		}
		if err != nil {
			return fmt.Errorf("pair %s: %w", quote.Name(p.Name), err)
		}
		fmt.Fprintf(c.out, "pair %s\n", quote.Name(p.Name))
		if err := run.print(report); err != nil {
			return err
		}
		fmt.Fprintln(c.out)
		reports[p.Name] = report
	}
	if len(reports) == 0 {
		return errors.New("none of the suites' pairs has its files")
	}
	return writeJSON(o.json, reports)
}

// open sets the models of the pair and opens them, and reads its prompts.
func (r *pairRun) open(ctx context.Context) (*session, error) {
	m := &r.models
	for _, file := range []struct {
		flag *string
		name string
	}{{&m.target, r.pair.Target}, {&m.draft, r.pair.Draft}} {
		if *file.flag = file.name; file.name == "" {
			continue
		}
		*file.flag = r.model(file.name)
		if _, err := os.Stat(*file.flag); err != nil {
			return nil, fmt.Errorf("%w; --models names the folder of models", err)
		}
	}
	m.useHead = m.useHead || r.pair.Source == method.SourceEAGLE3
	file := r.pair.Prompts
	if r.prompts != "" && r.pair.Target == "" {
		file = r.prompts
	}
	if file == "" {
		return nil, usagef("no prompts for the pair %s: give --prompts", quote.Name(r.pair.Name))
	}
	all, err := distinctPrompts(file)
	if err != nil {
		return nil, err
	}
	r.matrix = bench.Matrix{Prompts: choosePrompts(all, 0, r.limit), Judge: judge()}
	if r.store != nil {
		r.matrix.Finished = finishedCells(r.store)
	}
	return openSession(ctx, r.c, m)
}

// model returns the path of a model that a suite names.
func (r *pairRun) model(name string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		return name
	}
	return filepath.Join(r.modelFolder, name)
}

// report measures the counts and then, unless the run is quick, the speeds.
func (r *pairRun) report(ctx context.Context) (*bench.Report, error) {
	s, err := r.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := r.choose(ctx, s); err != nil {
		return nil, err
	}
	run := bench.SuiteRun{Matrix: r.matrix, Groups: r.groups, Small: bench.FullSizes, Big: bench.BigSizes}
	if r.quick {
		run.Small, run.Big = bench.QuickSizes, bench.QuickBig
	}
	run.Small.Seeds, run.Big.Seeds = min(run.Small.Seeds, r.seeds), min(run.Big.Seeds, r.seeds)
	run.Estimate = func(left time.Duration, stage bool) {
		how := "at most about"
		if stage {
			how = "these cells take about"
		}
		r.c.note("pair %s: %s %s more", quote.Name(r.pair.Name), how, left.Round(time.Second))
	}
	counts := func(ctx context.Context, emit func(bench.Cell), progress func(done, total int)) error {
		run.Matrix.Progress = progress
		return run.Run(ctx, s, emit)
	}
	err = r.measure(ctx, r.store, counts)
	if err != nil {
		return nil, interruptedOr(ctx, err)
	}
	report := bench.Summarise(r.cells)
	report.Compare(r.cells, r.against())
	bench.CompareCurves(r.groups, r.cells)
	var speeds *bench.Report
	if !r.quick {
		cells := r.cells
		r.cells = nil
		times := func(ctx context.Context, emit func(bench.Cell), progress func(done, total int)) error {
			m := r.matrix
			m.Progress, m.Repeat, m.NoScore, m.Judge = progress, 1, true, nil
			m.Prompts = m.Prompts[:min(timedPrompts, len(m.Prompts))]
			m.Methods = nil
			for _, row := range report.Rows {
				if i := slices.IndexFunc(r.matrix.Methods, func(x bench.Method) bool { // bound: rows²
					return row.Category == "" && x.Name == row.Method
				}); i >= 0 {
					one := r.matrix.Methods[i]
					one.Repeat = 1
					m.Methods = append(m.Methods, one)
				}
			}
			return bench.Run(ctx, s, m, emit)
		}
		err = r.measure(ctx, r.store, times)
		if err != nil {
			return nil, interruptedOr(ctx, err)
		}
		timed := bench.Summarise(r.cells)
		timed.Compare(r.cells, r.against())
		speeds, r.cells = &timed, cells
	}
	report.WithTimes(speeds)
	report.KeepTables(r.groups)
	report.Device, report.Target, report.Draft = bench.Describe(s.Session)
	if r.pair.Source == method.SourceEAGLE3 {
		report.Draft = "the target's EAGLE-3 head"
	}
	report.Note, report.Missing, report.Quick = r.note(run.Small, run.Big), r.missing, r.quick
	return &report, nil
}

// note describes the prompts, seeds and tokens of the rows.
func (r *pairRun) note(small, big bench.Sizes) string {
	var lengths []int
	for _, m := range r.matrix.Methods {
		lengths = append(lengths, m.Request.MaxTokens)
	}
	slices.Sort(lengths)
	own := strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Compact(lengths)), " ", " or "), "[]")
	of := func(s bench.Sizes) string {
		prompts := min(s.Prompts, len(r.matrix.Prompts))
		least := fmt.Sprint(prompts, " prompts")
		most := own
		if s.MaxTokens > 0 {
			most = fmt.Sprint(s.MaxTokens)
		}
		if n := min(s.MostPrompts, len(r.matrix.Prompts)); n > prompts {
			least = fmt.Sprintf("%d to %d prompts", prompts, n)
		}
		if s.Seeds > 1 {
			least += fmt.Sprintf(" with 1 to %d seeds", s.Seeds)
		}
		return least + " of " + most + " tokens"
	}
	return fmt.Sprintf("%s; rows of trees above %d nodes: %s; seed %d", of(small), bench.BigTree, of(big),
		r.common.Seed)
}

// choose makes the missing artefacts and chooses the rows.
func (r *pairRun) choose(ctx context.Context, s *session) error {
	folder := ""
	if r.artefacts != "" {
		folder = filepath.Join(r.artefacts, r.pair.Name)
	}
	o := r.suiteOptions(s)
	o.Source, o.Artefact = r.pair.Source, artefacts(folder)
	if r.quick {
		o.MaxTokens = bench.QuickSizes.MaxTokens
	}
	o.Files = map[string]string{"fit": cmp.Or(r.pair.Fit, "PROMPTS"), "artefacts": cmp.Or(folder, "DIR"),
		"models": r.modelFolder}
	if r.pair.Source == method.SourceEAGLE3 {
		o.Pair = s.HeadFingerprint()
	}
	for _, f := range r.files {
		groups, err := f.Groups(r.pair.Name, o)
		if err != nil {
			return err
		}
		if folder != "" {
			needed, err := f.NeededArtefacts(groups, o)
			if err != nil {
				return err
			}
			if err := r.make(ctx, folder, needed); err != nil {
				return err
			}
			if groups, err = f.Groups(r.pair.Name, o); err != nil { // with them
				return err
			}
		}
		r.groups = append(r.groups, groups...)
	}
	return r.chooseRows(s)
}

// make runs the commands of artefacts that the folder lacks. A quick run fits none.
func (r *pairRun) make(ctx context.Context, folder string, needed []bench.Artefact) error {
	for _, a := range needed {
		if _, err := os.Stat(filepath.Join(folder, a.File)); err == nil || a.Fitted() &&
			(r.quick || r.pair.Fit == "") {
			continue
		}
		args := append(strings.Fields(a.Make), "--device", r.models.device, "--threads",
			fmt.Sprint(r.models.threads), "--out", filepath.Join(folder, a.File))
		if !slices.Contains(args, "--target") { // bound: a command
			for flag, value := range map[string]string{"--target": r.models.target, "--draft": r.models.draft,
				"--source": r.pair.Source} {
				if value != "" {
					args = append(args, flag, value)
				}
			}
		}
		r.c.note("making %s: foretoken %s", a.File, strings.Join(args, " "))
		quiet := &console{in: strings.NewReader(""), out: r.c.err, err: r.c.err, tuning: r.c.tuning}
		if run(ctx, quiet, args) != exitOK && ctx.Err() != nil {
			return errInterrupted
		} // else its rows are missing, and the command has said why
	}
	return nil
}
