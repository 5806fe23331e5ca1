//go:build !js

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"foretoken"
	"foretoken/bench"
	"foretoken/fit"
	"foretoken/internal/gocheck"
	"foretoken/internal/quote"
	"foretoken/spec"
)

type benchOptions struct {
	models      modelOptions
	common      foretoken.Request
	methods     []string
	suites      []string
	files       []*bench.SuiteFile // of --suite
	list        bool
	prompts     string
	perCategory int
	limit       int
	repeat      int
	noScore     bool
	json, csv   string
	resume      string
	artefacts   string
	modelFolder string   // of models that a suite's pairs name
	pairs       []string // of suites; empty: all
	quick       bool
	seeds       int
	overPairs   bool // the suites run on their own pairs
	profiled    bool
	rows, beams int            // of --profile
	perMethod   []bench.Method // of --methods
	repeatGiven bool
	tokensGiven bool
}

// benchMethods are compared by default.
const benchMethods = "none,ngram,chain,eagle2:depth=4,top-k=4,nodes=16,auto"

func benchCommand(c *console) *cobra.Command {
	o := benchOptions{common: foretoken.Request{MaxTokens: 64, Seed: 1}}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure methods against plain decoding",
		Long: "Measure methods against plain decoding, on every prompt of a file.\n\n" +
			"Each method runs once on each prompt, and plain decoding before and after every eight of them;\n" +
			"the speedup is computed per prompt in the same run, then averaged. Above temperature 0\n" +
			"each repetition has a seed of its own.\n\n" +
			"A method is a name that foretoken methods lists, with settings after a colon:\n" +
			"  --methods none,ngram,eagle2:depth=4,top-k=4,nodes=16,mars:temperature=1,name=hot\n" +
			"A setting is any field of a request (--methods x:help=1 lists them); name names the row, against\n" +
			"the one it is compared with. Ratios have intervals of 95 %, a bootstrap over prompts, from five\n" +
			"prompts on.\n\n" +
			"Methods marked LOSSY may commit tokens that the target would not have chosen. These columns show\n" +
			"the cost, counts as k/n with an interval of 95 %:\n" +
			"  same         tokens equal to plain decoding's, up to the first difference and position by position\n" +
			"  edits        the edit distance to plain decoding's output, in per cent of the longer one's tokens\n" +
			"  exact        outputs equal to plain decoding's\n" +
			"  loss         the target's, in nats per token\n" +
			"  parses       outputs that go/parser accepts after their prompt, without an error before the last\n" +
			"               line. A prompt cut out of a file gets the fewest block openings before it that make it\n" +
			"               parse; a prompt that never parses does not count\n" +
			"  type-checks  outputs whose completed functions go/types accepts, of those that parse and complete\n" +
			"               one. Packages of the standard library are imported where a name needs them; names that\n" +
			"               the prompt or a signature uses may be declared in the rest of the file. It needs the\n" +
			"               source of the standard library",
		Example: "  foretoken bench --prompts prompts.jsonl --per-category 4\n" +
			"  foretoken bench --prompts prompts.jsonl --suite papers/mars --resume cells.jsonl --json mars.json",
		Args: flagsOnly,
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
			if o.overPairs {
				return o.runPairs(cmd.Context(), c)
			}
			return o.run(cmd.Context(), c)
		},
	}
	cmd.AddCommand(verifyCostCommand(c))
	f := cmd.Flags()
	o.models.flags(f)
	f.StringArrayVar(&o.methods, "methods", nil,
		"what to measure; may be given several times (default "+benchMethods+")")
	f.StringSliceVar(&o.suites, "suite", nil, "a prepared comparison: papers, one of its "+
		"files or tables such as papers/mars, or a file that ends in .json")
	f.BoolVar(&o.list, "list", false, "list the suites")
	f.StringVar(&o.prompts, "prompts", "", "file with one JSON object per line: {\"id\": …, \"prompt\": "+
		"…, \"category\": …}; the category defaults to the id up to its last dash")
	f.IntVar(&o.perCategory, "per-category", 0, "use only the first N prompts of each category")
	f.IntVar(&o.limit, "limit", 0, "use at most N prompts, taken evenly from the categories")
	f.IntVar(&o.common.MaxTokens, "max-tokens", o.common.MaxTokens,
		"tokens to produce for each prompt; 0: until the context is full; tables of suites may have their own")
	f.Float64Var(&o.common.Temperature, "temperature", 0, "temperature of methods that do not set their own")
	f.Uint64Var(&o.common.Seed, "seed", o.common.Seed, "seed of the first repetition")
	f.IntVar(&o.repeat, "repeat", 3, "repetitions; suites have their own numbers, 1 where they only count")
	f.BoolVar(&o.noScore, "no-score", false, "do not compute the target's loss on the outputs")
	f.StringVar(&o.json, "json", "", "write the report to this file")
	f.StringVar(&o.csv, "csv", "", "write one line per method and category to this file")
	f.StringVar(&o.resume, "resume", "", "keep finished cells in this file and skip those already in it")
	f.IntVar(&o.models.nodes, "max-nodes", 64, "largest tree that can be verified, or more where a "+
		"suite has larger ones")
	f.IntVar(&o.models.beams, "max-beams", 16, "widest level of a drafted tree and most candidates of a node, at most "+
		"64, or more where a suite has wider ones")
	f.BoolVar(&o.profiled, "profile", false, "print where time goes instead: by kernel for a plain step, "+
		"a verification and the draft's passes, and by phase for rounds of the methods on the first prompt, "+
		"with submits, readbacks, bytes, creations and allocations")
	f.IntVar(&o.rows, "rows", 8, "with --profile: rows of the verification")
	f.IntVar(&o.beams, "beams", 1, "with --profile: beams per level of the draft")
	f.StringVar(&o.artefacts, "artefacts", "",
		"folder with the classifiers and calibrations that only some rows of a suite need")
	f.StringVar(&o.modelFolder, "models", "build/testmodels", "folder with the models that the pairs of a suite name")
	f.StringSliceVar(&o.pairs, "pairs", nil, "the pairs of a suite to run on (default all that it names)")
	f.IntVar(&o.seeds, "seeds", bench.FullSizes.Seeds, "with a suite's pairs: most seeds of a row above temperature 0")
	f.BoolVar(&o.quick, "quick", false, "with a suite's pairs: a few short prompts, no times and nothing fitted, "+
		"which decides nothing")
	return cmd
}

