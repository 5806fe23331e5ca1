package constrain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestConstraintsRefuse(t *testing.T) {
	for want, c := range map[string]Constraints{
		"only one":              {Grammar: `root ::= "a"`, JSONObject: true},
		"frequency_penalty is":  {FrequencyPenalty: 2.5},
		"presence_penalty is":   {PresencePenalty: -3},
		"logit_bias of token 3": {LogitBias: map[int32]float32{3: 101}},
		"line 1":                {Grammar: `root ::= [`},
		"$dynamicRef":           {JSONSchema: json.RawMessage(`{"$dynamicRef":"#x"}`)},
		"mean uniqueItems":      {Unchecked: []string{"uniqueitem"}},
		`names "minimum", want`: {Unchecked: []string{"minimum"}},
		"has 65 names":          {Unchecked: slices.Repeat([]string{"uniqueItems"}, 65)},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	// A form is compiled again where a setting changes what it means, and otherwise shared.
	form := Constraints{JSONSchema: json.RawMessage(`{"type":"string"}`), Unchecked: []string{"uniqueItems"}}
	if err := form.Compile(t.Context()); err != nil {
		t.Fatal(err)
	}
	for setting, change := range map[string]func(c *Constraints){
		"":             func(*Constraints) {},
		"json_compact": func(c *Constraints) { c.JSONCompact = true },
		"json_open":    func(c *Constraints) { c.JSONOpen = true },
		"unchecked":    func(c *Constraints) { c.Unchecked = nil },
	} {
		c := form
		change(&c)
		if g, err := c.grammar(t.Context()); err != nil || (g == form.compiled.grammar) != (setting == "") {
			t.Errorf("with another %s: the same grammar: %v, %v", setting, g == form.compiled.grammar, err)
		}
	}
}

// TestSchemaBomb refuses a schema that asks for work without measure, and compiling ends with its context.
func TestSchemaBomb(t *testing.T) {
	lists := ""
	for i := range 40 {
		lists += fmt.Sprintf(`{"anyOf":[{"required":["a%d"]},{"required":["b%d"]}]},`, i, i)
	}
	bomb := Constraints{JSONSchema: json.RawMessage(`{"allOf":[` + lists + `{}]}`)}
	if err := bomb.Validate(); err == nil || !strings.Contains(err.Error(), "units of work") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := bomb.Compile(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's end", err)
	}
}
