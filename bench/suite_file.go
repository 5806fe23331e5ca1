//go:build !js

package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/spec"
	"foretoken/testdata/suites"
)

// SuiteFile is a file of tables to compare, such as the tables of a paper.
type SuiteFile struct {
	File      string       `json:"-"` // where it comes from
	Title     string       `json:"title"`
	Paper     *Paper       `json:"paper"`
	Nodes     int          `json:"nodes"` // largest tree that its tables verify; 0: 64
	Beams     int          `json:"beams"` // widest level and most candidates of a node that they draft; 0: 16
	Pairs     []SuitePair  `json:"pairs"`
	Artefacts []Artefact   `json:"artefacts"`
	Tables    []SuiteTable `json:"tables"`
}

// Paper names the publication whose tables a suite repeats.
type Paper struct {
	Title    string `json:"title"`
	Authors  string `json:"authors"`
	Source   string `json:"source"`   // such as arXiv:2505.13254
	Headline string `json:"headline"` // what it claims, in one sentence
	// Impossible lists the parts of its tables that cannot be made here, with the reason.
	Impossible []string `json:"impossible"`
}

// SuitePair is a pair of models that the tables are made with. Files without a folder lie in the folder of models.
type SuitePair struct {
	Name    string `json:"name"`
	Target  string `json:"target"`  // "" is the built-in target
	Draft   string `json:"draft"`   // "" is the built-in draft, or none with a target
	Source  string `json:"source"`  // eagle3: rows draft from the target's EAGLE-3 head; "": from the draft
	Prompts string `json:"prompts"` // the file of prompts, unless the command names one for the built-in target
	Fit     string `json:"fit"`     // the file of prompts that artefacts are fitted on, {fit} in their commands
	// Classifier is the artefact of rows with C2T's classifier that name none; "": the pair's own.
	Classifier string `json:"classifier"`
}

// Artefact is a file that rows need, and the command that makes it: its subcommand and options without those of the
// pair and without --out. For repeats it as the rows of a table.
type Artefact struct {
	For  map[string][]any `json:"for"`
	File string           `json:"file"`
	Make string           `json:"make"`
}

// Fitted reports whether the artefact is fitted on prompts, which takes minutes.
func (a Artefact) Fitted() bool { return strings.Contains(a.Make, "--prompts") }

// SuiteTable is a table of a suite. Curve and OnCurve name rows, with * for any text.
type SuiteTable struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Repeat int    `json:"repeat"`
	// MaxTokens is the length of its requests, unless the command names one; 0: the command's. Their names say it.
	MaxTokens int      `json:"max_tokens"`
	Pairs     []string `json:"pairs"` // those of the file that it is made with; nil: all
	Figures   []string `json:"figures"`
	Curve     []string `json:"curve"`
	OnCurve   []string `json:"on_curve"`
	Note      string   `json:"note"`
	// Categories tells that readers compare the rows by category of the prompts.
	Categories bool `json:"categories"`
	// Paper holds the paper's own figures and claims, which only the documentation reads: scripts/papers.mjs.
	Paper json.RawMessage `json:"paper"`
	Rows  []SuiteRow      `json:"rows"`
}

// SuiteRow is a row of a table, or rows that are repeated.
//
// For maps names to equally many values: Rows stand once for each, with {name} in their texts replaced. "temperature"
// is the temperature of the rows as well; values of "nodes" are cut to what one pass verifies; "category": ["*"] stands
// for the categories of the prompts.
type SuiteRow struct {
	For  map[string][]any `json:"for"`
	Rows []SuiteRow       `json:"rows"`

	Name        string  `json:"name"`   // to which " T=…" is added above temperature 0
	Method      string  `json:"method"` // as ParseMethods reads it
	Temperature float64 `json:"temperature"`
	Against     string  `json:"against"`    // the row of the same temperature that it is compared with
	Bins        string  `json:"bins"`       // artefact with HeteroSpec's bins; "": the pair's own
	Classifier  string  `json:"classifier"` // artefact with C2T's classifier; "": the pair's own
	AnyPair     bool    `json:"any_pair"`   // the classifier may be another pair's
	Acceptance  string  `json:"acceptance"` // artefact with an acceptance head; "" or no file: the pair's own
}

// SuitesName names all suites; with a slash and the name of a file or of a table it names one.
const SuitesName = "papers"

