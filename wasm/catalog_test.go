package main

import (
	"strings"
	"testing"

	"foretoken"
	"foretoken/bench"
	"foretoken/spec/method"
)

func TestCatalogNamesEveryVerifierOfAMethod(t *testing.T) {
	c := newCatalog()
	exactness := map[string]method.Exactness{}
	for _, v := range c.Verifiers {
		exactness[v.Name] = v.Exactness
	}
	for _, m := range c.Methods {
		got := exactness[m.Config.Verifier]
		if got == "" {
			t.Errorf("%s: the catalog has no verifier %q", m.Name, m.Config.Verifier)
		}
		if m.Lossy != (got == method.Lossy) {
			t.Errorf("%s is lossy: %v, its verifier: %s", m.Name, m.Lossy, got)
		}
	}
	if len(c.Methods) != len(method.All()) {
		t.Errorf("%d methods, want %d", len(c.Methods), len(method.All()))
	}
}

func TestRequestTakesTheSettingsOfItsMethod(t *testing.T) {
	r, err := readRequest([]byte(`{"prompt": "x", "policy": "mars", "theta": 0.85, "temperature": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	if r.Verifier != "" || r.Depth != 0 || r.Nodes != 0 {
		t.Errorf("settings of the default's method are left: %+v", r.Request)
	}
	if m := (bench.Method{Request: r.Request}); !m.Lossy() {
		t.Error("mars is not lossy")
	}
	d := foretoken.DefaultRequest()
	if r.Theta != 0.85 || r.Temperature != 1 || r.MaxTokens != d.MaxTokens || r.Seed != d.Seed {
		t.Errorf("the request is %+v", r.Request)
	}
	r, err = readRequest([]byte(`{"prompt": "x", "max_tokens": 3}`))
	if err != nil || r.Policy != d.Policy || r.Depth != d.Depth || r.MaxTokens != 3 {
		t.Errorf("without a policy: %+v, %v", r.Request, err)
	}
	r, err = readRequest([]byte(`{"policy": "eagle2", "verifier": "match", "coupled": false, "shape": [[2],[1,1]]}`))
	if err != nil || r.Verifier != method.VerifierMatch || r.Coupled == nil || *r.Coupled || len(r.Shape) != 2 {
		t.Errorf("%+v, %v", r.Request, err)
	}
	biases, err := readBiases([]byte(`[{}, {"7": -100, "8": 1.5}]`))
	if err != nil || len(biases) != 2 || len(biases[0]) != 0 || len(biases[1]) != 2 {
		t.Errorf("%v, %v", biases, err)
	}
	for _, answer := range []string{`null`, `{}`, `[1]`, `[{"a": 1}]`, `[{"7": "x"}]`, `[{"7": 1e99}]`} {
		if biases, err := readBiases([]byte(answer)); err == nil && len(biases) > 0 {
			t.Errorf("%s: %v", answer, biases)
		}
	}
	if _, err := readRequest([]byte(`{"treshold": 1}`)); err == nil || !strings.Contains(err.Error(), "treshold") {
		t.Errorf("a misspelt setting: %v", err)
	}
}

func TestMatrix(t *testing.T) {
	p, err := readMatrix([]byte(`{"methods": "none,mars:theta=0.84", "prompts": [{"id": "go-1", "prompt": ` +
		`"x"}], "repeat": 2, "request": {"max_tokens": 8}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Methods) != 2 || !p.Methods[1].Lossy() || p.Methods[1].Request.Theta != 0.84 ||
		p.Methods[1].Request.MaxTokens != 8 ||
		p.Methods[1].Request.Seed == 0 || p.Prompts[0].Category != "go" || p.Repeat != 2 {
		t.Errorf("the matrix is %+v", p)
	}
	for body, want := range map[string]string{
		`{"methods": "none", "prompts": [{"id": "a", "prompt": "x"}, {"id": "a", "prompt": "y"}]}`: "two have the id",
		`{"methods": "none", "prompts": ` +
			`[{"id": "a"}]}`: "prompts is wrong: number 1 needs an id",
		`{"methods": "nine", "prompts": []}`: "methods is wrong: unknown method",
		`{"method": "none"}`:                 "method is unknown; did you mean methods?",
	} {
		if _, err := readMatrix([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}
