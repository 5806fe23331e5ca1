//go:build !js

package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestConstraintFlags(t *testing.T) {
	schema := `{"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":99}},"required":["n"]}`
	grammar := `root ::= "<" [a-z]{2,4} ">"`
	for _, args := range [][]string{{"--json-schema", schema},
		{"--json-schema-file", write(t, "s.json", []byte(schema))}} {
		r := results(t, generate(t, "", append([]string{"--prompt", testPrompt, "--json"}, args...)...))[0]
		var v struct{ N int }
		if err := json.Unmarshal([]byte(r.Text), &v); err != nil || v.N < 1 || v.N > 99 || r.Finish != "stop" {
			t.Errorf("%v: %q (%s): %v", args[0], r.Text, r.Finish, err)
		}
	}
	for _, args := range [][]string{{"--grammar", grammar},
		{"--grammar-file", write(t, "g.gbnf", []byte(grammar)), "--frequency-penalty", "1"}} {
		if o := generate(t, "", append([]string{"--prompt", testPrompt}, args...)...); !regexp.MustCompile(
			`^<[a-z]{2,4}>`).MatchString(strings.TrimPrefix(o.out, testPrompt)) {
			t.Errorf("%v: %q, %s", args[0], o.out, o.err)
		}
	}
	const left = "/properties/n/uniqueItems"
	open := []string{"--prompt", testPrompt, "--json-open", "--json-compact", "--unchecked", "uniqueItems",
		"--json-schema", `{"type":"object","properties":{"n":{"type":"array","uniqueItems":true}}}`}
	if r := results(t, generate(t, "", append(open, "--json")...))[0]; !slices.Equal(r.Unchecked, []string{left}) {
		t.Errorf("unchecked %v", r.Unchecked)
	}
	if o := generate(t, "", open...); o.code != exitOK || !strings.Contains(o.err, "unchecked in the schema: "+left) {
		t.Errorf("code %d, %s", o.code, o.err)
	}
	free := results(t, generate(t, "", "--prompt", testPrompt, "--max-tokens", "3", "--json"))[0]
	biased := results(t, generate(t, "", "--prompt", testPrompt, "--max-tokens", "3", "--json", "--logit-bias",
		"77=100", "--logit-bias", "5 = -3"))[0]
	if biased.TokenIDs[0] != 77 || free.TokenIDs[0] == 77 {
		t.Errorf("with a bias %v, without %v", biased.TokenIDs, free.TokenIDs)
	}
	for want, args := range map[string][]string{
		"give one of them":                       {"--grammar", grammar, "--grammar-file", "x"},
		"only one can be asked":                  {"--grammar", grammar, "--json-object"},
		"no such file":                           {"--json-schema-file", "missing.json"},
		"line 1":                                 {"--grammar", "root ::= ["},
		"$dynamicRef":                            {"--json-schema", `{"$dynamicRef":"#x"}`},
		"--unchecked names":                      {"--unchecked", "uniqueItems,minimum"},
		"such as 15=-100":                        {"--logit-bias", "77"},
		"want -100 to 100":                       {"--logit-bias", "77=200"},
		"--frequency-penalty is 3, want -2 to 2": {"--frequency-penalty", "3"},
		"names token 99999":                      {"--logit-bias", "99999=1"},
		"is empty":                               {"--grammar-file", write(t, "empty.gbnf", nil)},
	} {
		if o := generate(t, "", append([]string{"--prompt", testPrompt}, args...)...); o.code == exitOK ||
			!strings.Contains(o.err, want) {
			t.Errorf("%v: code %d, %q, want %q", args, o.code, o.err, want)
		}
	}
}
