//go:build !js

package bench

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"foretoken"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
)

// pathGroups returns the tables of the program's suites of a name.
func pathGroups(t *testing.T, name string, o SuiteOptions) (groups []Group) {
	t.Helper()
	all, err := FindSuite(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		g, err := f.Groups("", o)
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, g...)
	}
	return groups
}

func TestEverySuiteHoldsTogether(t *testing.T) {
	groups := pathGroups(t, SuitesName, SuiteOptions{MaxTokens: 8,
		Common: foretoken.Request{MaxTokens: 9, Seed: 1, Temperature: 0.7}, Categories: []string{"a", "b"}})
	all, err := MethodsOf(groups)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if err := m.check(); err != nil && m.Missing == "" {
			t.Errorf("%s: %v", m.Name, err)
		}
		c := m.Request.Config()
		if lossy := c.Verifier == method.VerifierMARS || c.Verifier == method.VerifierAdaSD; lossy != m.Lossy() {
			t.Errorf("%s: lossy is %v", m.Name, m.Lossy())
		}
		if hot := strings.Contains(m.Name, " T="); hot != (m.Request.Temperature > 0) {
			t.Errorf("%s is at temperature %v", m.Name, m.Request.Temperature)
		}
		if m.Request.MaxTokens != 8 || m.Repeat < 1 {
			t.Errorf("%s: %d tokens, %d repetitions", m.Name, m.Request.MaxTokens, m.Repeat)
		}
		if n := c.Budget().Nodes; n > 64 {
			t.Errorf("%s verifies %d nodes, more than the 64 of one pass", m.Name, n)
		}
	}
	names, err := SuiteNames()
	if err != nil || len(names) <= len(groups) {
		t.Errorf("the names %v for %d tables: %v", names, len(groups), err)
	}
	for _, g := range groups {
		if !slices.Contains(names, g.Name) {
			t.Errorf("%s has no name", g.Name)
		}
		if len(g.Methods) < 2 {
			t.Errorf("%s has %d rows", g.Name, len(g.Methods))
		}
		one := pathGroups(t, g.Name, SuiteOptions{Categories: []string{"a", "b"}, Repeat: 4})
		if len(one) != 1 || len(one[0].Methods) != len(g.Methods) || one[0].Methods[0].Repeat != 4 {
			t.Errorf("%s alone: %d tables", g.Name, len(one))
		}
	}
	if _, err := FindSuite("papers/none"); err == nil || !strings.Contains(err.Error(), "papers/mars") {
		t.Errorf("an unknown suite: %v", err)
	}
}

const smallSuite = `{"title": "small", "pairs": [{"name": "draft"},
{"name": "head", "source": "eagle3", "classifier": "c-1.json"}],
"artefacts": [{"for": {"x": [1, 2]}, "file": "c-{x}.json", "make": "train c2t --prompts {fit} --hidden {x}"}],
"tables": [{"name": "one", "title": "t", "repeat": 2, "curve": ["tree *"], "pairs": ["head"], "rows": [
 {"for": {"temperature": [0, 0.5], "mode": ["alg1", "sampled"]}, "rows": [
  {"name": "plain", "method": "none"},
  {"for": {"nodes": [16, 99, 100]}, "rows": [{"name": "tree {nodes}", "method": "eagle2:nodes={nodes}"}]},
  {"name": "mars", "method": "mars:mode={mode}", "against": "tree 16"}]},
 {"for": {"category": ["*"]}, "rows": [{"name": "of {category}", "method": "ngram"}]},
 {"name": "c2t of the pair", "method": "c2t"},
 {"name": "c2t", "method": "c2t", "classifier": "c-2.json", "against": "plain"}]}]}`

