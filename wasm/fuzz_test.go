package main

import (
	"encoding/json"
	"strings"
	"testing"

	"foretoken/models/fuzztest"
)

// FuzzMessages reads what a page sends: a request and a benchmark, which are refused in one line or can be
// carried out as far as that can be told without models.
func FuzzMessages(f *testing.F) {
	for _, text := range []string{`{"prompt": "x", "policy": "mars", "theta": 0.85, "temperature": 1}`, `{"policy": "eagle2", "shape": [[2],[1,1]], "logit_bias": {"3": -100}}`,
		`{"methods": "none,mars:theta=0.84", "prompts": [{"id": "go-1", "prompt": "x"}], "repeat": 2, "request": {"max_tokens": 8}}`,
		`{"prompt": "\ud800", "temperature": -1}`, `{"max_tokens": 1e308}`, `{"treshold": 1}`, `{"depth": 9223372036854775807}`, `{} {}`, `null`, ``, `{"` + strings.Repeat("é", 3000) + `": 1}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		fuzztest.Bound(t, 16*len(body), func() {
			if r, err := readRequest(body); err != nil {
				fuzztest.Refusal(t, err, "foretoken: request: ")
			} else if err := r.Validate(); err == nil {
				if _, err := json.Marshal(&r.Request); err != nil {
					t.Fatal(err)
				}
			} else {
				fuzztest.Refusal(t, err, "")
			}
			if p, err := readPlan(body); err != nil {
				fuzztest.Refusal(t, err, "foretoken: ")
			} else {
				for _, one := range p.Prompts {
					if one.ID == "" || one.Prompt == "" || one.Category == "" {
						t.Fatalf("%+v", one)
					}
				}
			}
		})
	})
}
