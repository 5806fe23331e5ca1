package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"foretoken"
	"foretoken/spec"
)

// The exactness of a verifier, as pages show it.
const (
	exactTokens       = "exact"        // the tokens of plain decoding
	exactDistribution = "distribution" // the distribution of plain decoding
	lossy             = "lossy"        // neither
)

// catalog is what a page has to know of the methods to offer them. The page is built with
// one, so that it can do so before it has loaded anything.
type catalog struct {
	Default   foretoken.Request `json:"default"` // of a request that names no policy
	Methods   []offered         `json:"methods"`
	Verifiers []verifier        `json:"verifiers"`
	Adapts    []string          `json:"adapts"`
	Sources   []string          `json:"sources"`
	Schedules []string          `json:"schedules"`
	Modes     []string          `json:"modes"`
	Variants  []string          `json:"variants"`
}

type offered struct {
	foretoken.Method
	UsesDraft bool `json:"uses_draft"` // drafts with a model, or with a head
}

type verifier struct {
	Name      string `json:"name"`
	Exactness string `json:"exactness"`
}

func newCatalog() catalog {
	c := catalog{
		Default:   foretoken.DefaultRequest(),
		Adapts:    []string{spec.AdaptFixed, spec.AdaptHetero, spec.AdaptC2T, spec.AdaptAcceptance, spec.AdaptAdaEDL, spec.AdaptAssisted, spec.AdaptAdaSD},
		Sources:   []string{spec.SourceModel, spec.SourceEAGLE3},
		Schedules: []string{spec.ScheduleHeuristic, spec.ScheduleConstant},
		Modes:     []string{spec.MARSAlg1, spec.MARSSampled},
		Variants:  []string{spec.AdaSDMidpoint, spec.AdaSDA, spec.AdaSDB, spec.AdaSDC},
	}
	for _, m := range foretoken.Methods() {
		c.Methods = append(c.Methods, offered{m, m.Config.UsesDraftModel()})
	}
	for _, name := range []string{spec.VerifierMatch, spec.VerifierRejection, spec.VerifierWithoutReplacement, spec.VerifierMARS, spec.VerifierAdaSD} {
		v := verifier{name, exactDistribution}
		if name == spec.VerifierMatch {
			v.Exactness = exactTokens
		} else if !spec.Lossless(name) {
			v.Exactness = lossy
		}
		c.Verifiers = append(c.Verifiers, v)
	}
	return c
}

// request is foretoken.Request with its prompt.
type request struct {
	Prompt string `json:"prompt"`
	foretoken.Request
}

// readRequest reads a request. What it leaves out is DefaultRequest's, but for the settings
// of the default's method where it names another.
func readRequest(body []byte) (request, error) {
	r := request{Request: foretoken.DefaultRequest()}
	var named struct {
		Policy *string `json:"policy"`
	}
	if err := json.Unmarshal(body, &named); err == nil && named.Policy != nil && *named.Policy != r.Policy {
		d := r.Request
		r.Request = foretoken.Request{MaxTokens: d.MaxTokens, Temperature: d.Temperature, Seed: d.Seed,
			SampleTopK: d.SampleTopK, TopP: d.TopP, MinP: d.MinP, Stop: d.Stop}
	}
	if err := decode(body, &r); err != nil {
		return r, withCode("bad_option", fmt.Errorf("foretoken: request: %w", err))
	}
	return r, nil
}

// decode reads JSON and refuses fields that nothing knows: a misspelt setting would
// otherwise be measured as if it were set. So would what follows the value.
func decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("there is more after the JSON value, want one")
		}
	}
	if err != nil && len(err.Error()) > 500 { // it names the field, whatever its length
		return fmt.Errorf("%.300s…", err)
	}
	return err
}

// plan is a benchmark as a page asks for it.
type plan struct {
	Methods string                  `json:"methods"` // see foretoken.ParseBenchMethods
	Prompts []foretoken.BenchPrompt `json:"prompts"` // without a category it is taken from the id
	Repeat  int                     `json:"repeat"`  // 0: 3
	Request foretoken.Request       `json:"request"` // length and sampling of methods that do not set their own
	NoScore bool                    `json:"no_score"`
}

// readPlan reads and checks a plan.
func readPlan(body []byte) (foretoken.BenchPlan, error) {
	d := foretoken.DefaultRequest()
	p := plan{Request: foretoken.Request{MaxTokens: d.MaxTokens, Seed: d.Seed}}
	if err := decode(body, &p); err != nil {
		return foretoken.BenchPlan{}, withCode("bad_option", fmt.Errorf("foretoken: benchmark: %w", err))
	}
	methods, err := foretoken.ParseBenchMethods(p.Methods, p.Request)
	if err != nil {
		return foretoken.BenchPlan{}, err
	}
	seen := map[string]bool{}
	for i := range p.Prompts {
		at := &p.Prompts[i]
		if at.ID == "" || at.Prompt == "" {
			return foretoken.BenchPlan{}, fmt.Errorf("foretoken: benchmark: prompt %d needs an id and a prompt, neither of them empty", i+1)
		}
		if seen[at.ID] {
			return foretoken.BenchPlan{}, fmt.Errorf("foretoken: benchmark: two prompts have the id %.200q", at.ID)
		}
		seen[at.ID] = true
		if at.Category == "" {
			at.Category = foretoken.CategoryOf(at.ID)
		}
	}
	// Blocks of four show results sooner than the default's eight, for more plain decoding.
	return foretoken.BenchPlan{Methods: methods, Prompts: p.Prompts, Repeat: p.Repeat, NoScore: p.NoScore, Block: 4}, nil
}
