package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// TestTimes times the masks of a text over the built-in vocabulary, and refuses a text that the grammar does.
func TestTimes(t *testing.T) {
	path := filepath.Join("..", "..", "..", "demo", "draft-q8_0.gguf")
	tok, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	text := `{"name":"x"}`
	const line = `{"id":"a","schema":{"properties":{"name":{"type":"string"}}},"open":true,"texts":[`
	var out bytes.Buffer
	in := line + `"{\"name\":\"x\"}"]}` + "\n" + `{"id":"b","schema":{"$ref":"nowhere"},"texts":[]}`
	if err := run(path, strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var answer struct {
		ID string
		US []float64
	}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if want := len(tok.Encode(text, false)) + 1; answer.ID != "a" || len(answer.US) != want {
		t.Errorf("%+v, want %d times", answer, want)
	}
	err = run(path, strings.NewReader(line+`"{\"name\":1}"]}`), &out)
	if err == nil || !strings.Contains(err.Error(), "is not allowed") {
		t.Errorf("a text that is not allowed: %v", err)
	}
}
