//go:build !js

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"foretoken/models/fuzztest"
)

// FuzzPromptFiles reads files of prompts. The result must equal an independent reading, and reading a rewritten
// file must give the same.
func FuzzPromptFiles(f *testing.F) {
	for _, text := range fuzztest.Lines {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzztest.Bound(t, 200*len(data), func() { promptsAreRead(t, data) })
	})
}

func promptsAreRead(t *testing.T, data []byte) {
	var want []prompt
	var refused string
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := parsePrompt([]byte(line))
		fields, sure := fuzztest.Fields([]byte(line), "id", "prompt", "category")
		if sure {
			id, a := fields["id"].(string)
			text, b := fields["prompt"].(string)
			category, c := fields["category"].(string)
			if (a && b && (c || fields["category"] == nil)) != (err == nil) {
				t.Fatalf("%q: %v", line, err)
			}
			if category == "" {
				category = id
				if dash := strings.LastIndex(id, "-"); dash > 0 {
					category = id[:dash]
				}
			}
			if err == nil && p != (prompt{ID: id, Category: category, Prompt: text}) {
				t.Fatalf("%q is read as %+v", line, p)
			}
		}
		if err != nil {
			refused = fmt.Sprintf("p.jsonl: line %d: %s", i+1, err)
			shown(t, refused)
			if strings.Contains(refused, "\n") {
				t.Fatalf("%q", refused)
			}
			break
		}
		want = append(want, p)
	}
	if refused == "" && len(want) == 0 {
		refused = "p.jsonl: has no prompts, want one JSON object a line"
	}
	got, err := parsePrompts("p.jsonl", bytes.NewReader(data))
	if err != nil {
		if err.Error() != refused {
			t.Fatalf("%q, want %q", err, refused)
		}
		return
	}
	if refused != "" || !slices.Equal(got, want) {
		t.Fatalf("%q is read as %+v, want %+v or %q", data, got, want, refused)
	}
	var text []byte
	for _, p := range got {
		b, err := json.Marshal(map[string]string{"id": p.ID, "prompt": p.Prompt, "category": p.Category})
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, b...), '\n')
	}
	if again, err := parsePrompts("p.jsonl", bytes.NewReader(text)); err != nil || !slices.Equal(again, got) {
		t.Fatalf("%s is read as %+v and was %+v: %v", text, again, got, err)
	}
}
