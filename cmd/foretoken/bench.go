//go:build !js

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
)

// benchOptions are the flags of bench.
type benchOptions struct {
	models       modelOptions
	common       foretoken.Request
	methods      []string
	suites       []string
	list         bool
	prompts      string
	perCategory  int
	limit        int
	repeat       int
	noScore      bool
	json, csv    string
	resume       string
	compare      string
	artefacts    string
	profiled     bool
	rows, beams  int                     // of --profile
	perMethod    []foretoken.BenchMethod // of --methods
	repeatGiven  bool
	old          *foretoken.BenchReport // of --compare
	methodsGiven bool
}

// benchMethods are compared when no others are named.
const benchMethods = "none,ngram,chain,eagle2:depth=4,top-k=4,nodes=16,auto"

func benchCommand(c *console) *cobra.Command {
	o := benchOptions{common: foretoken.Request{MaxTokens: 64, Seed: 1}}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure methods against plain decoding",
		Long: "Measure methods against plain decoding, on every prompt of a file.\n\n" +
			"Prompt by prompt each method runs once, and plain decoding before and after every eight of them;\n" +
			"the speedup is taken per prompt in the same run, then averaged. Above temperature 0\n" +
			"each repetition has a seed of its own.\n\n" +
			"A method is a name of foretoken methods, with settings after a colon:\n" +
			"  --methods none,ngram,eagle2:depth=4,top-k=4,nodes=16,mars:temperature=1,name=hot\n" +
			"A setting is any field of a request (--methods x:help=1 lists them); name is what the row is called.\n\n" +
			"Methods marked LOSSY may commit tokens that the target would not have chosen. What that costs is in\n" +
			"the columns same (tokens equal to plain decoding's, up to the first difference and place by place),\n" +
			"loss (the target's own, nats a token) and parses: the share of outputs that go/parser accepts after\n" +
			"their prompt, without an error before the last line. A prompt cut out of a file gets the fewest\n" +
			"block openings before it that make it parse; one that none makes parse is not judged.",
		Example: "  foretoken bench --prompts prompts.jsonl --per-category 4\n" +
			"  foretoken bench --prompts prompts.jsonl --suite papers/mars --resume cells.jsonl --json mars.json\n" +
			"  foretoken bench --prompts prompts.jsonl --compare before.json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.list {
				return listSuites(c)
			}
			if err := o.complete(cmd.Flags()); err != nil {
				return err
			}
			if o.profiled {
				return o.profile(cmd.Context(), c)
			}
			return o.run(cmd.Context(), c)
		},
	}
	cmd.AddCommand(verifyCostCommand(c))
	f := cmd.Flags()
	f.SortFlags = false
	o.models.flags(f)
	f.StringArrayVar(&o.methods, "methods", nil, "what to measure; may be given several times (default "+benchMethods+")")
	f.StringSliceVar(&o.suites, "suite", nil, "a prepared comparison: papers, or one of its tables such as papers/mars")
	f.BoolVar(&o.list, "list", false, "list the suites")
	f.StringVar(&o.prompts, "prompts", "", "file with one JSON object a line: {\"id\": …, \"prompt\": …, \"category\": …}; without a category it is the id up to its last dash")
	f.IntVar(&o.perCategory, "per-category", 0, "only the first so many prompts of each category")
	f.IntVar(&o.limit, "limit", 0, "only so many prompts, taken evenly from the categories")
	f.IntVar(&o.common.MaxTokens, "max-tokens", o.common.MaxTokens, "tokens to produce for each prompt; 0: until the context is full")
	f.Float64Var(&o.common.Temperature, "temperature", 0, "of methods that do not set their own")
	f.Uint64Var(&o.common.Seed, "seed", o.common.Seed, "of the first repetition")
	f.IntVar(&o.repeat, "repeat", 3, "repetitions; suites have their own numbers, 1 where they only count")
	f.BoolVar(&o.noScore, "no-score", false, "leave out the target's loss on the outputs")
	f.StringVar(&o.json, "json", "", "write the report to this file")
	f.StringVar(&o.csv, "csv", "", "write one line per method and category to this file")
	f.StringVar(&o.resume, "resume", "", "keep finished cells in this file and do not measure again what it has")
	f.StringVar(&o.compare, "compare", "", "compare with a report that --json wrote; differences beyond both standard deviations are flagged")
	f.IntVar(&o.models.nodes, "max-nodes", 64, "largest tree that can be verified; MARS's tables use up to 711")
	f.BoolVar(&o.profiled, "profile", false, "tell where time goes instead: kernel by kernel of a plain step, a verification and the draft's passes, and by phase, with submits, readbacks, bytes, creations and allocations, for rounds of the methods on the first prompt")
	f.IntVar(&o.rows, "rows", 8, "with --profile: rows of the verification")
	f.IntVar(&o.beams, "beams", 1, "with --profile: beams of a level of the draft")
	f.StringVar(&o.artefacts, "artefacts", "", "folder with the classifiers and calibrations that only some rows of a suite need")
	return cmd
}

