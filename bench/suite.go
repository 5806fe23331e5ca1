//go:build !js

package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"foretoken"
	"foretoken/internal/quote"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
)

// The figures of a group.
const (
	FigureEntropy   = "entropy"   // acceptance by entropy of the draft's distribution
	FigurePhi       = "phi"       // Φ by entropy bin
	FigureTCR       = "tcr"       // TCR by entropy bin
	FigureEstimates = "estimates" // the acceptance head's calibration curve and AUC
	FigureDecision  = "decision"  // what HeteroSpec's decision costs: time, submits a round, rounds in one submit
	FigureDistances = "distances" // the distance of draft and target, of accepted and of rejected tokens
	FigureLogits    = "logits"    // the target's largest logit z1
	FigureRatios    = "ratios"    // z2/z1 of the target's two largest logits
)

// SuiteOptions configures the rows of a suite.
type SuiteOptions struct {
	Common foretoken.Request // length and sampling of every request; a suite sets its own temperatures
	Repeat int               // repetitions; 0: what each table needs
	// MaxTokens is the length of every request; 0: the table's, or else Common's.
	MaxTokens int
	MaxNodes  int    // nodes the target verifies in one pass; 0: 64
	Source    string // what drafts in rows that draft with a model and name no source; "": the draft model
	// Pair identifies the models, so that artefacts of another pair are refused; the zero value accepts any.
	Pair spec.Fingerprint
	// Artefact reads a file that only some rows need (a classifier trained in another way), or returns
	// fs.ErrNotExist. Nil: no artefacts.
	Artefact func(name string) ([]byte, error)
	// Categories of the prompts, for cross-validation.
	Categories []string
	// Files replaces {fit}, {models} and {artefacts} in the commands of artefacts; names that it lacks stay.
	Files map[string]string
}

// Groups returns the tables of a suite for a pair; a table that names its pairs is left out for another one. The pair
// "" has all tables.
func (f *SuiteFile) Groups(pair string, o SuiteOptions) ([]Group, error) {
	if o.MaxNodes == 0 {
		o.MaxNodes = 64
	}
	makes := map[string]string{}
	if err := f.eachArtefact(&o, func(a Artefact) error { makes[a.File] = a.Make; return nil }); err != nil {
		return nil, err
	}
	classifier := ""
	if i := slices.IndexFunc(f.Pairs, func(p SuitePair) bool { return p.Name == pair }); i >= 0 {
		classifier = f.Pairs[i].Classifier
	}
	var groups []Group
	for i := range f.Tables {
		t := &f.Tables[i]
		if pair != "" && len(t.Pairs) > 0 && !slices.Contains(t.Pairs, pair) { // bound: pairs of a file
			continue
		}
		b := &groupBuilder{o: o, makes: makes, c2t: classifier, repeat: cmp.Or(o.Repeat, t.Repeat), group: Group{
			MaxTokens: t.MaxTokens,
			Name:      SuitesName + "/" + t.Name, Title: t.Title, Against: map[string]string{}, Figures: t.Figures,
			Note: t.Note, Categories: t.Categories}}
		err := b.rows(t.Rows, variables{}, "rows")
		for _, patterns := range []struct {
			of   []string
			into *[]string
		}{{t.Curve, &b.group.Curve}, {t.OnCurve, &b.group.OnCurve}} {
			if err == nil {
				*patterns.into, err = b.matching(patterns.of)
			}
		}
		if err == nil {
			err = b.resolve()
		}
		if err != nil {
			return nil, fmt.Errorf("foretoken: suite %s: table %s: %w", quote.Name(f.File), quote.Name(t.Name), err)
		}
		groups = append(groups, b.group)
	}
	return groups, nil
}

// MethodsOf returns the methods of groups, each once with the most repetitions of any group. One name for two
// requests is an error.
func MethodsOf(groups []Group) ([]Method, error) {
	var all []Method
	at := map[string]int{}
	for _, g := range groups {
		for _, m := range g.Methods {
			i, known := at[m.Name]
			if !known {
				at[m.Name] = len(all)
				all = append(all, m)
				continue
			}
			if a, b := describeMethod(&all[i]), describeMethod(&m); a != b {
				return nil, fmt.Errorf(
					"foretoken: the name %q stands for two methods in the suite: %s and %s", m.Name, a, b)
			}
			all[i].Repeat = max(all[i].Repeat, m.Repeat)
		}
	}
	return all, nil
}

func describeMethod(m *Method) string {
	b, _ := json.Marshal([]any{m.Request.Config(), m.sampling(), m.Missing, m.Request.Fitted.Files()})
	return string(b)
}

// variables are the values of the names that a list of rows is repeated for.
type variables map[string]any

