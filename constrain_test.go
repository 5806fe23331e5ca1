//go:build !js

package foretoken

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"foretoken/models/constrain"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/open"
)

// constrainedPolicies cover every way to verify a draft.
var constrainedPolicies = []Request{
	{Policy: method.DrafterChain, Depth: 3},
	{Policy: method.DrafterEAGLE2, Depth: 3, TopK: 3, Nodes: 12},
	{Policy: method.DrafterNgram},
	{Policy: method.DrafterAuto},
}

// TestConstrainedSpeculationEqualsPlain compares policies under grammars, penalties and biases with plain decoding,
// and checks that plain decoding obeys the constraint. It runs two policies at each temperature, or all with
// FORETOKEN_FULL=1.
func TestConstrainedSpeculationEqualsPlain(t *testing.T) {
	onCPU(t, func(t *testing.T, kind string) { constrainedEqualsPlain(t, demoSession(t, kind)) })
}

func constrainedEqualsPlain(t *testing.T, s *Session) {
	t.Helper()
	const schema = `{"type":"object","properties":{"name":{"type":"string","maxLength":12},
		"kind":{"enum":["func","struct"]},
		"line":{"type":"integer","minimum":1,"maximum":9999},
		"fields":{"type":"array","items":{"type":"string","maxLength":6},"maxItems":2}},
		"required":["name","kind","line","fields"]}`
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	valid, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	newline := s.Tokenizer().Encode("\n", false)
	for name, c := range map[string]struct {
		constrain.Constraints
		check func(r *Result) error
	}{
		"schema": {constrain.Constraints{JSONSchema: []byte(schema), JSONCompact: true}, func(r *Result) error {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(r.Text))
			if err == nil {
				err = valid.Validate(v)
			}
			if err == nil && r.Finish != spec.FinishStop {
				err = fmt.Errorf("finish %s", r.Finish)
			}
			return err
		}},
		"grammar": {constrain.Constraints{Grammar: `root ::= "(" [a-z]{3,9} ("," " "? [a-z]{1,5}){2} ")"`},
			func(r *Result) error {
				if !strings.HasPrefix(r.Text, "(") || !strings.HasSuffix(r.Text, ")") ||
					strings.Count(r.Text, ",") != 2 {
					return fmt.Errorf("not as the grammar wants it")
				}
				return nil
			}},
		"penalties": {constrain.Constraints{FrequencyPenalty: 1.5, PresencePenalty: 0.5,
			LogitBias: map[int32]float32{newline[len(newline)-1]: -100, 40: 1.5}}, func(r *Result) error {
			if slices.Contains(r.TokenIDs, newline[len(newline)-1]) {
				return fmt.Errorf("a token that was ruled out")
			}
			return nil
		}},
		"processor": {constrain.Constraints{FrequencyPenalty: 0.3, LogitsProcessor: unlikeTwoBefore},
			func(r *Result) error {
				for i := 2; i < len(r.TokenIDs); i++ {
					if r.TokenIDs[i] == r.TokenIDs[i-2] {
						return fmt.Errorf("token %d is that of two places before", i)
					}
				}
				return nil
			}},
		"all": {constrain.Constraints{JSONObject: true, FrequencyPenalty: 0.7, LogitBias: map[int32]float32{60: 2}},
			func(r *Result) error {
				if r.Finish == spec.FinishStop && !json.Valid([]byte(r.Text)) {
					return fmt.Errorf("no JSON")
				}
				return nil
			}},
	} {
		for _, temperature := range []float64{0, 0.8} {
			plain := Request{Policy: method.DrafterNone, MaxTokens: 72, Temperature: temperature, Seed: 7,
				Constraints: c.Constraints}
			want, err := s.Generate(context.Background(), "// a type of the parser\n", plain, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := c.check(want); err != nil {
				t.Errorf("%s, T=%v: %q: %v", name, temperature, want.Text, err)
			}
			t.Logf("%s, T=%v: %q", name, temperature, want.Text)
			for i, r := range constrainedPolicies {
				if (i%2 == 0) == (temperature == 0) && !kerneltest.Full() {
					continue // runs at the other temperature
				}
				r.MaxTokens, r.Temperature, r.Seed, r.Constraints = plain.MaxTokens, temperature, plain.Seed,
					c.Constraints
				got, err := s.Generate(context.Background(), "// a type of the parser\n", r, nil)
				if err != nil {
					t.Fatalf("%s, %s: %v", name, r.Policy, err)
				}
				if !slices.Equal(got.TokenIDs, want.TokenIDs) || got.Finish != want.Finish || got.Text != want.Text {
					t.Errorf("%s, T=%v, %s: %q (%s), plain decoding gives %q (%s)", name, temperature, r.Policy,
						got.Text, got.Finish, want.Text, want.Finish)
				}
			}
		}
	}
	// A request without constraints still decodes as before.
	a, err := s.Generate(context.Background(), "func main() {", Request{Policy: method.DrafterEAGLE2, MaxTokens: 20},
		nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Generate(context.Background(), "func main() {", Request{Policy: method.DrafterNone, MaxTokens: 20}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.TokenIDs, b.TokenIDs) {
		t.Errorf("after constrained requests %q and %q", a.Text, b.Text)
	}
}

// TestUncheckedIsTold has results name the keywords that the text was not held to.
func TestUncheckedIsTold(t *testing.T) {
	s := demoSession(t, "cpu")
	r := Request{Policy: method.DrafterNone, MaxTokens: 4}
	r.JSONSchema = json.RawMessage(`{"items":{"items":{"type":"string"},"uniqueItems":true},"type":"array"}`)
	if _, err := s.Generate(t.Context(), "x", r, nil); err == nil || !strings.Contains(err.Error(), "uniqueItems") {
		t.Errorf("without the setting: %v", err)
	}
	r.Unchecked = []string{"uniqueItems"}
	for range 2 {
		got, err := s.Generate(t.Context(), "x", r, nil)
		if err != nil || !slices.Equal(got.Unchecked, []string{"/items/uniqueItems"}) {
			t.Fatalf("%+v, %v", got, err)
		}
		if err := r.Compile(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// unlikeTwoBefore is a LogitsProcessor that rules out the token of two places before and favours others by the length
// of the text.
func unlikeTwoBefore(texts [][]int32) ([][]spec.Bias, error) {
	answers := make([][]spec.Bias, len(texts))
	for i, text := range texts {
		n := len(text)
		answers[i] = append(answers[i], spec.Bias{Token: 1000 + int32(n%7), Add: 4})
		if n > 1 {
			answers[i] = append(answers[i], spec.Bias{Token: text[n-2], Add: -100})
		}
	}
	return answers, nil
}

// TestLogitsProcessorIsChecked refuses answers that cannot be added, and the session goes on.
func TestLogitsProcessorIsChecked(t *testing.T) {
	s := demoSession(t, "cpu")
	own := errors.New("the program's own")
	for want, answer := range map[string]func(texts [][]int32) ([][]spec.Bias, error){
		"the program's own": func([][]int32) ([][]spec.Bias, error) { return nil, own },
		"0 answers to 1":    func([][]int32) ([][]spec.Bias, error) { return nil, nil },
	} {
		r := Request{MaxTokens: 4, Policy: method.DrafterNone}
		r.LogitsProcessor = answer
		_, err := s.Generate(context.Background(), "func", r, nil)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, own) == errors.Is(err, ErrRequest) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	many := func(texts [][]int32) ([][]spec.Bias, error) { // a list of full length, and what it rules out is not drawn
		all := make([]spec.Bias, 1024)
		for i := range all {
			all[i] = spec.Bias{Token: int32(i), Add: -100}
		}
		return slices.Repeat([][]spec.Bias{all}, len(texts)), nil
	}
	r := Request{MaxTokens: 8, Policy: method.DrafterNone, Constraints: constrain.Constraints{LogitsProcessor: many}}
	out, err := s.Generate(context.Background(), "func", r, nil)
	if err != nil || slices.ContainsFunc(out.TokenIDs, func(id int32) bool { return id < 1024 }) {
		t.Errorf("%v: %v", out, err)
	}
}

// TestGrammarBombs refuses schemas and grammars that ask for work without measure, before a request or within it, and
// the session goes on.
func TestGrammarBombs(t *testing.T) {
	t.Attr("attack", "a request whose schema or grammar takes too much work to compile or to follow")
	t.Attr("bound", "the request ends with the rule's name or the path in the schema; the session goes on")
	lists := ""
	for i := range 40 {
		lists += fmt.Sprintf(`{"anyOf":[{"required":["a%d"]},{"required":["b%d"]}]},`, i, i)
	}
	s := demoSession(t, open.Accelerator)
	r := Request{Policy: method.DrafterNgram, MaxTokens: 8}
	for want, c := range map[string]constrain.Constraints{
		`rule "root"`:   {Grammar: `root ::= ([a-z]?){50000}`},
		"units of work": {JSONSchema: json.RawMessage(`{"allOf":[` + lists + `{}]}`)},
	} {
		r.Constraints = c
		_, err := s.Generate(context.Background(), "func main() {", r, nil)
		if !errors.Is(err, ErrRequest) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	r.Constraints = constrain.Constraints{}
	if _, err := s.Generate(context.Background(), "func main() {", r, nil); err != nil {
		t.Error(err)
	}
}
