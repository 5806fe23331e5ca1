package foretoken

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"foretoken/spec"
)

// BenchGroup is a table of a suite: methods that are read side by side.
type BenchGroup struct {
	Name    string // such as papers/mars
	Title   string
	Methods []BenchMethod
	// Against names, per method, the row that it is compared with; methods without one stand
	// alone.
	Against map[string]string
	// Curve names the rows that make the curve of Tokens over acceptance length, and
	// OnCurve those that are compared with it at their own acceptance length.
	Curve, OnCurve []string
	Figures        []string // what figures the group shows: see the Figure constants
	Note           string   // how to read it
}

// The figures of a group.
const (
	FigureEntropy   = "entropy"   // acceptance by entropy of the draft's distribution
	FigurePhi       = "phi"       // Φ by entropy bin
	FigureTCR       = "tcr"       // TCR by entropy bin
	FigureEstimates = "estimates" // the acceptance head's calibration curve and AUC
	FigureDecision  = "decision"  // the time of HeteroSpec's decision as a share of decoding
)

// SuiteOptions say what a suite is made for.
type SuiteOptions struct {
	Common   Request // length and sampling of every request; a suite sets its own temperatures
	Repeat   int     // repetitions; 0: what each group needs
	MaxNodes int     // nodes the target verifies in one pass; 0: 64
	// Pair names the models, so that artefacts of another pair are refused; the zero value
	// asks nothing.
	Pair spec.Fingerprint
	// Artefact reads a file that only some rows need (a classifier trained in another way), or
	// answers fs.ErrNotExist. Nil: there are none.
	Artefact func(name string) ([]byte, error)
	// Categories of the prompts, for cross-validation.
	Categories []string
}

// SuiteNames are the suites and their groups.
func SuiteNames() []string {
	names := []string{"papers"}
	for _, g := range papers {
		names = append(names, "papers/"+g.name)
	}
	return names
}

// BenchSuite gives the groups of a suite, all or one.
func BenchSuite(name string, o SuiteOptions) ([]BenchGroup, error) {
	if o.MaxNodes == 0 {
		o.MaxNodes = 64
	}
	o.Common.Temperature = 0
	var groups []BenchGroup
	for _, p := range papers {
		full := "papers/" + p.name
		if name != "papers" && name != full {
			continue
		}
		b := &groupBuilder{o: o, group: BenchGroup{Name: full, Title: p.title, Against: map[string]string{}}, repeat: p.repeat}
		if o.Repeat > 0 {
			b.repeat = o.Repeat
		}
		p.build(b)
		if b.err != nil {
			return nil, fmt.Errorf("foretoken: suite %s: %w", full, b.err)
		}
		groups = append(groups, b.group)
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("foretoken: unknown suite %.80q, want one of %s", name, strings.Join(SuiteNames(), ", "))
	}
	return groups, nil
}

// MethodsOf are the methods of groups, each once with the most repetitions that a group
// asks for. Two groups that give one name to different requests are an error.
func MethodsOf(groups []BenchGroup) ([]BenchMethod, error) {
	var all []BenchMethod
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
				return nil, fmt.Errorf("foretoken: the name %q stands for two methods in the suite: %s and %s", m.Name, a, b)
			}
			all[i].Repeat = max(all[i].Repeat, m.Repeat)
		}
	}
	return all, nil
}

func describeMethod(m *BenchMethod) string {
	b, _ := json.Marshal([]any{m.Request.config(), m.sampling(), m.Missing, m.Request.Aids.Hetero, m.Request.Aids.C2T})
	return string(b)
}

// groupBuilder collects the methods of a group.
type groupBuilder struct {
	o      SuiteOptions
	group  BenchGroup
	repeat int
	err    error
}

// add puts a method in the group under a name, given as ParseBenchMethods takes it, and
// compares it with the row called against unless that is "".
func (b *groupBuilder) add(name, method, against string) *BenchMethod {
	ms, err := ParseBenchMethods(method, b.o.Common)
	if err == nil && len(ms) != 1 {
		err = fmt.Errorf("%q is not one method", method)
	}
	if err != nil {
		b.err = errors.Join(b.err, err)
		return &BenchMethod{}
	}
	m := ms[0]
	m.Name, m.Repeat = name, b.repeat
	b.group.Methods = append(b.group.Methods, m)
	if against != "" && against != name {
		b.group.Against[name] = against
	}
	return &b.group.Methods[len(b.group.Methods)-1]
}

// plain puts plain decoding in the group at a temperature.
func (b *groupBuilder) plain(temperature float64) {
	b.add(at(PlainName, temperature), fmt.Sprintf("none:temperature=%g", temperature), "")
}

// at names a row at a temperature.
func at(name string, temperature float64) string {
	if temperature == 0 {
		return name
	}
	return fmt.Sprintf("%s T=%g", name, temperature)
}

// read gives an artefact, or makes the row visibly missing.
func (b *groupBuilder) read(m *BenchMethod, file, how string) []byte {
	err := fs.ErrNotExist
	if b.o.Artefact != nil {
		var data []byte
		if data, err = b.o.Artefact(file); err == nil {
			return data
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		m.Missing = fmt.Sprintf("needs the file %s among the artefacts; %s", file, how)
	} else {
		m.Missing = err.Error()
	}
	return nil
}

// classifier gives a method the C2T classifier of a file.
func (b *groupBuilder) classifier(m *BenchMethod, file, how string, anyPair bool) {
	data := b.read(m, file, how)
	if data == nil {
		return
	}
	c, err := spec.ParseC2T(file, data)
	if err == nil && !anyPair && b.o.Pair != (spec.Fingerprint{}) {
		err = c.Matches(b.o.Pair)
	}
	if err != nil {
		m.Missing = err.Error()
		return
	}
	m.Request.Aids.C2T = c
}

// bins gives a method the entropy bins of a file.
func (b *groupBuilder) bins(m *BenchMethod, file, how string) {
	data := b.read(m, file, how)
	if data == nil {
		return
	}
	h, err := spec.ParseHetero(file, data)
	if err == nil && b.o.Pair != (spec.Fingerprint{}) {
		err = h.Matches(b.o.Pair.Shaped(m.Request.config()))
	}
	if err != nil {
		m.Missing = err.Error()
		return
	}
	m.Request.Aids.Hetero = h
}

// TokensAt is how many tokens a pass the rows of a curve need for an acceptance length, by
// straight lines between neighbours; ok is false beyond its ends.
func TokensAt(curve []*BenchRow, length float64) (tokens float64, ok bool) {
	type point struct{ x, y float64 }
	var points []point
	for _, r := range curve {
		if r.Calls.Mean > 0 {
			points = append(points, point{r.AcceptanceLength.Mean, r.Tokens.Mean / r.Calls.Mean})
		}
	}
	// Of several trees with one acceptance length, the smallest.
	slices.SortFunc(points, func(a, b point) int {
		switch {
		case a.x < b.x || a.x == b.x && a.y < b.y:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	for i, p := range points {
		if p.x == length {
			return p.y, true
		}
		if p.x > length {
			if i == 0 {
				return 0, false
			}
			q := points[i-1]
			return q.y + (p.y-q.y)*(length-q.x)/(p.x-q.x), true
		}
	}
	return 0, false
}