func listSuites(c *console) error {
	all, err := bench.Suites()
	if err != nil {
		return err
	}
	p := &benchPrinter{out: c.out}
	p.line("papers: all of")
	for _, f := range all {
		groups, err := f.Groups("", bench.SuiteOptions{Categories: []string{"CATEGORY"}})
		if err != nil {
			return err
		}
		p.line("%s: %s", f.Name(), f.Title)
		for _, g := range groups {
			p.line("  %s: %s (%d rows)", g.Name, g.Title, len(g.Methods))
		}
	}
	return p.err
}

// complete checks the flags before anything large is opened.
func (o *benchOptions) complete(given *pflag.FlagSet) error {
	if err := cmp.Or(o.models.check(), checkMinimums(given, []minimum{{"per-category", o.perCategory, 1},
		{"limit", o.limit, 1}, {"repeat", o.repeat, 1}, {"seeds", o.seeds, 1}, {"rows", o.rows, 1},
		{"max-nodes", o.models.nodes, 2}, {"max-beams", o.models.beams, 1}, {"beams", o.beams, 1},
		{"context", o.models.context, 1}}),
		want("max-beams", o.models.beams, o.models.beams <= spec.MaxTopK, fmt.Sprint("at most ", spec.MaxTopK)),
		checkFileNames(given, "prompts", "json", "csv", "resume", "artefacts"),
		asUsage(spec.CheckSettings(foretoken.Settings(), &o.common))); err != nil {
		return err
	}
	for _, name := range o.suites {
		found, err := bench.FindSuite(name)
		if err != nil {
			return usagef("--suite: %s", oneLine(err.Error()))
		}
		o.files = append(o.files, found...)
	}
	if o.overPairs = o.ofPairs(given); !o.overPairs && (o.quick || given.Changed("seeds") || len(o.pairs) > 0) {
		return usagef("--quick, --seeds and --pairs are for suites on their own pairs: give --suite, and no " +
			"models or methods")
	}
	if o.prompts == "" && !o.profiled && !o.overPairs {
		return usagef("no prompts: give --prompts with a file of one JSON object a line")
	}
	if err := o.completeProfile(given); err != nil {
		return err
	}
	o.repeatGiven, o.tokensGiven = given.Changed("repeat"), given.Changed("max-tokens")
	if len(o.suites) > 0 && given.Changed("temperature") {
		return usagef("--temperature and --suite exclude each other: the tables of a suite have their own temperatures")
	}
	if !given.Changed("methods") && len(o.suites) == 0 && !o.profiled {
		o.methods = []string{benchMethods}
		if !o.models.hasDraft() {
			o.methods = []string{"none,ngram"}
		}
	}
	if len(o.methods) > 0 {
		var err error
		if o.perMethod, err = bench.ParseMethods(strings.Join(o.methods, ","), o.common); err != nil {
			return usagef("--methods: %s", oneLine(err.Error()))
		}
	}
	needs := func(m bench.Method) bool { return m.Request.NeedsHead() }
	o.models.useHead = slices.ContainsFunc(o.perMethod, needs) || // bound: methods and suites of a command
		slices.ContainsFunc(o.files, (*bench.SuiteFile).NeedsHead) // bound: methods and suites of a command
	for _, f := range o.files {
		if !given.Changed("max-nodes") {
			o.models.nodes = max(o.models.nodes, f.Nodes)
		}
		if !given.Changed("max-beams") {
			o.models.beams = max(o.models.beams, f.Beams)
		}
	}
	if err := checkFolders(o.json, o.csv, o.resume); err != nil {
		return err
	}
	if o.artefacts != "" {
		if dir, err := os.Stat(o.artefacts); err != nil || !dir.IsDir() {
			return fmt.Errorf("--artefacts: %s is no folder", o.artefacts)
		}
	}
	return nil
}

