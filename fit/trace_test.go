//go:build !js

package fit

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"foretoken"
	"foretoken/internal/files"
	"foretoken/models/demo"
	"foretoken/models/modeltest"
	"foretoken/spec"
	"foretoken/webgpu/kernels/kerneltest"
)

var record = flag.String("record", "", "TestRecordTraces: write spec/goodput/testdata from the built-in pair and from "+
	"the pairs of this folder, which make testmodels ALL=1 fills")

// trace holds texts that a target wrote at temperature 0, and the draft's best tokens for each of theirs. The simulator
// of spec/goodput replays it.
type trace struct {
	Made   spec.Made        `json:"made"`
	Pair   spec.Fingerprint `json:"pair"`
	Vocab  int              `json:"vocab"`
	Device string           `json:"device"`
	Texts  []tracedText     `json:"texts"`
}

type tracedText struct {
	ID     string    `json:"id"`
	Prompt []int32   `json:"prompt"` // token ids
	Tokens []int32   `json:"tokens"` // the target's
	Drafts [][]int32 `json:"drafts"` // for each token the draft's best, after the tokens before
	LnQ    [][]int   `json:"ln_q"`   // their ln q in thousandths
}

// TestRecordTraces records traces: go test ./fit -run TestRecordTraces -record "$PWD/build/testmodels"
// Without the flag it records one of the built-in pair and writes nothing.
func TestRecordTraces(t *testing.T) {
	const candidates, tokens = 4, 64
	var code, stories []Prompt
	for i, p := range modeltest.Prompts(t) {
		if i%8 == 0 {
			code = append(code, Prompt{ID: p.ID, Prompt: p.Prompt})
		}
	}
	if *record == "" {
		code = code[:1]
	} else {
		b, err := os.ReadFile(modeltest.Shared(t, "testmodels", "prompts.json"))
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		if err := json.Unmarshal(b, &texts); err != nil {
			t.Fatal(err)
		}
		for i, text := range texts {
			stories = append(stories, Prompt{ID: fmt.Sprintf("story-%02d", i), Prompt: text})
		}
	}
	stored := func(name string) files.Source {
		b, err := os.ReadFile(filepath.Join(*record, name))
		if err != nil {
			t.Fatal(err)
		}
		return files.FromBytes(name, b)
	}
	for _, pair := range []struct {
		name    string
		prompts []Prompt
		from    string
		models  func() (target, draft files.Source)
	}{
		{"built-in", code, "testdata/prompts-go.jsonl", func() (files.Source, files.Source) {
			return demo.Target(), demo.Draft()
		}},
		{"good-draft", stories, "prompts.json of the test models", func() (files.Source, files.Source) {
			return stored("x26m-q8_0.gguf"), stored("s260k-q8_0.gguf")
		}},
		{"noisy-draft", stories, "prompts.json of the test models", func() (files.Source, files.Source) {
			return stored("x26m-q8_0.gguf"), stored("s260k-noisy-q8_0.gguf")
		}},
	} {
		if len(pair.prompts) == 0 {
			continue
		}
		target, draft := pair.models()
		s, err := foretoken.Open(context.Background(), kerneltest.CPU(t), target, draft,
			foretoken.Options{Context: 512})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		got := trace{Pair: s.Fingerprint(), Vocab: s.Info().Target.Vocab, Device: "cpu", Made: spec.Made{
			Prompts: pair.from, Requests: len(pair.prompts),
		}}
		right := 0
		for _, p := range pair.prompts {
			text, err := traceOf(s, p, tokens, candidates)
			if err != nil {
				t.Fatalf("%s: %v", p.ID, err)
			}
			for i, token := range text.Tokens {
				if text.Drafts[i][0] == token {
					right++
				}
			}
			got.Texts, got.Made.Tokens = append(got.Texts, text), got.Made.Tokens+len(text.Tokens)
		}
		t.Logf("%s: the draft's first choice is right at %d of %d tokens", pair.name, right, got.Made.Tokens)
		if 2*right < got.Made.Tokens && pair.name != "noisy-draft" {
			t.Errorf("%s: the draft's first choice is right at %d of %d tokens", pair.name, right, got.Made.Tokens)
		}
		if *record == "" {
			continue
		}
		b, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		b = bytes.ReplaceAll(b, []byte(`{"id"`), []byte("\n{\"id\"")) // a line for each text
		file := filepath.Join("..", "spec", "goodput", "testdata", pair.name+".json")
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(b, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// traceOf records the draft's best candidates for each token of a text.
func traceOf(s *foretoken.Session, p Prompt, tokens, candidates int) (tracedText, error) {
	c, err := Continue(context.Background(), s, p.Prompt, tokens, Options{})
	if err != nil {
		return tracedText{}, err
	}
	text := tracedText{ID: p.ID, Prompt: c.Prompt, Tokens: c.Tokens}
	every := Options{Every: true}
	_, err = withGrower(context.Background(), s, 0, candidates, every, func(model grower) (any, error) {
		return nil, teacherForce(context.Background(), model, c, 0, candidates, every,
			func(_ int32, levels []spec.Level, _ []int32) (int, error) {
				var ids []int32
				var lnQ []int
				for _, c := range levels[0].Candidates {
					ids = append(ids, c.Token)
					lnQ = append(lnQ, int(math.Round(1000*float64(c.LogQ))))
				}
				text.Drafts, text.LnQ = append(text.Drafts, ids), append(text.LnQ, lnQ)
				return 0, nil
			})
	})
	if err == nil && len(text.Drafts) != len(text.Tokens) {
		err = fmt.Errorf("%d proposals for %d tokens", len(text.Drafts), len(text.Tokens))
	}
	return text, err
}
