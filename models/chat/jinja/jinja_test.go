package jinja

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// cases holds what Python's jinja2 makes of many small templates: see testdata/expect.py.
//
// TestNumbers reads numbers of JSON and writes them. Digits beyond a float64 stay as they came, where Python rounds.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"-0": "0", "1.50": "1.5", "1E5": "100000.0", "0e9": "0.0", "-0.0": "-0.0", "100e-2": "1.0",
		"0.10000000000000000": "0.1",
		"9007199254740993":    "", "9223372036854775808": "", "-100000000000000000000": "", "0.1234567890123456789": "",
		"9007199254740993.0": "", "1e400": "", "-1e-400": "", "1e99999999999999999999": "",
	} {
		v, err := FromJSON([]byte("["+text+"]"), new(1000))
		if err != nil {
			t.Fatal(err)
		}
		p, _ := Parse("{{ v[0] }} {{ v | tojson }}")
		got, err := p.Render(NewDict().Set("v", v), Options{})
		if want = cmp.Or(want, text); got != want+" ["+want+"]" || err != nil {
			t.Errorf("%s is written as %s, %v", text, got, err)
		}
	}
}

//go:embed testdata/cases.json
var cases []byte

type corpus struct {
	Vars  json.RawMessage
	Cases []struct {
		Template string
		Want     *string // nil where jinja2 refuses
		Error    string
	}
}

func readCases(t testing.TB) (corpus, *Dict) {
	t.Helper()
	var c corpus
	if err := json.Unmarshal(cases, &c); err != nil {
		t.Fatal(err)
	}
	v, err := FromJSON(c.Vars, new(1000))
	if err != nil {
		t.Fatal(err)
	}
	return c, v.(*Dict)
}

func testNow() time.Time { return time.Date(2026, 3, 7, 5, 4, 9, 0, time.UTC) }

func render(template string, vars *Dict, l Limits) (string, error) {
	t, err := Parse(template)
	if err != nil {
		return "", err
	}
	return t.Render(vars, Options{Limits: l, Now: testNow})
}

func checkError(t testing.TB, err error) {
	t.Helper()
	if msg := err.Error(); !strings.HasPrefix(msg, "jinja: ") || strings.Contains(msg, "\n") || len(msg) > 800 {
		t.Errorf("error %q", msg)
	}
}

func TestLikePython(t *testing.T) {
	c, vars := readCases(t)
	refused := 0
	for _, c := range c.Cases {
		got, err := render(c.Template, vars, Limits{})
		if err != nil {
			checkError(t, err)
		}
		switch {
		case c.Want == nil && err == nil:
			t.Errorf("%q gives %q, jinja2 refuses it: %s", c.Template, got, c.Error)
		case c.Want == nil:
			refused++
		case err != nil:
			t.Errorf("%q: %v, want %q", c.Template, err, *c.Want)
		case got != *c.Want:
			t.Errorf("%q gives\n %q, want\n %q", c.Template, got, *c.Want)
		}
	}
	t.Logf("%d templates as jinja2 renders them, %d refused as there", len(c.Cases)-refused, refused)
}
