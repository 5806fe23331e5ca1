//go:build !js

package bench

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"foretoken"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
)

func TestEverySuiteHoldsTogether(t *testing.T) {
	groups, err := Suite("papers", SuiteOptions{Common: foretoken.Request{MaxTokens: 8, Seed: 1, Temperature: 0.7},
		Categories: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(groups)+1 != len(SuiteNames()) {
		t.Errorf("%d groups for the names %v", len(groups), SuiteNames())
	}
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
	for _, g := range groups {
		has := func(name string) bool {
			return slices.ContainsFunc(g.Methods, func(m Method) bool { return m.Name == name })
		}
		named := append(slices.Clone(g.Curve), g.OnCurve...)
		for of, base := range g.Against {
			named = append(named, of, base)
		}
		for _, name := range named {
			if !has(name) {
				t.Errorf("%s speaks of %q, which is none of its rows", g.Name, name)
			}
		}
		if len(g.Methods) < 2 || g.Title == "" {
			t.Errorf("%s has %d rows and the title %q", g.Name, len(g.Methods), g.Title)
		}
		one, err := Suite(g.Name, SuiteOptions{Categories: []string{"a", "b"}, Repeat: 4})
		if err != nil || len(one) != 1 || len(one[0].Methods) != len(g.Methods) || one[0].Methods[0].Repeat != 4 {
			t.Errorf("%s alone: %d groups, %v", g.Name, len(one), err)
		}
	}
	if _, err := Suite("papers/none", SuiteOptions{}); err == nil || !strings.Contains(err.Error(), "papers/mars") {
		t.Errorf("an unknown suite: %v", err)
	}
}

func TestSuiteSaysWhichFilesAreMissing(t *testing.T) {
	good := jointCut(0.3)
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
		g, err := Suite("papers/c2t-transfer",
			SuiteOptions{Artefact: read, Categories: []string{"a", "b"}, Pair: c.pair})
		if err != nil {
			t.Fatal(err)
		}
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

func TestJointCutIsAThresholdOnProbability(t *testing.T) {
	c := jointCut(0.3)
	for _, v := range []struct {
		p    float64
		keep bool
	}{{0.01, false}, {0.29, false}, {0.31, true}, {0.9, true}} {
		if got := c.Confidence(adapt.C2TFeatures{Probability: v.p, Entropy: 3, Depth: 4}) > 0.5; got != v.keep {
			t.Errorf("a joint probability of %v: kept is %v", v.p, got)
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
