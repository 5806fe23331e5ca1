package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"foretoken"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
)

// Group is a table of a suite: methods to compare with each other.
type Group struct {
	Name    string // such as papers/mars
	Title   string
	Methods []Method
	// Against maps a method to the row it is compared with, if any.
	Against map[string]string
	// Curve names the rows of the curve of Tokens over acceptance length, and OnCurve the rows compared with it at
	// their own acceptance length.
	Curve, OnCurve []string
	Figures        []string // figures of the group: see the Figure constants
	Note           string   // how to read it
}

// The figures of a group.
const (
	FigureEntropy   = "entropy"   // acceptance by entropy of the draft's distribution
	FigurePhi       = "phi"       // Φ by entropy bin
	FigureTCR       = "tcr"       // TCR by entropy bin
	FigureEstimates = "estimates" // the acceptance head's calibration curve and AUC
	FigureDecision  = "decision"  // what HeteroSpec's decision costs: time, submits a round, rounds in one submit
)

// SuiteOptions configures a suite.
type SuiteOptions struct {
	Common   foretoken.Request // length and sampling of every request; a suite sets its own temperatures
	Repeat   int               // repetitions; 0: what each group needs
	MaxNodes int               // nodes the target verifies in one pass; 0: 64
	// Pair identifies the models, so that artefacts of another pair are refused; the zero value accepts any.
	Pair spec.Fingerprint
	// Artefact reads a file that only some rows need (a classifier trained in another way), or returns
	// fs.ErrNotExist. Nil: no artefacts.
	Artefact func(name string) ([]byte, error)
	// Categories of the prompts, for cross-validation.
	Categories []string
}

// SuiteNames returns the suites and their groups.
func SuiteNames() []string {
	names := []string{"papers"}
	for _, g := range papers {
		names = append(names, "papers/"+g.name)
	}
	return names
}

// Suite returns the groups of a suite, or the one group of that name.
func Suite(name string, o SuiteOptions) ([]Group, error) {
	if o.MaxNodes == 0 {
		o.MaxNodes = 64
	}
	o.Common.Temperature = 0
	var groups []Group
	for _, p := range papers {
		full := "papers/" + p.name
		if name != "papers" && name != full {
			continue
		}
		b := &groupBuilder{o: o, group: Group{Name: full, Title: p.title, Against: map[string]string{}},
			repeat: p.repeat}
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

type groupBuilder struct {
	o      SuiteOptions
	group  Group
	repeat int
	// temperature of the added rows; above 0 it is part of their names.
	temperature float64
	err         error
}

// add adds a method, given as in ParseMethods, under a name, and compares it with the row called against at the
// same temperature, unless that is "".
func (b *groupBuilder) add(name, method, against string) *Method {
	common := b.o.Common
	common.Temperature = b.temperature
	if b.temperature != 0 {
		name += fmt.Sprintf(" T=%g", b.temperature)
		if against != "" {
			against += fmt.Sprintf(" T=%g", b.temperature)
		}
	}
	ms, err := ParseMethods(method, common)
	if err == nil && len(ms) != 1 {
		err = fmt.Errorf("%q is not one method", method)
	}
	if err != nil {
		b.err = errors.Join(b.err, err)
		return &Method{}
	}
	m := ms[0]
	m.Name, m.Repeat = name, b.repeat
	b.group.Methods = append(b.group.Methods, m)
	if against != "" && against != name {
		b.group.Against[name] = against
	}
	return &b.group.Methods[len(b.group.Methods)-1]
}

// plainAt adds plain decoding at the temperature of the rows that follow.
func (b *groupBuilder) plainAt(temperature float64) {
	b.temperature = temperature
	b.add(PlainName, method.DrafterNone, "")
}

// artefact reads a file that a row needs, and marks the row as missing where there is none or use refuses it.
func (b *groupBuilder) artefact(m *Method, file, how string, use func(data []byte) error) {
	var data []byte
	err := fs.ErrNotExist
	if b.o.Artefact != nil {
		data, err = b.o.Artefact(file)
	}
	if err == nil {
		err = use(data)
	}
	if errors.Is(err, fs.ErrNotExist) {
		m.Missing = fmt.Sprintf("needs the file %s among the artefacts; %s", file, how)
	} else if err != nil {
		m.Missing = err.Error()
	}
}

// c2t adds a row of C2T at β=0.5 with the classifier of a file, compared with the row of the pair's own.
func (b *groupBuilder) c2t(name, file, how string, anyPair bool) {
	m := b.add(name, "c2t:threshold=0.5", c2tBase)
	b.artefact(m, file, how, func(data []byte) error {
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
func (b *groupBuilder) bins(m *Method, file, how string) {
	b.artefact(m, file, how, func(data []byte) error {
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

// TokensAt returns the tokens per pass that the rows of a curve need for an acceptance length, interpolated
// linearly; ok is false beyond its ends.
func TokensAt(curve []*Row, length float64) (tokens float64, ok bool) {
	type point struct{ x, y float64 }
	var points []point
	for _, r := range curve {
		if r.Calls.Mean > 0 {
			points = append(points, point{r.AcceptanceLength.Mean, r.Tokens.Mean / r.Calls.Mean})
		}
	}
	// Of several trees with equal acceptance length, use the smallest.
	slices.SortFunc(points, func(a, b point) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) })
	i := slices.IndexFunc(points, func(p point) bool { return p.x >= length })
	if i < 0 || i == 0 && points[0].x > length {
		return 0, false
	}
	p := points[i]
	if p.x == length {
		return p.y, true
	}
	q := points[i-1]
	return q.y + (p.y-q.y)*(length-q.x)/(p.x-q.x), true
}
