package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestVerdicts judges instances of schemas.
func TestVerdicts(t *testing.T) {
	const named = `{"properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"boolean"}},` +
		`"required":["b"],"additionalProperties":false}`
	const free = `{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":{"type":"null"},` +
		`"required":["a"]}`
	for _, c := range []struct{ schema, instance, want string }{
		{named, `{"a":1,"b":"x","c":true}`, allowed},
		{named, ` { "b" : "x" } `, allowed},
		{named, `{"c":true,"b":"x"}`, otherOrder},
		{named, `{"c":true,"b":"x","a":1}`, otherOrder},
		{named, `{"c":true,"a":1}`, refused},
		{named, `{"b":1}`, refused},
		{named, `{"d":1,"b":"x"}`, refused},
		{named, `[]`, refused},
		{free, `{"x":null,"y":null,"a":1}`, otherOrder},
		{free, `{"x":null,"y":1,"a":1}`, refused},
		{free, `{` + strings.Join(names(40, "null"), ",") + `,"a":1}`, otherOrder},
		{free, `{"a":1,` + strings.Join(names(40, "null"), ",") + `}`, allowed},
		{free, `{` + strings.Join(names(40, "null"), ",") + `}`, refused},
		{`{"type":"array","items":` + named + `}`, `[{"b":"x"},{"c":false,"b":""},{"b":"y","a":2}]`, otherOrder},
		{`{"type":"array","items":` + named + `}`, `[{"b":"x"},{"c":false,"b":""},{"a":2}]`, refused},
		// The order decides which alternative goes on.
		{`{"anyOf":[{"properties":{"a":{"type":"integer"},"b":{"type":"integer"},"c":{"type":"integer"}},` +
			`"required":["a","b","c"]},{"properties":{"b":{"type":"integer"},"a":{"type":"integer"},` +
			`"c":{"type":"string"}},"required":["a","b","c"]}]}`, `{"a":1,"b":2,"c":"x"}`, otherOrder},
		{`{"type":"integer"}`, `5.0`, allowed},
		{`{"type":"integer"}`, `12e2`, allowed},
		{`{"type":"integer"}`, `-0.0`, allowed},
		{`{"type":"integer"}`, `5.5`, refused},
		{`{"enum":[100]}`, `1.00E+2`, allowed},
		{`{"enum":["é\n\u0001"]}`, `"\u00e9\n\u0001"`, allowed},
		{`{"enum":["a\n"]}`, `"a"`, refused},
		{`{"type":"string"}`, `"\ud83d"`, unreadable},
		{`{"type":"object"}`, `{"a":1,"a":2}`, unreadable},
		{`{"type":"array","items":{"type":"array","items":{"type":"null"}}}`, `[[],[null,null]]`, allowed},
		{`true`, `{"a":[{"b":{}}]}`, allowed},
	} {
		q := question{Schema: json.RawMessage(c.schema), Instances: []json.RawMessage{json.RawMessage(c.instance)}}
		if a := q.answer(1, false); !slices.Equal(a.Verdicts, []string{c.want}) {
			t.Errorf("%.200s of %s is %v %s, want %s", c.instance, c.schema, a.Verdicts, a.Error, c.want)
		}
	}
}

func names(n int, value string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(`"n%d":%s`, i, value))
	}
	return all
}

// TestSpellings holds the spellings of numbers to their values.
func TestSpellings(t *testing.T) {
	for text, want := range map[string]string{
		"5": "5 5e0", "5.0": "5 5e0", "1e2": "100 1e2", "1E-7": "0.0000001 1e-7", "-12.50": "-12.5 -1.25e1",
		"0e5": "0 -0 0.0", "0.001": "0.001 1e-3", "100e-1": "10 1e1", "1e999": "1e999 1e+999", "-1e-999": "-1e-999",
		"1e99999999999999999999": "1e99999999999999999999",
	} {
		if got := strings.Join(spellings(text), " "); got != want {
			t.Errorf("%s is spelled %s, want %s", text, got, want)
		}
	}
}

// TestLines reads questions and writes answers.
func TestLines(t *testing.T) {
	in := `{"id":7,"schema":{"type":"integer"},"instances":[1,"a",2.50]}
{"id":"x","schema":{"$ref":"nowhere"},"instances":[1]}
{"schema":`
	var out bytes.Buffer
	if err := lines(strings.NewReader(in), &out, true); err != nil {
		t.Fatal(err)
	}
	var all []answer
	for line := range strings.Lines(out.String()) {
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	if len(all) != 3 {
		t.Fatalf("%d answers: %s", len(all), out.String())
	}
	if a := all[0]; string(a.ID) != "7" || !slices.Equal(a.Verdicts, []string{allowed, refused, refused}) ||
		!slices.Equal(a.Texts, []string{"1", "", ""}) || a.CompileUS <= 0 {
		t.Errorf("%+v", a)
	}
	if a := all[1]; string(a.ID) != `"x"` || a.Error == "" || a.Verdicts != nil {
		t.Errorf("%+v", a)
	}
	if !strings.Contains(all[2].Error, "cannot be read") {
		t.Errorf("%+v", all[2])
	}
}

// TestSample counts the verdicts on a small sample.
func TestSample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sample.jsonl.gz")
	var file bytes.Buffer
	w := gzip.NewWriter(&file)
	fmt.Fprintln(w, `{"name":"a","schema":{"properties":{"x":{"type":"null"},"y":{"type":"null"}}},`+
		`"tests":[{"valid":true,"data":{"x":null}},{"valid":true,"data":{"y":null,"x":null}},`+
		`{"valid":false,"data":{"x":1}}]}`)
	fmt.Fprintln(w, `{"name":"b","schema":{"type":"integer"},"tests":[{"valid":true,"data":0.5}],"more":1}`)
	fmt.Fprintln(w, `{"name":"c","schema":{"type":"integer"},"tests":[{"valid":false,"data":7}]}`)
	fmt.Fprintln(w, `{"name":"d","schema":{"items":{"$ref":"other"}},"tests":[]}`)
	fmt.Fprintln(w, `{"name":"e","schema":true,"tests":[]}`)
	if err := errors.Join(w.Close(), os.WriteFile(path, file.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	all, err := readSample(path)
	if err != nil {
		t.Fatal(err)
	}
	c := measure(all, false)
	got := fmt.Sprint(c.Schemas, c.Right, c.Written, c.Failed, c.Refusing, c.Allowing, c.Valid, c.Refused, c.Order,
		c.Invalid, c.Allowed)
	if got != "5 2 1 1 1 1 3 1 1 2 1" || len(c.wrong) != 3 || c.Keywords["$ref"] != 1 {
		t.Errorf("%s, wrong %q, %v", got, c.wrong, c.Keywords)
	}
}