// choosePrompts takes prompts evenly from the categories, the first ones of each.
func choosePrompts(all []prompt, perCategory, limit int) []bench.Prompt {
	var order []string
	by := map[string][]bench.Prompt{}
	for _, p := range all {
		if len(by[p.Category]) == 0 {
			order = append(order, p.Category)
		}
		if perCategory == 0 || len(by[p.Category]) < perCategory {
			by[p.Category] = append(by[p.Category], p)
		}
	}
	var chosen []bench.Prompt
	for i := range all {
		for _, c := range order {
			if i < len(by[c]) && (limit == 0 || len(chosen) < limit) {
				chosen = append(chosen, by[c][i])
			}
		}
	}
	return chosen
}

type benchRun struct {
	*benchOptions
	c       *console
	groups  []bench.Group
	matrix  bench.Matrix
	cells   []bench.Cell
	missing []bench.Missing
	done    int
	total   int
}

// distinctPrompts reads prompts whose ids, by which cells are kept, differ.
func distinctPrompts(file string) ([]prompt, error) {
	all, err := readPrompts(file)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range all {
		if seen[p.ID] {
			return nil, fmt.Errorf("%s: two prompts have the id %s", file, quote.Name(p.ID))
		}
		seen[p.ID] = true
	}
	return all, nil
}

// journal opens the file of finished cells; nil without --resume.
func (o *benchOptions) journal() (*fit.Journal, error) {
	if o.resume == "" {
		return nil, nil
	}
	return fit.OpenJournal(o.resume, "cells of foretoken bench")
}

func (o *benchOptions) run(ctx context.Context, c *console) error {
	all, err := distinctPrompts(o.prompts)
	if err != nil {
		return err
	}
	r := &benchRun{benchOptions: o, c: c}
	r.matrix = bench.Matrix{Repeat: o.repeat, Prompts: choosePrompts(all, o.perCategory, o.limit), NoScore: o.noScore,
		Judge: judge()}
	store, err := o.journal()
	if err != nil {
		return err
	}
	if store != nil {
		defer store.Close()
		r.matrix.Finished = finishedCells(store)
	}
	s, err := openSession(ctx, c, &o.models)
	if err != nil {
		return err
	}
	defer s.close()
	if err := r.choose(s); err != nil {
		return err
	}
	work := func(ctx context.Context, emit func(bench.Cell), progress func(done, total int)) error {
		r.matrix.Progress = progress
		return bench.Run(ctx, s, r.matrix, emit)
	}
	err = r.measure(ctx, store, work, progressbar.OptionSetPredictTime(true))
	report := bench.Summarise(r.cells)
	report.Compare(r.cells, r.against())
	bench.CompareCurves(r.groups, r.cells)
	report.Device, report.Target, report.Draft = bench.Describe(s.Session)
	report.Note, report.Missing = r.settings(), r.missing
	if err != nil && ctx.Err() == nil {
		if m := r.missing; len(r.cells) == 0 && len(m) > 0 && m[0].Method != "" { // none could run: why
			return fmt.Errorf("method %s: %s", m[0].Method, why(m[0]))
		}
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
			how = "the same command continues from there"
		}
		return fmt.Errorf("%w after %d of %d cells; %s", errInterrupted, r.done, r.total, how)
	}
	return r.write(&report)
}

// against returns the baselines of the methods.
func (r *benchRun) against() map[string][]string {
	all := map[string][]string{}
	add := func(method, base string) {
		if base != "" && !slices.Contains(all[method], base) { // bound: tables of the suites
			all[method] = append(all[method], base)
		}
	}
	for _, m := range r.perMethod {
		add(m.Name, m.Against)
	}
	for _, g := range r.groups {
		for method, base := range g.Against {
			add(method, base)
		}
	}
	return all
}