func TestRowsAreRepeated(t *testing.T) {
	f, err := ParseSuite("small.json", []byte(smallSuite))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := f.Groups("head", SuiteOptions{MaxNodes: 64, Source: "eagle3", Categories: []string{"a", "b"}})
	if err != nil || len(groups) != 1 {
		t.Fatal(len(groups), err)
	}
	g := groups[0]
	var rows []string
	for _, m := range g.Methods {
		rows = append(rows, strings.Trim(fmt.Sprintf("%s %s %s %d", m.Name, m.Request.Source, m.Request.Mode,
			m.Request.Nodes), " 0"))
	}
	want := []string{"plain", "tree 16 eagle3  16", "tree 64 eagle3  64", "mars eagle3 alg1", "plain T=0.5",
		"tree 16 T=0.5 eagle3  16", "tree 64 T=0.5 eagle3  64", "mars T=0.5 eagle3 sampled", "of a", "of b",
		"c2t of the pair eagle3", "c2t eagle3"}
	if !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	if g.Against["mars T=0.5"] != "tree 16 T=0.5" || len(g.Curve) != 4 {
		t.Errorf("against %v, curve %v", g.Against, g.Curve)
	}
	if own := g.Methods[len(g.Methods)-2].Missing; !strings.Contains(own, "--hidden 1 --out DIR/c-1.json") {
		t.Errorf("missing of the pair: %s", own)
	}
	missing := g.Methods[len(g.Methods)-1].Missing
	if !strings.Contains(missing, "train c2t --prompts {fit} --hidden 2 --out DIR/c-2.json") {
		t.Errorf("missing: %s", missing)
	}
	o := SuiteOptions{Files: map[string]string{"fit": "p.jsonl", "artefacts": "here"}}
	if groups, err = f.Groups("head", o); err != nil {
		t.Fatal(err)
	}
	missing = groups[0].Methods[len(groups[0].Methods)-1].Missing
	if !strings.Contains(missing, "train c2t --prompts p.jsonl --hidden 2 --out here/c-2.json") {
		t.Errorf("missing with files: %s", missing)
	}
	needed, err := f.NeededArtefacts(groups, o)
	if err != nil || len(needed) != 2 || needed[1].Make != "train c2t --prompts p.jsonl --hidden 2" ||
		!needed[1].Fitted() {
		t.Errorf("needed: %+v, %v", needed, err)
	}
	if others, err := f.Groups("draft", SuiteOptions{}); err != nil || len(others) != 0 {
		t.Errorf("%d tables of another pair, %v", len(others), err)
	}
}