// Bounds of a suite's file.
const (
	maxSuite  = 1 << 20 // bytes
	maxValues = 100_000
)

// ParseSuite reads a suite. file names it in errors.
func ParseSuite(file string, data []byte) (*SuiteFile, error) {
	f := &SuiteFile{}
	err := strictjson.Rules{Values: maxValues}.Decode(data, f)
	if err == nil {
		err = f.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("foretoken: suite %s: %w", quote.Name(file), err)
	}
	f.File = file
	if _, err := f.Groups("", SuiteOptions{}); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *SuiteFile) validate() error {
	var pairs, tables []string
	for i, p := range f.Pairs {
		switch {
		case p.Name == "" || slices.Contains(pairs, p.Name): // bound: maxValues
			return fmt.Errorf("field pairs[%d].name is %.80q, want a name of its own", i, p.Name)
		case p.Source != "" && p.Source != "eagle3" && p.Source != "model":
			return fmt.Errorf("field pairs[%d].source is %.80q, want model or eagle3", i, p.Source)
		}
		pairs = append(pairs, p.Name)
	}
	if f.Nodes < 0 || f.Beams < 0 || f.Beams > spec.MaxTopK || len(f.Tables) == 0 {
		return fmt.Errorf("has %d tables, nodes %d and beams %d, want tables, nodes of 0 or more and beams of 0 to %d",
			len(f.Tables), f.Nodes, f.Beams, spec.MaxTopK)
	}
	for i := range f.Tables {
		t := &f.Tables[i]
		at := fmt.Sprintf("field tables[%d]", i)
		switch {
		case t.Name == "" || strings.Contains(t.Name, "/") || slices.Contains(tables, t.Name): // bound: maxValues
			return fmt.Errorf("%s.name is %.80q, want a name of its own without a slash", at, t.Name)
		case t.Title == "":
			return fmt.Errorf("%s.title is missing: %s needs a title", at, quote.Name(t.Name))
		case t.Repeat < 1 || t.Repeat > maxReps:
			return fmt.Errorf("%s.repeat is %d, want 1 to %d", at, t.Repeat, maxReps)
		case t.MaxTokens < 0:
			return fmt.Errorf("%s.max_tokens is %d, want 0 or more", at, t.MaxTokens)
		}
		for _, p := range t.Pairs {
			if !slices.Contains(pairs, p) { // bound: maxValues
				return fmt.Errorf("%s.pairs has %.80q, want one of %s", at, p, strings.Join(pairs, ", "))
			}
		}
		for _, figure := range t.Figures {
			if !slices.Contains(figureNames, figure) { // bound: figureNames
				return fmt.Errorf("%s.figures has %.80q, want one of %s", at, figure, strings.Join(figureNames, ", "))
			}
		}
		if err := validateRows(t.Rows, at+".rows"); err != nil {
			return err
		}
		tables = append(tables, t.Name)
	}
	for i, a := range f.Artefacts {
		if a.File == "" || path.Base(a.File) != a.File || a.Make == "" {
			return fmt.Errorf("field artefacts[%d] has the file %.80q made by %.200q, want a name and a command", i,
				a.File, a.Make)
		}
	}
	return nil
}

// figureNames are the figures that a table may have.
var figureNames = []string{FigureEntropy, FigurePhi, FigureTCR, FigureEstimates, FigureDecision, FigureDistances,
	FigureLogits, FigureRatios}

func validateRows(rows []SuiteRow, at string) error {
	if len(rows) == 0 {
		return fmt.Errorf("%s is empty", at)
	}
	for i := range rows {
		r := &rows[i]
		at := fmt.Sprintf("%s[%d]", at, i)
		switch {
		case r.For != nil && (len(r.For) == 0 || r.Name != "" || r.Method != "" || r.Against != ""):
			return fmt.Errorf("%s repeats rows by \"for\": want values there, and names and methods in its rows", at)
		case r.For == nil && (r.Name == "" || r.Method == "" || r.Rows != nil):
			return fmt.Errorf("%s has the name %.80q and the method %.200q, want both, or \"for\" with rows", at,
				r.Name, r.Method)
		case !(r.Temperature >= 0):
			return fmt.Errorf("%s.temperature is %g, want 0 or more", at, r.Temperature)
		}
		if r.For != nil {
			if err := validateRows(r.Rows, at+".rows"); err != nil {
				return err
			}
		}
	}
	return nil
}

