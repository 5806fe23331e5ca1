package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"foretoken"
	"foretoken/bench"
	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/spec"
	"foretoken/spec/method"
)

// catalog lists the methods for the page. The build embeds it in the page, which offers the methods before it has
// loaded anything.
type catalog struct {
	Default   foretoken.Request `json:"default"` // of a request that names no policy
	Methods   []method.Method   `json:"methods"`
	Verifiers []method.Verifier `json:"verifiers"`
	Adapts    []method.Adapter  `json:"adapts"`
	Settings  []setting         `json:"settings"`
}

func newCatalog() catalog {
	return catalog{
		Default:   foretoken.DefaultRequest(),
		Methods:   method.All(),
		Verifiers: method.Verifiers(),
		Adapts:    method.Adapters(),
		Settings:  settings(),
	}
}

// setting is a row of the table of settings with the type of its field.
type setting struct {
	spec.Setting
	Type  string `json:"type"`            // in TypeScript
	Whole bool   `json:"whole,omitempty"` // the numbers are whole
}

func settings() []setting {
	var all []setting
	for _, s := range foretoken.Settings() {
		name, whole := typeOf(s.In(&foretoken.Request{}).Type())
		all = append(all, setting{s, name, whole})
	}
	return all
}

// typeOf returns the type in TypeScript for a type of Go, and whether its numbers are whole.
func typeOf(t reflect.Type) (name string, whole bool) {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean", false
	case reflect.String:
		return "string", false
	case reflect.Float32, reflect.Float64:
		return "number", false
	case reflect.Pointer:
		name, whole = typeOf(t.Elem())
		return name + " | null", whole
	case reflect.Map:
		return "Record<string, number>", false
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return "object", false
		}
		name, whole = typeOf(t.Elem())
		return name + "[]", whole
	}
	return "number", true
}

// request is foretoken.Request with its prompt.
type request struct {
	Prompt string `json:"prompt"`
	foretoken.Request
	Asks  bool `json:"asks"`  // the page has a logits processor
	Trace bool `json:"trace"` // rounds come with their trees
}

// readRequest reads a request. Missing fields come from DefaultRequest, which has no settings of its method.
func readRequest(body []byte) (request, error) {
	r := request{Request: foretoken.DefaultRequest()}
	if err := strictjson.Decode(body, &r); err != nil {
		return r, withCode("bad_option", fmt.Errorf("foretoken: request: %w", err))
	}
	return r, nil
}

// readBiases reads the answer of a page's logits processor.
func readBiases(answer []byte) ([][]spec.Bias, error) {
	var given []map[int32]float32
	if err := strictjson.Decode(answer, &given); err != nil {
		return nil, withCode("bad_option", fmt.Errorf("foretoken: logits_processor: %w", err))
	}
	all := make([][]spec.Bias, len(given))
	for i, biases := range given {
		for id, add := range biases {
			all[i] = append(all[i], spec.Bias{Token: id, Add: add})
		}
	}
	return all, nil
}

// matrix is a benchmark as a page asks for it.
type matrix struct {
	Methods string            `json:"methods"` // see bench.ParseMethods
	Prompts []bench.Prompt    `json:"prompts"` // without a category it is taken from the id
	Repeat  int               `json:"repeat"`  // 0: 3
	Request foretoken.Request `json:"request"` // length and sampling of methods that do not set their own
	NoScore bool              `json:"no_score"`
}

// readMatrix reads and checks a matrix.
func readMatrix(body []byte) (bench.Matrix, error) {
	d := foretoken.DefaultRequest()
	p := matrix{Request: foretoken.Request{MaxTokens: d.MaxTokens, Seed: d.Seed}}
	if err := strictjson.Decode(body, &p); err != nil {
		return bench.Matrix{}, withCode("bad_option", fmt.Errorf("foretoken: benchmark: %w", err))
	}
	methods, err := bench.ParseMethods(p.Methods, p.Request)
	if err != nil {
		return bench.Matrix{}, inField("benchmark", "methods", err)
	}
	seen := map[string]bool{}
	for i := range p.Prompts {
		at := &p.Prompts[i]
		if at.ID == "" || at.Prompt == "" {
			return bench.Matrix{}, inField("benchmark", "prompts",
				fmt.Errorf("number %d needs an id and a prompt, neither of them empty", i+1))
		}
		if seen[at.ID] {
			return bench.Matrix{}, inField("benchmark", "prompts",
				fmt.Errorf("two have the id %s", quote.Text(at.ID)))
		}
		seen[at.ID] = true
		if at.Category == "" {
			at.Category = bench.CategoryOf(at.ID)
		}
	}
	// Blocks of four show results sooner than the default's eight, for more plain decoding.
	return bench.Matrix{Methods: methods, Prompts: p.Prompts, Repeat: p.Repeat, NoScore: p.NoScore, Block: 4}, nil
}