// TestTablesHaveTheirOwnLength: rows of a table with a length of its own are other rows than the ones of other tables,
// and are compared with plain decoding of that length.
func TestTablesHaveTheirOwnLength(t *testing.T) {
	f, err := ParseSuite("small.json", []byte(`{"title": "s", "tables": [
{"name": "a", "title": "t", "repeat": 1, "rows": [
 {"name": "plain", "method": "none"}, {"name": "ngram", "method": "ngram"}]},
{"name": "b", "title": "t", "repeat": 1, "max_tokens": 9, "rows": [
 {"name": "plain", "method": "none"}, {"name": "ngram", "method": "ngram", "against": "plain"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	lengths := func(o SuiteOptions) map[string]int {
		groups, err := f.Groups("", o)
		if err != nil {
			t.Fatal(err)
		}
		all, err := MethodsOf(groups)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, m := range all {
			got[m.Name] = m.Request.MaxTokens
		}
		return got
	}
	o := SuiteOptions{Common: foretoken.Request{MaxTokens: 3, Seed: 1}}
	own := map[string]int{"plain": 3, "ngram": 3, "plain (9 tokens)": 9, "ngram (9 tokens)": 9}
	if got := lengths(o); !maps.Equal(got, own) {
		t.Errorf("lengths %v, want %v", got, own)
	}
	given := o
	given.MaxTokens = 4
	if got, want := lengths(given), map[string]int{"plain": 4, "ngram": 4}; !maps.Equal(got, want) {
		t.Errorf("lengths %v, want %v", got, want)
	}
	groups, err := f.Groups("", o)
	if err != nil {
		t.Fatal(err)
	}
	methods, err := MethodsOf(groups)
	if err != nil {
		t.Fatal(err)
	}
	var cells []Cell
	prompts := make([]Prompt, leastPrompts)
	for i := range prompts {
		prompts[i] = Prompt{ID: fmt.Sprint(i), Prompt: "x"}
	}
	if err := Run(context.Background(), &scripted{}, Matrix{Methods: methods, Prompts: prompts, Repeat: 1, Counts: true,
		NoScore: true}, func(c Cell) { cells = append(cells, c) }); err != nil {
		t.Fatal(err)
	}
	report := Summarise(cells)
	report.Compare(cells, nil)
	for name, base := range map[string]string{"ngram": "plain", "ngram (9 tokens)": "plain (9 tokens)"} {
		if r := report.Row(name, ""); len(r.Ratios) != 1 || r.Ratios[0].Against != base {
			t.Errorf("%s: %+v, want it compared with %s", name, r.Ratios, base)
		}
	}
}

func TestWrongSuitesAreRefused(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"title": "small"`, `"titel": "small"`, "titel"},
		{`"title": "t"`, `"title": ""`, "tables[0].title is missing"},
		{`"repeat": 2`, `"repeat": 0`, "tables[0].repeat is 0"},
		{`"repeat": 2`, `"repeat": 2, "max_tokens": -1`, "tables[0].max_tokens is -1"},
		{`"pairs": ["head"]`, `"pairs": ["hat"]`, `tables[0].pairs has "hat", want one of draft, head`},
		{`"source": "eagle3"`, `"source": "eagle4"`, `pairs[1].source is "eagle4"`},
		{`"sampled"]`, `"sampled", "x"]`, `rows[0]: "for" has lists of`},
		{`"ngram"`, `"gram"`, `rows[1].rows[0]: field method: foretoken: unknown method "gram"`},
		{`mode={mode}`, `mode={mood}`, "names {mood}"},
		{`"against": "tree 16"`, `"against": "tree 17"`, `"mars" is compared with "tree 17", which is no row`},
		{`"curve": ["tree *"]`, `"curve": ["shrub *"]`, `no row is called like "shrub *"`},
		{`"curve"`, `"figures": ["x"], "curve"`, `figures has "x", want one of entropy`},
		{`"name": "of {category}"`, `"name": "c2t"`, `two rows "c2t"`},
		{`"file": "c-{x}.json"`, `"file": "../c-{x}.json"`, "artefacts[0] has the file"},
	} {
		text := strings.Replace(smallSuite, c.old, c.new, 1)
		f, err := ParseSuite("small.json", []byte(text))
		if err == nil {
			_, err = f.Groups("", SuiteOptions{Categories: []string{"a"}})
		}
		if err == nil || !strings.HasPrefix(err.Error(), "foretoken: suite small.json: ") ||
			!strings.Contains(err.Error(), c.want) || text == smallSuite {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}

func TestSuiteSaysWhichFilesAreMissing(t *testing.T) {
	good := &adapt.C2TClassifier{Features: []string{adapt.FeatureProbability}, Mean: []float64{0}, Scale: []float64{1},
		Hidden: [][]float64{{1}}, HiddenBias: []float64{0}, Output: []float64{1}}
	good.Fingerprint = spec.Fingerprint{Target: spec.ModelID{Name: "t", Bytes: 1, Hash: "00", Quantisation: "f32"},
		Draft: spec.ModelID{Name: "d", Bytes: 2, Hash: "11", Quantisation: "f32"}, TopK: 10, Depth: 10, Nodes: 60}
	text, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) ([]byte, error) {
		switch name {
		case "c2t-without-a.json", "c2t-moved.json":
			return text, nil
		case "c2t-tuned.json":
			return []byte("{"), nil
		}
		return nil, fs.ErrNotExist
	}
	pair := good.Fingerprint
	pair.Draft.Hash = "22"
	for _, c := range []struct {
		pair  spec.Fingerprint
		right bool
	}{{good.Fingerprint, true}, {pair, false}, {spec.Fingerprint{}, true}} {
		g := pathGroups(t, "papers/c2t-transfer",
			SuiteOptions{Artefact: read, Categories: []string{"a", "b"}, Pair: c.pair})
		missing := map[string]string{}
		for _, m := range g[0].Methods {
			if m.Missing != "" {
				missing[m.Name] = m.Missing
			} else if m.Name != "c2t β=0.5" && m.Request.Fitted.C2T == nil {
				t.Errorf("%s has no classifier", m.Name)
			}
		}
		if !strings.Contains(missing["c2t without b"], "c2t-without-b.json") ||
			!strings.Contains(missing["c2t without b"], "train c2t") || missing["c2t moved and fine-tuned"] == "" {
			t.Errorf("missing %v", missing)
		}
		// A classifier of another pair is accepted only in its own row.
		if _, ok := missing["c2t without a"]; ok == c.right {
			t.Errorf("the classifier of %v: %v", c.pair, missing["c2t without a"])
		}
		if missing["c2t moved from another pair"] != "" {
			t.Errorf("the moved classifier: %v", missing["c2t moved from another pair"])
		}
	}
}

// TestSuiteChecksAcceptanceHeads gives rows a head that was trained for temperature 0 and the EAGLE-3 head.
func TestSuiteChecksAcceptanceHeads(t *testing.T) {
	id := spec.ModelID{Name: "m", Bytes: 1, Hash: "00", Quantisation: "f32"}
	head := &adapt.AcceptanceHead{Source: "eagle3", Label: adapt.LabelArgmax,
		Estimator: spec.Estimator{Dim: 1, Weight: spec.Floats{1}}}
	head.Fingerprint = spec.Fingerprint{Target: id, Draft: id}
	text, err := head.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read := func(string) ([]byte, error) { return text, nil }
	other := head.Fingerprint
	other.Draft.Hash = "11"
	for _, c := range []struct {
		source string
		pair   spec.Fingerprint
		fits   bool
	}{{"eagle3", head.Fingerprint, true}, {"eagle3", other, false}, {"", head.Fingerprint, false}} {
		g := pathGroups(t, "papers/acceptance-main", SuiteOptions{Artefact: read, Source: c.source, Pair: c.pair})
		own := pathGroups(t, "papers/acceptance-main", SuiteOptions{Source: c.source, Pair: c.pair})
		for _, m := range own[0].Methods {
			if m.Missing != "" || m.Request.Fitted.Head != nil {
				t.Errorf("without the file %s has not the pair's own head: %s", m.Name, m.Missing)
			}
		}
		rows := 0
		for _, m := range g[0].Methods {
			if m.Request.Config().Adapt != "acceptance" {
				continue
			}
			fits := c.fits && m.Request.Temperature == 0
			if (m.Missing == "") != fits || (m.Request.Fitted.Head != nil) != fits ||
				!fits && !strings.Contains(m.Missing, "foretoken train acceptance-head") {
				t.Errorf("source %q, %s: missing %q", c.source, m.Name, m.Missing)
			}
			rows++
		}
		if rows < 18 {
			t.Errorf("%d rows with a head", rows)
		}
	}
}

func TestTokensAtEqualLength(t *testing.T) {
	row := func(length, tokens float64) *Row {
		return &Row{AcceptanceLength: Measure{Mean: length}, Tokens: Measure{Mean: 10 * tokens},
			Calls: Measure{Mean: 10}}
	}
	curve := []*Row{row(3, 16), row(2, 4), row(3.5, 60), row(3, 24), {}}
	for _, c := range []struct {
		length, want float64
		ok           bool
	}{{2, 4, true}, {2.5, 10, true}, {3, 16, true}, {3.25, 42, true}, {3.5, 60, true}, {1.9, 0, false},
		{3.6, 0, false}} {
		if got, ok := TokensAt(curve, c.length); ok != c.ok || !near(got, c.want) {
			t.Errorf("at %v: %v, %v, want %v, %v", c.length, got, ok, c.want, c.ok)
		}
	}
}

// TestRowsAreComparedAtEqualLength: a row of the curve's own counts needs the curve's tokens, one with fewer nodes
// fewer, and one that accepts more than the whole curve is beyond it.
func TestRowsAreComparedAtEqualLength(t *testing.T) {
	var cells []Cell
	for i := range 6 {
		for _, c := range []struct {
			method string
			spec.Stats
		}{{"small", spec.Stats{Calls: 30, Nodes: 120, OutputTokens: 60}},
			{"large", spec.Stats{Calls: 20, Nodes: 320, OutputTokens: 60}},
			{"same", spec.Stats{Calls: 20, Nodes: 320, OutputTokens: 60}},
			{"fewer", spec.Stats{Calls: 24, Nodes: 120, OutputTokens: 60}},
			{"beyond", spec.Stats{Calls: 10, Nodes: 100, OutputTokens: 60}}} {
			cells = append(cells, Cell{Method: c.method, Prompt: fmt.Sprint(i), Stats: c.Stats})
		}
	}
	groups := []Group{{Curve: []string{"small", "large"}, OnCurve: []string{"same", "fewer", "beyond"}}}
	CompareCurves(groups, cells)
	at := func(ratio float64) Interval { return Interval{ratio, ratio, ratio, 6} }
	want := map[string]Interval{"same": at(1), "fewer": at(0.5)}
	if got := groups[0].AtEqualLength; !maps.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	cells = slices.DeleteFunc(cells, func(c Cell) bool { return c.Method == "large" && c.Prompt > "3" })
	if CompareCurves(groups, cells); len(groups[0].AtEqualLength) != 0 {
		t.Errorf("on four prompts of the whole curve: %+v", groups[0].AtEqualLength)
	}
}

// TestRowsGetAsManyPromptsAsTheyNeed: a row whose ratio is the same on every prompt needs the fewest, and a row of a
// large tree has its own sizes.
func TestRowsGetAsManyPromptsAsTheyNeed(t *testing.T) {
	f, err := ParseSuite("small.json", []byte(`{"title": "s",
"tables": [{"name": "one", "title": "t", "repeat": 1, "rows": [
{"name": "plain", "method": "none"}, {"name": "chain", "method": "chain", "against": "plain"},
{"name": "wide", "method": "eagle2:nodes=200"}, {"name": "unsteady", "method": "ngram", "against": "plain"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	groups, err := f.Groups("", SuiteOptions{MaxNodes: 200, Common: foretoken.Request{MaxTokens: 3, Seed: 5}})
	if err != nil {
		t.Fatal(err)
	}
	s := &uneven{}
	r := SuiteRun{Groups: groups, Small: Sizes{Prompts: 5, MostPrompts: 8, Seeds: 3, Width: 0.02},
		Big: Sizes{Prompts: 1, MostPrompts: 1, Seeds: 1, MaxTokens: 2}}
	for i := range 8 {
		r.Matrix.Prompts = append(r.Matrix.Prompts, Prompt{ID: fmt.Sprint(i), Prompt: strings.Repeat("x", i+1)})
	}
	var estimates []bool
	r.Estimate = func(left time.Duration, stage bool) {
		if estimates = append(estimates, stage); left <= 0 {
			t.Errorf("%v left", left)
		}
	}
	rows, tokS := map[string]int{}, 0.0
	emit := func(c Cell) { rows[c.Method]++; tokS += c.TokS }
	if err := r.Run(context.Background(), s, emit); err != nil {
		t.Fatal(err)
	}
	if want := map[string]int{"plain": 8, "chain": 5, "wide": 1, "unsteady": 8}; !maps.Equal(rows, want) || tokS != 0 {
		t.Errorf("cells %v, want %v; speeds %v", rows, want, tokS)
	}
	const probes = 4                                           // plain, chain, tree and n-grams
	if want := 8 + 1 + 5 + 1 + 8; len(s.ran) > want+6+probes { // plain decoding once for each stage that needs it
		t.Errorf("%d requests: %v", len(s.ran), s.ran)
	}
	if len(estimates) < 2 || estimates[0] || !estimates[1] {
		t.Errorf("estimates of stages: %v, want one of the run first", estimates)
	}
}

// uneven is scripted with n-grams that need more passes the longer the prompt is.
type uneven struct{ scripted }

func (s *uneven) Generate(ctx context.Context, prompt string, r foretoken.Request,
	emit func(*foretoken.Event) error) (*foretoken.Result, error) {
	out, err := s.scripted.Generate(ctx, prompt, r, emit)
	if err == nil && r.Policy == method.DrafterNgram {
		out.Stats.Calls += len(prompt)
	}
	return out, err
}