func listSuites(c *console) error {
	groups, err := foretoken.BenchSuite("papers", foretoken.SuiteOptions{})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c.out, "papers: all of"); err != nil {
		return err
	}
	for _, g := range groups {
		if _, err := fmt.Fprintf(c.out, "  %s: %s (%d rows)\n", g.Name, g.Title, len(g.Methods)); err != nil {
			return err
		}
	}
	return nil
}

// complete checks the flags, before anything large is opened.
func (o *benchOptions) complete(given *pflag.FlagSet) error {
	if err := o.models.check(); err != nil {
		return err
	}
	for _, n := range []struct {
		flag         string
		value, least int
	}{{"per-category", o.perCategory, 1}, {"limit", o.limit, 1}, {"max-tokens", o.common.MaxTokens, 0}, {"repeat", o.repeat, 1}, {"max-nodes", o.models.nodes, 2}, {"rows", o.rows, 1}, {"beams", o.beams, 1}, {"context", o.models.context, 1}} {
		if given.Changed(n.flag) && n.value < n.least {
			return usagef("--%s is %d, want %d or more", n.flag, n.value, n.least)
		}
	}
	for _, s := range []struct{ flag, value string }{{"prompts", o.prompts}, {"json", o.json}, {"csv", o.csv}, {"resume", o.resume}, {"compare", o.compare}, {"artefacts", o.artefacts}} {
		if given.Changed(s.flag) && s.value == "" {
			return usagef("--%s is empty, want a file name", s.flag)
		}
	}
	if o.prompts == "" && !o.profiled {
		return usagef("no prompts: give --prompts with a file of one JSON object a line")
	}
	if err := o.completeProfile(given); err != nil {
		return err
	}
	o.repeatGiven, o.methodsGiven = given.Changed("repeat"), given.Changed("methods")
	if len(o.suites) > 0 && given.Changed("temperature") {
		return usagef("--temperature and --suite exclude each other: the tables of a suite have their own temperatures")
	}
	for _, s := range o.suites {
		if names := foretoken.SuiteNames(); !slices.Contains(names, s) {
			return usagef("--suite is %q, want %s", s, orList(names))
		}
	}
	if !o.methodsGiven && len(o.suites) == 0 && !o.profiled {
		o.methods = []string{benchMethods}
		if !o.models.drafts() {
			o.methods = []string{"none,ngram"}
		}
	}
	if len(o.methods) > 0 {
		var err error
		if o.perMethod, err = foretoken.ParseBenchMethods(strings.Join(o.methods, ","), o.common); err != nil {
			return usagef("--methods: %s", oneLine(err.Error()))
		}
	}
	o.models.useHead = slices.ContainsFunc(o.perMethod, func(m foretoken.BenchMethod) bool { return m.Request.NeedsHead() }) ||
		slices.ContainsFunc(o.suites, func(s string) bool { return s == "papers" || s == "papers/eagle3" })
	for _, path := range []string{o.json, o.csv, o.resume} {
		if path == "" {
			continue
		}
		if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
			return fmt.Errorf("%s: there is no folder %s to write it to", path, filepath.Dir(path))
		}
	}
	if o.artefacts != "" {
		if dir, err := os.Stat(o.artefacts); err != nil || !dir.IsDir() {
			return fmt.Errorf("--artefacts: %s is no folder", o.artefacts)
		}
	}
	if o.compare != "" {
		var err error
		if o.old, err = readReport(o.compare); err != nil {
			return err
		}
	}
	return nil
}

// choosePrompts takes the first of each category, evenly.
func choosePrompts(all []prompt, perCategory, limit int) []foretoken.BenchPrompt {
	var order []string
	by := map[string][]foretoken.BenchPrompt{}
	for _, p := range all {
		if len(by[p.Category]) == 0 {
			order = append(order, p.Category)
		}
		if perCategory == 0 || len(by[p.Category]) < perCategory {
			by[p.Category] = append(by[p.Category], foretoken.BenchPrompt{ID: p.ID, Category: p.Category, Prompt: p.Prompt})
		}
	}
	var chosen []foretoken.BenchPrompt
	for i := 0; ; i++ {
		more := false
		for _, c := range order {
			if i < len(by[c]) && (limit == 0 || len(chosen) < limit) {
				chosen = append(chosen, by[c][i])
				more = true
			}
		}
		if !more {
			return chosen
		}
	}
}

// benchRun is a benchmark under way.
type benchRun struct {
	*benchOptions
	c       *console
	groups  []foretoken.BenchGroup
	plan    foretoken.BenchPlan
	cells   []foretoken.BenchCell
	missing []foretoken.BenchMissing
	done    int
	total   int
}

