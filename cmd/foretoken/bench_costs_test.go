//go:build !js

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foretoken/bench"
)

func TestParseRows(t *testing.T) {
	for s, want := range map[string][]int{
		"1-32": {1, 2, 3, 4, 6, 8, 12, 16, 24, 32}, "1,5,7": {1, 5, 7}, "8, 2-5": {2, 3, 4, 5, 8}, "3": {3},
		"64-200": {64, 200},
	} {
		if got, err := parseRows(s); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "4-2", "1-", "-3", "a", "1,,2", "1-2000"} {
		if got, err := parseRows(s); err == nil {
			t.Errorf("%q gives %v", s, got)
		}
	}
}

func TestVerifyCost(t *testing.T) {
	file := filepath.Join(t.TempDir(), "costs.json")
	o := call(t, "", "bench", "verify-cost", "--device", "cpu", "--context", "96", "--rows", "1,4", "--tokens", "2",
		"--repeat", "1", "--length", "8,5", "--max-tokens", "8", "--json", file)
	if o.code != exitOK {
		t.Fatal(o.err)
	}
	for _, want := range []string{"T(M)/T(1)", "T_d(K)/T(1)", "ceiling over 1 texts: ", "8 tokens in the cache",
		"after 5, ms"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("%q is missing in:\n%s", want, o.out)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.CostReport
	if err := json.Unmarshal(b, &r); err != nil || len(r.Verify) != 2 || len(r.Chain) != 2 || r.Best.Speedup < 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestBenchProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "profile.json")
	o := call(t, "", "bench", "--profile", "--device", "cpu", "--context", "96", "--draft", "none", "--rows", "2",
		"--max-tokens", "6", "--methods", "none:name=plain", "--json", file)
	if o.code != exitOK {
		t.Fatal(o.err)
	}
	for _, want := range []string{"Rounds, ms each", "plain step: ", "verification of 2 rows: ", "matmul", "share"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("%q is missing in:\n%s", want, o.out)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.ProfileReport
	if err := json.Unmarshal(b, &r); err != nil || len(r.Passes) != 2 || len(r.Rounds) != 1 ||
		r.Rounds[0].Submits != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestMeasuringRefuses(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"bench verify-cost --rows 0", "--rows"},
		{"bench verify-cost --repeat 0", "--repeat"},
		{"bench verify-cost --length 8,0", "--length"},
		{"bench verify-cost --json=", "--json"},
		{"bench verify-cost --json /nowhere/x.json", "/nowhere"},
		{"bench --rows 4 --prompts x", "--profile"},
		{"bench --profile --suite papers", "--suite"},
		{"bench --profile --rows 0", "--rows"},
		{"bench --profile --device cpu --rows 99", "99"},
	} {
		o := call(t, "", strings.Fields(c.args)...)
		lines := strings.Split(strings.TrimSuffix(o.err, "\n"), "\n")
		lines = slices.DeleteFunc(lines, func(line string) bool { // a busy machine takes long to load
			return strings.HasPrefix(line, "foretoken: note: loading ")
		})
		if o.code == exitOK || !strings.Contains(o.err, c.want) || len(lines) != 1 {
			t.Errorf("%s: exit %d, %q; want %q in one line", c.args, o.code, o.err, c.want)
		}
	}
}