// NeededArtefacts returns the files that rows of groups need and the commands that make them, in the file's order.
func (f *SuiteFile) NeededArtefacts(groups []Group, o SuiteOptions) (needed []Artefact, err error) {
	err = f.eachArtefact(&o, func(a Artefact) error {
		needs := func(g Group) bool { return slices.Contains(g.Artefacts, a.File) } // bound: rows
		if slices.ContainsFunc(groups, needs) {                                     // bound: tables
			needed = append(needed, a)
		}
		return nil
	})
	return needed, err
}

// eachArtefact calls work with the files that rows need and the commands that make them.
func (f *SuiteFile) eachArtefact(o *SuiteOptions, work func(a Artefact) error) error {
	for i := range f.Artefacts {
		a := &f.Artefacts[i]
		one := func(v variables) error {
			for _, name := range []string{"artefacts", "models", "fit"} {
				v[name] = cmp.Or(o.Files[name], "{"+name+"}")
			}
			file, err := v.in(a.File)
			if err != nil {
				return err
			}
			how, err := v.in(a.Make)
			if err != nil {
				return err
			}
			return work(Artefact{File: file, Make: how})
		}
		var err error
		if a.For == nil {
			err = one(variables{})
		} else {
			err = variables{}.with(a.For, o, one)
		}
		if err != nil {
			return fmt.Errorf("foretoken: suite %s: field artefacts[%d]: %w", quote.Name(f.File), i, err)
		}
	}
	return nil
}

// Suites returns the suites of the program, papers first.
func Suites() ([]*SuiteFile, error) {
	entries, err := fs.ReadDir(suites.Files, ".")
	if err != nil {
		return nil, err
	}
	var all []*SuiteFile
	for _, e := range entries {
		data, err := fs.ReadFile(suites.Files, e.Name())
		if err != nil {
			return nil, err
		}
		f, err := ParseSuite(e.Name(), data)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b *SuiteFile) int {
		return map[bool]int{true: 0, false: 1}[a.Paper != nil] - map[bool]int{true: 0, false: 1}[b.Paper != nil]
	})
	return all, nil
}

// Name is the suite's name for FindSuite.
func (f *SuiteFile) Name() string {
	return SuitesName + "/" + strings.TrimSuffix(path.Base(f.File), ".json")
}

// NeedsHead reports whether a row names an EAGLE-3 head itself, so that the head is loaded beside the draft.
func (f *SuiteFile) NeedsHead() bool {
	groups, err := f.Groups("", SuiteOptions{})
	return err == nil && slices.ContainsFunc(groups, func(g Group) bool {
		return slices.ContainsFunc(g.Methods, func(m Method) bool { return m.Request.NeedsHead() })
	})
}

// SuiteNames returns the names that FindSuite knows: all suites, each file, and each table whose name no file has.
func SuiteNames() ([]string, error) {
	all, err := Suites()
	names := []string{SuitesName}
	for _, f := range all {
		names = append(names, f.Name())
	}
	for _, f := range all {
		for _, t := range f.Tables {
			if name := SuitesName + "/" + t.Name; !slices.Contains(names, name) { // bound: suites of the program
				names = append(names, name)
			}
		}
	}
	return names, err
}

// FindSuite returns the suites of a name, of one table where it names one, or the suite of a file if the name ends in
// .json.
func FindSuite(name string) ([]*SuiteFile, error) {
	if strings.HasSuffix(name, ".json") {
		data, err := files.Read(name, maxSuite)
		if err != nil {
			return nil, err
		}
		f, err := ParseSuite(name, data)
		return []*SuiteFile{f}, err
	}
	all, err := Suites()
	if err != nil || name == SuitesName {
		return all, err
	}
	for _, f := range all {
		if name == f.Name() {
			return []*SuiteFile{f}, nil
		}
	}
	for _, f := range all {
		for _, t := range f.Tables {
			if name == SuitesName+"/"+t.Name {
				one := *f
				one.Tables = []SuiteTable{t}
				return []*SuiteFile{&one}, nil
			}
		}
	}
	names, err := SuiteNames()
	return nil, errors.Join(err, fmt.Errorf("foretoken: unknown suite %.80q, want a file that ends in .json or "+
		"one of %s", name, strings.Join(names, ", ")))
}