func (o *benchOptions) run(ctx context.Context, c *console) error {
	all, err := readPrompts(o.prompts)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p.ID] {
			return fmt.Errorf("%s: two prompts have the id %s", o.prompts, printable(p.ID))
		}
		seen[p.ID] = true
	}
	r := &benchRun{benchOptions: o, c: c}
	r.plan = foretoken.BenchPlan{Repeat: o.repeat, Prompts: choosePrompts(all, o.perCategory, o.limit), NoScore: o.noScore, Parse: newGoParser().parse}
	var store *cellStore
	if o.resume != "" {
		if store, err = openCells(o.resume); err != nil {
			return err
		}
		defer store.close()
		r.plan.Finished = store.finished
	}
	s, err := openSession(ctx, c, &o.models)
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
	defer s.close()
	if err := r.choose(s); err != nil {
		return err
	}
	err = r.measure(ctx, s, store)
	report := foretoken.Summarise(r.cells)
	report.Device, report.Target, report.Draft = s.describe()
	report.Note, report.Missing = r.settings(), r.missing
	if err != nil && ctx.Err() == nil {
		return err
	}
	if len(r.cells) > 0 {
		if err := r.print(&report); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		how := "--resume would have kept them"
		if store != nil {
			how = "the same command goes on from there"
		}
		return fmt.Errorf("%w after %d of %d cells; %s", errInterrupted, r.done, r.total, how)
	}
	return r.write(&report)
}

// describe names device and models for people.
func (s *session) describe() (device, target, draft string) {
	i := s.Info()
	device = i.Device.Backend + ", " + i.Device.Adapter
	target = fmt.Sprintf("%s %s", i.Target.File, i.Target.Quant)
	if i.Draft != nil {
		draft = fmt.Sprintf("%s %s", i.Draft.File, i.Draft.Quant)
	}
	return device, target, draft
}

// settings are what holds for all rows.
func (r *benchRun) settings() string {
	length := fmt.Sprintf("%d tokens each", r.common.MaxTokens)
	if r.common.MaxTokens == 0 {
		length = "to the end of the context"
	}
	return fmt.Sprintf("%d prompts, %s, seed %d", len(r.plan.Prompts), length, r.common.Seed)
}

// choose puts the methods in the plan.
func (r *benchRun) choose(s *session) error {
	var categories []string
	for _, p := range r.plan.Prompts {
		if !slices.Contains(categories, p.Category) {
			categories = append(categories, p.Category)
		}
	}
	o := foretoken.SuiteOptions{Common: r.common, MaxNodes: s.MaxNodes(), Pair: s.Fingerprint(), Artefact: artefacts(r.artefacts), Categories: categories}
	if r.repeatGiven {
		o.Repeat = r.repeat
	}
	for _, name := range r.suites {
		groups, err := foretoken.BenchSuite(name, o)
		if err != nil {
			return err
		}
		for _, g := range groups {
			if !slices.ContainsFunc(r.groups, func(known foretoken.BenchGroup) bool { return known.Name == g.Name }) {
				r.groups = append(r.groups, g)
			}
		}
	}
	every := r.groups
	if len(r.perMethod) > 0 {
		every = append([]foretoken.BenchGroup{{Name: "methods", Methods: r.perMethod}}, r.groups...)
	}
	var err error
	r.plan.Methods, err = foretoken.MethodsOf(every)
	r.plan.Fingerprint = s.BenchFingerprint()
	own := map[string]bool{}
	for _, m := range r.perMethod {
		own[m.Name] = true
	}
	r.plan.Problem = func(method, prompt string, err error) error {
		reason := oneLine(err.Error())
		if prompt != "" {
			reason = "on prompt " + printable(prompt) + ": " + reason
		}
		if own[method] || len(r.groups) == 0 {
			return fmt.Errorf("method %s: %s", method, reason)
		}
		r.missing = append(r.missing, foretoken.BenchMissing{Method: method, Reason: reason})
		return nil
	}
	return err
}

// measure runs the plan with a progress bar and keeps the cells.
func (r *benchRun) measure(ctx context.Context, s *session, store *cellStore) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var bar bar
	defer bar.clear()
	r.plan.Progress = func(done, total int) {
		r.done, r.total = done, total
		if !r.c.errTerminal {
			return
		}
		if bar.p == nil {
			bar.p = progressbar.NewOptions(total, append(look(r.c), progressbar.OptionSetDescription("cells"), progressbar.OptionShowCount(),
				progressbar.OptionSetPredictTime(true))...)
		}
		bar.set(done)
	}
	err := foretoken.RunBench(ctx, s, r.plan, func(cell foretoken.BenchCell) {
		r.cells = append(r.cells, cell)
		if store == nil || cell.Resumed {
			return
		}
		if err := store.keep(&cell); err != nil {
			stop(fmt.Errorf("keeping a cell: %w", err))
		}
	})
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// write makes the files that were asked for.
func (r *benchRun) write(report *foretoken.BenchReport) error {
	if r.json != "" {
		b, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return err
		}
		if err := writeReport(r.json, append(b, '\n')); err != nil {
			return err
		}
	}
	if r.csv != "" {
		var b bytes.Buffer
		if err := writeCSV(&b, report); err != nil {
			return err
		}
		return writeReport(r.csv, b.Bytes())
	}
	return nil
}

// lossyMark follows the name of every lossy method.
const lossyMark = " (LOSSY)"

var _ foretoken.BenchSession = (*session)(nil)