// judge returns a function that parses and type-checks outputs as Go.
func judge() func(prompt, output string) bench.Judgement {
	checker := gocheck.New()
	return func(prompt, output string) bench.Judgement { return bench.Judgement(checker.Output(prompt, output)) }
}

// settings describes the settings that all rows share.
func (r *benchRun) settings() string {
	length := fmt.Sprintf("%d tokens each", r.common.MaxTokens)
	if r.common.MaxTokens == 0 {
		length = "to the end of the context"
	}
	return fmt.Sprintf("%d prompts, %s, seed %d", len(r.matrix.Prompts)-bench.Skipped(r.missing), length, r.common.Seed)
}

// suiteOptions returns the options of suites for the prompts and the models.
func (r *benchRun) suiteOptions(s *session) bench.SuiteOptions {
	var categories []string
	for _, p := range r.matrix.Prompts {
		if !slices.Contains(categories, p.Category) {
			categories = append(categories, p.Category)
		}
	}
	o := bench.SuiteOptions{Common: r.common, MaxNodes: s.MaxNodes(), Pair: s.Fingerprint(),
		Artefact: artefacts(r.artefacts), Categories: categories, Files: map[string]string{"fit": "PROMPTS",
			"artefacts": cmp.Or(r.artefacts, "DIR"), "models": r.modelFolder}}
	if r.repeatGiven {
		o.Repeat = r.repeat
	}
	if r.tokensGiven {
		o.MaxTokens = r.common.MaxTokens
	}
	return o
}

func (r *benchRun) choose(s *session) error {
	o := r.suiteOptions(s)
	for _, f := range r.files {
		groups, err := f.Groups("", o)
		if err != nil {
			return err
		}
		for _, g := range groups {
			same := func(known bench.Group) bool { return known.Name == g.Name }
			if !slices.ContainsFunc(r.groups, same) { // bound: groups
				r.groups = append(r.groups, g)
			}
		}
	}
	return r.chooseRows(s)
}

// chooseRows sets the rows of the chosen tables and methods, and keeps what cannot be measured.
func (r *benchRun) chooseRows(s *session) error {
	every := r.groups
	if len(r.perMethod) > 0 {
		every = append([]bench.Group{{Name: "methods", Methods: r.perMethod}}, r.groups...)
	}
	var err error
	r.matrix.Methods, err = bench.MethodsOf(every)
	r.matrix.Fingerprint = bench.Fingerprint(s.Session)
	r.matrix.Problem = func(method, prompt string, err error) error {
		r.missing = append(r.missing, bench.Missing{Method: method, Prompt: prompt, Reason: oneLine(err.Error())})
		return nil
	}
	return err
}

// finishedCells returns a function that finds a cell by its key. One that cannot be is measured again.
func finishedCells(j *fit.Journal) func(key string) (bench.Cell, bool) {
	return func(key string) (cell bench.Cell, ok bool) {
		ok, err := j.Get(key, &cell)
		return cell, ok && err == nil && cell.Validate() == nil
	}
}

// measurement emits every cell that it measures, and tells its progress.
type measurement func(ctx context.Context, emit func(bench.Cell), progress func(done, total int)) error

// measure runs work with a progress bar and keeps its cells, also in the journal if there is one.
func (r *benchRun) measure(ctx context.Context, store *fit.Journal, work measurement,
	options ...progressbar.Option) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var bar bar
	defer bar.clear()
	show := bar.counting(r.c, "cells", options...)
	err := work(ctx, func(cell bench.Cell) {
		r.cells = append(r.cells, cell)
		if store == nil || cell.Resumed {
			return
		}
		if err := store.Add(cell.Key, &cell); err != nil {
			stop(fmt.Errorf("keeping a cell: %w", err))
		}
	}, func(done, total int) {
		r.done, r.total = done, total
		show(done, total)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

func (r *benchRun) write(report *bench.Report) error {
	if err := writeJSON(r.json, report); err != nil {
		return err
	}
	if r.csv != "" {
		var b bytes.Buffer
		if err := writeCSV(&b, report); err != nil {
			return err
		}
		return replaceFile(r.csv, b.Bytes())
	}
	return nil
}

// artefacts returns a function that reads files of a folder; the folder "" is empty.
func artefacts(folder string) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if folder == "" {
			return nil, fs.ErrNotExist
		}
		return fs.ReadFile(os.DirFS(folder), name)
	}
}

// lossyMark follows the name of every lossy method.
const lossyMark = " (LOSSY)"

var _ bench.Session = (*session)(nil)