// in replaces {name} by the variable's value.
func (v variables) in(text string) (string, error) {
	var out strings.Builder
	for {
		open := strings.IndexByte(text, '{')
		if open < 0 {
			return out.String() + text, nil
		}
		end := strings.IndexByte(text[open:], '}')
		if end < 0 {
			return out.String() + text, nil
		}
		name := text[open+1 : open+end]
		value, known := v[name]
		if !known {
			return "", fmt.Errorf("%.200q names {%.80s}, which no \"for\" around it has", text, name)
		}
		out.WriteString(text[:open] + textOf(value))
		text = text[open+end+1:]
	}
}

func textOf(value any) string {
	if x, ok := value.(float64); ok {
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return fmt.Sprint(value)
}

// with calls work for each value of the variables of repeat, which have equally many.
func (v variables) with(repeat map[string][]any, o *SuiteOptions, work func(variables) error) error {
	values, n := map[string][]any{}, -1
	for name, list := range repeat {
		switch {
		case name == "category" && len(list) == 1 && list[0] == "*":
			list = nil
			for _, c := range o.Categories {
				list = append(list, c)
			}
		case name == "nodes":
			var err error
			if list, err = atMost(list, o.MaxNodes); err != nil {
				return err
			}
		}
		if n >= 0 && len(list) != n {
			return fmt.Errorf("\"for\" has lists of %d and %d values, want equally many", n, len(list))
		}
		if _, outer := v[name]; outer {
			return fmt.Errorf("\"for\" repeats %.80q within its own repetition", name)
		}
		n, values[name] = len(list), list
	}
	for i := range max(n, 0) {
		now := variables{}
		for name, value := range v {
			now[name] = value
		}
		for name, list := range values {
			now[name] = list[i]
		}
		if err := work(now); err != nil {
			return err
		}
	}
	return nil
}

// atMost limits numbers of nodes to what one pass verifies, each once.
func atMost(list []any, most int) ([]any, error) {
	var out []any
	for _, v := range list {
		x, ok := v.(float64)
		if !ok || x != float64(int(x)) {
			return nil, fmt.Errorf("\"for\" has nodes %v, want whole numbers", v)
		}
		if x = min(x, float64(most)); !slices.Contains(out, any(x)) { // bound: rows of a table
			out = append(out, x)
		}
	}
	return out, nil
}

type groupBuilder struct {
	o      SuiteOptions
	group  Group // MaxTokens: the table's
	repeat int
	makes  map[string]string // the command that makes an artefact
	c2t    string            // the pair's artefact with a classifier
}

// rows adds rows, repeated ones for each value.
func (b *groupBuilder) rows(rows []SuiteRow, v variables, at string) error {
	for i := range rows {
		r, at := &rows[i], fmt.Sprintf("%s[%d]", at, i)
		var err error
		if r.For != nil {
			err = v.with(r.For, &b.o, func(v variables) error { return b.rows(r.Rows, v, at+".rows") })
		} else {
			err = b.row(r, v)
		}
		if err != nil {
			if strings.HasPrefix(err.Error(), "rows[") {
				return err // which names the inner row
			}
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}

// row adds a method and compares it with the row called against at the same temperature, unless that is "".
func (b *groupBuilder) row(r *SuiteRow, v variables) error {
	text := map[*string]string{}
	for _, s := range []*string{&r.Name, &r.Method, &r.Against, &r.Bins, &r.Classifier, &r.Acceptance} {
		var err error
		if text[s], err = v.in(*s); err != nil {
			return err
		}
	}
	common := b.o.Common
	common.MaxTokens = cmp.Or(b.o.MaxTokens, b.group.MaxTokens, common.MaxTokens)
	common.Temperature = r.Temperature
	if t, outer := v["temperature"]; outer {
		x, ok := t.(float64)
		if !ok || r.Temperature != 0 {
			return fmt.Errorf("field temperature: \"for\" gives %v, and the row %g; want one number", t, r.Temperature)
		}
		common.Temperature = x
	}
	name, against := text[&r.Name], text[&r.Against]
	if t := common.Temperature; t != 0 { // part of the name
		name += fmt.Sprintf(" T=%g", t)
		if against != "" {
			against += fmt.Sprintf(" T=%g", t)
		}
	}
	if b.group.MaxTokens > 0 && b.o.MaxTokens == 0 { // another method than the row of this name in other tables
		length := fmt.Sprintf(" (%d tokens)", b.group.MaxTokens)
		if name += length; against != "" {
			against += length
		}
	}
	ms, err := ParseMethods(text[&r.Method], common)
	if err == nil && len(ms) != 1 {
		err = fmt.Errorf("%q is not one method", text[&r.Method])
	}
	if err != nil {
		return fmt.Errorf("field method: %w", err)
	}
	m := &ms[0]
	m.Name, m.Repeat = name, b.repeat
	if c := m.Request.Config(); c.Source == "" && (c.UsesDraftModel() || c.WeighsCosts()) {
		m.Request.Source = b.o.Source
	}
	if slices.ContainsFunc(b.group.Methods, func(known Method) bool { return known.Name == name }) { // bound: rows
		return fmt.Errorf("field name: the table has two rows %q", name)
	}
	if file := text[&r.Bins]; file != "" {
		b.bins(m, file)
	}
	file := text[&r.Classifier]
	if m.Request.Config().Adapt == method.AdaptC2T {
		file = cmp.Or(file, b.c2t)
	}
	if file != "" {
		b.classifier(m, file, r.AnyPair)
	}
	if file := text[&r.Acceptance]; file != "" {
		b.acceptance(m, file)
	}
	b.group.Methods, b.group.Rows = append(b.group.Methods, *m), append(b.group.Rows, name)
	if against != "" && against != name {
		b.group.Against[name] = against
	}
	return nil
}

// resolve checks that the rows that others are compared with are there.
func (b *groupBuilder) resolve() error {
	for _, name := range slices.Sorted(maps.Keys(b.group.Against)) {
		against := b.group.Against[name]
		if !slices.ContainsFunc(b.group.Methods, func(m Method) bool { return m.Name == against }) { // bound: rows²
			return fmt.Errorf("the row %q is compared with %q, which is no row of the table", name, against)
		}
	}
	return nil
}

// matching returns the names of rows that patterns match, in which * stands for any text.
func (b *groupBuilder) matching(patterns []string) (names []string, err error) {
	for _, p := range patterns {
		first, last, star := strings.Cut(p, "*")
		n := len(names)
		for _, m := range b.group.Methods {
			if m.Name == p || star && len(m.Name) >= len(first)+len(last) && strings.HasPrefix(m.Name, first) &&
				strings.HasSuffix(m.Name, last) {
				names = append(names, m.Name)
			}
		}
		if len(names) == n {
			return nil, fmt.Errorf("no row is called like %.200q", p)
		}
	}
	return names, nil
}

// artefact reads a file that a row needs, and marks the row as missing where there is none or use refuses it. It
// reports whether there is one.
func (b *groupBuilder) artefact(m *Method, file string, use func(data []byte) error) bool {
	b.group.Artefacts = append(b.group.Artefacts, file)
	var data []byte
	err := fs.ErrNotExist
	if b.o.Artefact != nil {
		data, err = b.o.Artefact(file)
	}
	if err == nil {
		err = use(data)
	}
	if errors.Is(err, fs.ErrNotExist) {
		m.Missing = fmt.Sprintf("needs the file %s among the artefacts", file)
		if how := b.makes[file]; how != "" {
			m.Missing += "; make it with foretoken " + how + " --out " +
				cmp.Or(b.o.Files["artefacts"], "DIR") + "/" + file
		}
	} else if err != nil {
		m.Missing = err.Error()
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// classifier sets C2T's classifier from a file.
func (b *groupBuilder) classifier(m *Method, file string, anyPair bool) {
	b.artefact(m, file, func(data []byte) error {
		c, err := adapt.ParseC2T(file, data)
		if err == nil && !anyPair && b.o.Pair != (spec.Fingerprint{}) {
			err = c.Matches(b.o.Pair)
		}
		if err == nil {
			m.Request.Fitted.C2T = c
		}
		return err
	})
}

// bins sets a method's entropy bins from a file.
func (b *groupBuilder) bins(m *Method, file string) {
	b.artefact(m, file, func(data []byte) error {
		h, err := adapt.ParseHetero(file, data)
		if c := m.Request.Config(); err == nil && b.o.Pair != (spec.Fingerprint{}) {
			err = h.Matches(b.o.Pair.WithTree(c.TopK, c.Depth, c.Nodes))
		}
		if err == nil {
			m.Request.Fitted.Hetero = h
		}
		return err
	})
}

// acceptance sets a method's acceptance head from a file, which must be for how the method drafts and verifies. Without
// the file the method has the pair's own.
func (b *groupBuilder) acceptance(m *Method, file string) {
	if !b.artefact(m, file, func(data []byte) error {
		h, err := adapt.ParseAcceptance(file, data)
		use := m.Request.Config().AcceptanceUse(m.Request.Sampling().Temperature)
		if err == nil && b.o.Pair != (spec.Fingerprint{}) {
			err = h.Matches(b.o.Pair, use)
		}
		if err == nil {
			err = h.Covers(use)
		}
		if err == nil {
			m.Request.Fitted.Head = h
		}
		return err
	}) {
		m.Missing = ""
	}
}
