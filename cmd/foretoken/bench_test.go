//go:build !js

package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"foretoken/bench"
)

// benchPrompts is a file of three prompts in two categories.
func benchPrompts(t *testing.T) string {
	t.Helper()
	return write(t, "prompts.jsonl",
		[]byte(`{"id": "x-0", "category": "loop", "prompt": "package p\n\nfunc f() {\n\tfor i := 0; i < n; i++ {\n"}
{"id": "loop-1", "prompt": "package p\n\nfunc g() {\n"}
{"id": "text-0", "prompt": "x x x ) ) )\n"}
`))
}

// runBench measures three methods on the first prompt of each category, on the cpu device.
func runBench(t *testing.T, args ...string) outcome {
	t.Helper()
	return call(t, "", append([]string{"bench", "--device", "cpu", "--max-tokens", "5", "--per-category", "1",
		"--repeat", "2"}, args...)...)
}

const threeMethods = "none,chain:depth=2,mars:depth=1,top-k=2,nodes=4"

// TestBenchEndToEnd measures, writes files, is killed and resumes.
func TestBenchEndToEnd(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	prompts := benchPrompts(t)
	args := []string{"--prompts", prompts, "--methods", threeMethods, "--resume", in("cells.jsonl"), "--json",
		in("report.json"), "--csv", in("report.csv")}
	o := runBench(t, args...)
	if o.code != exitOK || o.err != "" {
		t.Fatalf("code %d: %s", o.code, o.err)
	}
	for _, want := range []string{"mars:depth=1,top-k=2,nodes=4 (LOSSY)", "2 prompts, 5 tokens each", "speedup", "loop",
		"text", "same prefix %", "edits %", "exact", "loss", "parses"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	if strings.Contains(o.out, "chain:depth=2 (LOSSY)") || strings.Contains(o.out, "\x1b") {
		t.Errorf("output\n%s", o.out)
	}
	report, err := readReport(in("report.json"))
	if err != nil {
		t.Fatal(err)
	}
	chain, plain := report.Row("chain:depth=2", ""), report.Row("none", "")
	if chain == nil || plain == nil || report.Row("chain:depth=2", "loop") == nil || len(report.Rows) != 9 {
		t.Fatalf("rows %+v", report.Rows)
	}
	if chain.SamePlace.Mean != 1 || chain.SamePrefix.Mean != 1 || chain.Prompts != 2 || chain.Speedup.N != 2 ||
		chain.Speedup.Mean <= 0 || chain.Calls.Mean >= plain.Calls.Mean ||
		chain.Loss != plain.Loss || chain.Loss.N != 2 || chain.Parses.N != 1 || chain.Exact.K != 2 ||
		chain.Exact.N != 2 || chain.Edits.Mean != 0 || plain.AcceptanceLength.Mean != 1 ||
		plain.Calls.Mean != plain.Output.Mean {
		t.Errorf("chain %+v\nplain %+v", chain, plain)
	}

	// The CSV has the same numbers.
	b, err := os.ReadFile(in("report.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil || len(lines) != 10 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	for _, line := range lines[1:] {
		category := line[column["category"]]
		if category == "all" {
			category = ""
		}
		row := report.Row(line[column["method"]], category)
		if row == nil || line[column["lossy"]] != strconv.FormatBool(row.Lossy) {
			t.Fatalf("line %v", line)
		}
		text, err := json.Marshal(row)
		var fields map[string]json.RawMessage
		if err != nil || json.Unmarshal(text, &fields) != nil {
			t.Fatalf("row %s: %v", row.Method, err)
		}
		measures, counts := 0, 0
		for name, field := range fields {
			var p bench.Proportion
			if of, ok := column[name+"_of"]; ok && json.Unmarshal(field, &p) == nil {
				counts++
				got := []string{line[column[name]], line[of], line[column[name+"_low"]], line[column[name+"_high"]]}
				want := []string{fmt.Sprint(p.K), fmt.Sprint(p.N), fmt.Sprint(p.Low), fmt.Sprint(p.High)}
				if p.N == 0 {
					want = []string{"", "", "", ""}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s of %s: %q, want %q", name, row.Method, got, want)
				}
			}
			var want bench.Measure
			if _, ok := column[name+"_sd"]; !ok || json.Unmarshal(field, &want) != nil {
				continue
			}
			measures++
			if want.N == 0 {
				if line[column[name]] != "" {
					t.Errorf("%s: %q where nothing was measured", name, line[column[name]])
				}
				continue
			}
			mean, err := strconv.ParseFloat(line[column[name]], 64)
			sd, errSD := strconv.ParseFloat(line[column[name+"_sd"]], 64)
			if err != nil || errSD != nil || mean != want.Mean || sd != want.SD {
				t.Errorf("%s of %s: %v ±%v, want %+v (%v, %v)", name, row.Method, mean, sd, want, err, errSD)
			}
		}
		if measures != 20 || counts != 3 {
			t.Errorf("%d columns have a deviation and %d an interval", measures, counts)
		}
	}

	// Killed during its sixth cell, it measures that cell and the later ones again, and no more.
	cells, err := os.ReadFile(in("cells.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.SplitAfter(cells, []byte("\n"))
	if len(all) != 14 || len(all[13]) != 0 { // the first line is the journal's
		t.Fatalf("%d cells", len(all)-2)
	}
	kept := bytes.Join(all[:6], nil)
	if err := os.WriteFile(in("cells.jsonl"), append(bytes.Clone(kept), all[6][:len(all[6])/2]...), 0o644); err != nil {
		t.Fatal(err)
	}
	if o := runBench(t, args...); o.code != exitOK {
		t.Fatalf("after a kill: code %d: %s", o.code, o.err)
	}
	again, err := os.ReadFile(in("cells.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(again, kept) || bytes.Count(again, []byte("\n")) != 13 {
		t.Errorf("%d lines, and the first six are the same: %v", bytes.Count(again, []byte("\n")),
			bytes.HasPrefix(again, kept))
	}
	second, err := readReport(in("report.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range second.Rows {
		if a, b := second.Rows[i], report.Rows[i]; a.Calls != b.Calls || a.Tokens != b.Tokens || a.Loss != b.Loss ||
			a.Speedup.N != b.Speedup.N {
			t.Errorf("%s %s: %+v, want %+v", a.Method, a.Category, a, b)
		}
	}
	// With all cells in the file it measures nothing, and the report is bit-equal.
	if o := runBench(t, args...); o.code != exitOK {
		t.Fatalf("with all cells: code %d: %s", o.code, o.err)
	}
	if now, err := os.ReadFile(in("cells.jsonl")); err != nil || !bytes.Equal(now, again) {
		t.Errorf("cells were measured again: %v", err)
	}
	third, err := readReport(in("report.json"))
	if err != nil || !reflect.DeepEqual(third, second) {
		t.Errorf("the report changed: %v", err)
	}
}

func TestBenchSuiteShowsWhatIsMissing(t *testing.T) {
	o := runBench(t, "--prompts", benchPrompts(t), "--limit", "1", "--repeat", "1", "--max-tokens", "3", "--suite",
		"papers/c2t-transfer", "--methods", "ngram")
	for _, want := range []string{"ngram", "papers/c2t-transfer", "MISSING c2t without loop: " +
		"needs the file c2t-without-loop.json", "MISSING c2t moved from another pair", "train c2t"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s%s", want, o.out, o.err)
		}
	}
	if o.code != exitOK {
		t.Errorf("code %d: %s", o.code, o.err)
	}
}

// TestBenchGoesOnWithoutARow: a row that cannot run is missing, and the others are measured.
func TestBenchGoesOnWithoutARow(t *testing.T) {
	prompts := benchPrompts(t)
	without := "hetero:depth=3,temperature=1"
	o := runBench(t, "--prompts", prompts, "--limit", "1", "--repeat", "1", "--max-tokens", "3", "--methods",
		"ngram,"+without)
	if o.code != exitOK || strings.Count(o.out, "MISSING "+without+": ") != 1 || !strings.Contains(o.out, "  ngram  ") {
		t.Errorf("code %d: %s%s", o.code, o.out, o.err)
	}
	oneError(t, "no row runs", runBench(t, "--prompts", prompts, "--methods", without), exitError, "calibrate hetero")
}

func TestBenchSkipsPromptsThatAreTooLong(t *testing.T) {
	prompts := write(t, "prompts.jsonl", []byte(`{"id": "long-0", "prompt": "`+strings.Repeat("x ", 600)+`"}
{"id": "short-0", "prompt": "package p\n\nfunc f() {\n"}
`))
	report := filepath.Join(t.TempDir(), "report.json")
	o := runBench(t, "--prompts", prompts, "--methods", "none", "--context", "64", "--json", report)
	if o.code != exitOK {
		t.Fatalf("code %d: %s", o.code, o.err)
	}
	for _, want := range []string{"1 prompts, 5 tokens", "SKIPPED prompt long-0: ", "context holds 64", "short"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	if r, err := readReport(report); err != nil || len(r.Missing) != 1 || r.Missing[0].Prompt != "long-0" {
		t.Errorf("report %+v, %v", r, err)
	}
}

func TestBenchInterruptedSaysHowToGoOn(t *testing.T) {
	var out, errs bytes.Buffer
	ctx, stop := context.WithCancel(context.Background())
	stop()
	code := run(ctx, &console{in: strings.NewReader(""), out: &out, err: &errs},
		[]string{"bench", "--device", "cpu", "--prompts", benchPrompts(t), "--methods", "ngram"})
	oneError(t, "interrupted", outcome{code, out.String(), errs.String()}, exitInterrupted, "interrupted")
}

func TestBenchWrongUse(t *testing.T) {
	prompts := benchPrompts(t)
	for _, bad := range []struct {
		args string
		want string
	}{
		{"--methods magic", `unknown method "magic"`},
		{"--methods chain:depth=x", "depth is"},
		{"--methods chain:colour=red", "no setting"},
		{"--methods depth=3", "before any method"},
		{"--methods chain,ngram:against=tree", "is compared with tree, which is no method"},
		{"--methods eagle2:verifier=rejection", "rejection verifier needs tokens sampled"},
		{"--suite papers/nothing", "unknown suite"},
		{"--suite nothing.json", "nothing.json"},
		{"--suite papers --temperature 1", "exclude each other"},
		{"--repeat 0", "--repeat is 0"},
		{"--limit 0", "--limit is 0"},
		{"--per-category -1", "--per-category is -1"},
		{"--max-tokens -1", "--max-tokens is -1"},
		{"--max-nodes 1", "--max-nodes is 1"},
		{"--temperature -1", "temperature is -1"},
		{"--device abacus", "--device is"},
		{"--kv f8", "--kv is"},
		{"--json=", "--json is empty"},
		{"stray", "stray"},
		{"--nonsense", "--nonsense"},
	} {
		oneError(t, bad.args, call(t, "",
			append([]string{"bench", "--prompts", prompts}, strings.Fields(bad.args)...)...), exitUsage, bad.want)
	}
	oneError(t, "no prompts", call(t, "", "bench"), exitUsage, "--prompts")
	nowhere := filepath.Join(t.TempDir(), "no", "file.json")
	twice := write(t, "twice.jsonl", []byte(`{"id": "a", "prompt": "x"}`+"\n"+`{"id": "a", "prompt": "y"}`))
	for name, args := range map[string][]string{
		"no folder":      {"--prompts", prompts, "--json", nowhere},
		"no prompt file": {"--prompts", nowhere},
		"no artefacts":   {"--prompts", prompts, "--artefacts", nowhere},
		"an id twice":    {"--prompts", twice},
		"no cells":       {"--prompts", prompts, "--resume", prompts},
		"no calibration": {"--device", "cpu", "--prompts", prompts, "--calibration", prompts},
	} {
		oneError(t, name, call(t, "", append([]string{"bench"}, args...)...), exitError, args[len(args)-1][:3])
	}
	if b, err := os.ReadFile(prompts); err != nil || bytes.Count(b, []byte("\n")) != 3 {
		t.Errorf("--resume changed a file of something else: %v", err)
	}
	if o := call(t, "", "bench", "--list"); o.code != exitOK || !strings.Contains(o.out, "papers/mars-theta: ") {
		t.Errorf("--list: %+v", o)
	}
}

func TestPromptsAreTakenEvenly(t *testing.T) {
	var all []prompt
	for _, id := range []string{"a0", "a1", "a2", "b0", "c0", "c1"} {
		all = append(all, prompt{ID: id, Category: id[:1]})
	}
	for _, c := range []struct {
		per, limit int
		want       string
	}{{0, 0, "a0 b0 c0 a1 c1 a2"}, {1, 0, "a0 b0 c0"}, {0, 4, "a0 b0 c0 a1"}, {2, 2, "a0 b0"},
		{9, 9, "a0 b0 c0 a1 c1 a2"}} {
		var got []string
		for _, p := range choosePrompts(all, c.per, c.limit) {
			got = append(got, p.ID)
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%d a category and %d in all: %s, want %s", c.per, c.limit, s, c.want)
		}
	}
}

func TestArtefactsComeFromTheirFolder(t *testing.T) {
	path := write(t, "a.json", []byte("x"))
	if b, err := artefacts(filepath.Dir(path))("a.json"); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	for _, read := range []func(string) ([]byte, error){artefacts(""), artefacts(t.TempDir())} {
		if _, err := read("a.json"); !errorsIsNotExist(err) {
			t.Errorf("%v", err)
		}
	}
	if _, err := artefacts(filepath.Dir(path))("../a.json"); err == nil {
		t.Error("a name led out of the folder")
	}
}

func errorsIsNotExist(err error) bool {
	return err != nil && strings.Contains(err.Error(), fs.ErrNotExist.Error()) || os.IsNotExist(err)
}

func TestBenchNamesRowsWithLosses(t *testing.T) {
	var b bytes.Buffer
	rows := []bench.Row{{Method: "plain"}, {Method: "mars", Lossy: true, Lost: 2},
		{Method: "mars", Category: "go", Lost: 2}}
	p := &benchPrinter{out: &b, report: &bench.Report{Rows: rows}}
	p.lost()
	if got := b.String(); strings.Count(got, "\n") != 1 ||
		!strings.HasPrefix(got, "LOST mars"+lossyMark+": the device was lost during 2 of its cells") {
		t.Errorf("%q", got)
	}
}

func TestBenchPrintsRatiosWithIntervals(t *testing.T) {
	var b bytes.Buffer
	at := func(ratio, low, high float64) bench.Interval {
		return bench.Interval{Ratio: ratio, Low: low, High: high, N: 20}
	}
	to := bench.Ratios{Against: "tree", Seeds: 2, Calls: at(0.99, 0.97, 1.01), Tokens: at(0.85, 0.8, 0.9)}
	rows := []*bench.Row{{Method: "hetero", Ratios: []bench.Ratios{{Against: "plain"}, to}}}
	p := &benchPrinter{out: &b}
	p.ratios(&bench.Group{Against: map[string]string{"hetero": "tree"}}, rows)
	for _, want := range []string{"0.990 (0.970-1.010) =", "0.850 (0.800-0.900)  ", "20 × 2", "tree"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "plain") || strings.Contains(b.String(), "speed") {
		t.Errorf("a baseline or a column too many:\n%s", b.String())
	}
}

// readReport reads what --json wrote.
func readReport(path string) (*bench.Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &bench.Report{}
	return r, json.Unmarshal(b, r)
}

// TestSuiteRunsOnItsPairs makes a table with the draft and with the head, and again from the kept cells.
func TestSuiteRunsOnItsPairs(t *testing.T) {
	dir := t.TempDir()
	suite := write(t, "suite.json", []byte(`{"title": "s",
"pairs": [{"name": "draft"}, {"name": "head", "source": "eagle3"},
{"name": "absent", "target": "absent.gguf"}], "artefacts": [{"file": "cut.json", "make": "train c2t --cut 0.3"}],
"tables": [{"name": "one", "title": "t", "repeat": 1, "rows": [
{"name": "chain", "method": "chain:depth=2"},
{"name": "cut", "method": "c2t-chain:threshold=0.5", "classifier": "cut.json", "against": "chain"},
{"name": "unfitted", "method": "hetero:depth=3", "against": "chain"}]},
{"name": "long", "title": "t", "repeat": 1, "max_tokens": 200, "rows": [
{"name": "plain", "method": "none"}, {"name": "chain", "method": "chain:depth=2"}]}]}`))
	measure := func(report string) map[string]*bench.Report {
		t.Helper()
		o := call(t, "", "bench", "--device", "cpu", "--suite", suite, "--quick", "--prompts", benchPrompts(t),
			"--models", dir, "--artefacts", dir, "--resume", filepath.Join(dir, "cells"), "--limit", "2", "--json",
			filepath.Join(dir, report))
		if o.code != exitOK || !strings.Contains(o.err, "the pair absent is left out") ||
			!strings.Contains(o.out, "MISSING unfitted") {
			t.Fatalf("code %d: %s%s", o.code, o.out, o.err)
		}
		data, err := os.ReadFile(filepath.Join(dir, report))
		if err != nil {
			t.Fatal(err)
		}
		pairs := map[string]*bench.Report{}
		if err := json.Unmarshal(data, &pairs); err != nil {
			t.Fatal(err)
		}
		return pairs
	}
	first := measure("first.json")
	if len(first) != 2 {
		t.Fatalf("%d pairs", len(first))
	}
	for name, r := range first {
		cut := r.Row("cut", "")
		if cut == nil || !r.Quick || cut.Prompts != 2 || len(r.Tables) != 2 || len(r.Tables[0].Rows) != 3 ||
			cut.Speedup.N != 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if first["draft"].Row("chain", "").Calls == first["head"].Row("chain", "").Calls {
		t.Error("the head drafts as the draft does")
	}
	if again := measure("second.json"); !reflect.DeepEqual(again, first) {
		t.Error("kept cells make another report")
	}
	for _, flag := range []string{"--quick", "--seeds=2"} {
		oneError(t, flag, call(t, "", "bench", "--prompts", benchPrompts(t), flag), exitUsage, flag[:7])
	}
}
