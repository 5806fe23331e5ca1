//go:build !js

package main

import (
	"bytes"
	"crypto/sha256"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"foretoken"
	"foretoken/internal/strictjson"
	"foretoken/trace"
	"foretoken/webgpu/kernels/kerneltest"
)

// read reads a file of the repository.
func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func chosen(t *testing.T) (c Chosen) {
	t.Helper()
	if err := strictjson.Decode(read(t, examplesFile), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func openDemo(t *testing.T) *foretoken.Session {
	t.Helper()
	s, err := openPair(t.Context(), kerneltest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestExamplesAreChosen chooses the first two examples again, all of them and the counts with FORETOKEN_FULL.
func TestExamplesAreChosen(t *testing.T) {
	want, prompts := chosen(t), signatures()
	if len(want.Examples) != shown || want.Tried != len(prompts) || want.Tried < 200 {
		t.Errorf("%d examples of %d prompts, and the list has %d", len(want.Examples), want.Tried, len(prompts))
	}
	if os.Getenv("FORETOKEN_FULL") == "" {
		prompts = prompts[:slices.Index(prompts, want.Examples[1].Prompt)+1]
	}
	got, err := choose(t.Context(), openDemo(t), prompts)
	if err != nil {
		t.Fatal(err)
	}
	if len(prompts) == want.Tried && len(got) != want.Passed {
		t.Errorf("%d completions pass, and the file says %d", len(got), want.Passed)
	}
	got = got[:min(len(got), shown)]
	if n := len(got); n == 0 || !reflect.DeepEqual(got, want.Examples[:n]) {
		t.Errorf("chosen are %+v, and the file has %+v", got, want.Examples)
	}
}

// TestOnlyCompletedFunctionsPass gives a completion that passes, and completions with one mistake each.
func TestOnlyCompletedFunctionsPass(t *testing.T) {
	var all []Example
	for name, body := range map[string]string{
		"good":       "\tfor range n {\n\t\ts = strings.ToLower(s)\n\t}\n\treturn s, errors.New(fmt.Sprint(n))\n}\n",
		"ignoring":   "\treturn strings.Repeat(\"a\", n), nil\n}\n",
		"recursive":  "\treturn f(s, n)\n}\n",
		"shadowing":  "\tfor s := range n {\n\t\tfmt.Sprint(s)\n\t}\n\treturn \"\", nil\n}\n",
		"repeating":  "\tn += len(s)\n\tn += len(s)\n\treturn strings.Repeat(s, n), nil\n}\n",
		"unparsed":   "\treturn (s, errors.New(fmt.Sprint(n))\n}\n",
		"two":        "\treturn s, errors.New(fmt.Sprint(n))\n}\n\nfunc another() {\n}\n",
		"mistyped":   "\treturn n, errors.New(s)\n}\n",
		"undefined":  "\treturn repeated(s, n), nil\n}\n",
		"unknown":    "\treturn texts.Repeat(s, n), nil\n}\n",
		"unvetted":   "\treturn fmt.Sprintf(\"%d\", s), errors.New(fmt.Sprint(n))\n}\n",
		"unreturned": "\tn += len(s)\n}\n",
	} {
		all = append(all, Example{ID: name, Prompt: "// It repeats.\nfunc f(s string, n int) (string, error) {\n",
			Completion: body})
	}
	got, err := vetted(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].ID != "good" {
		t.Errorf("%+v pass", got)
	}
}

// TestOrderIsOfHashes checks that the order of the signatures is not a choice.
func TestOrderIsOfHashes(t *testing.T) {
	byHash := func(a, b string) int {
		first, second := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
		return bytes.Compare(first[:], second[:])
	}
	if !slices.IsSortedFunc(signatures(), byHash) {
		t.Error("the signatures are not in the order of their SHA-256")
	}
}

// TestSignaturesAreNew finds no line of a signature in the Go distribution, and finds one that is there.
func TestSignaturesAreNew(t *testing.T) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(strings.TrimSpace(string(root)), "src", "strings")
	const known = "func Repeat(s string, count int) string {"
	seen, err := seenIn([]string{folder}, append(signatures(), known))
	if err != nil || !slices.Equal(seen, []string{known}) {
		t.Errorf("package strings has %q, %v", seen, err)
	}
	if testing.Short() {
		return
	}
	if seen, err = seenIn([]string{filepath.Dir(folder)}, signatures()); err != nil || len(seen) > 0 {
		t.Errorf("the distribution has %q, %v", seen, err)
	}
}

func TestTitles(t *testing.T) {
	for name, want := range map[string]string{"clampInt": "Clamp int", "ignoreEOF": "Ignore EOF",
		"hostOfURL": "Host of URL", "writeJSONTo": "Write JSON to", "reverseBits32": "Reverse bits32",
		"isASCIIText": "Is ASCII text"} {
		if got := titleOf(name); got != want {
			t.Errorf("%s is titled %q, want %q", name, got, want)
		}
	}
}

// TestRecordingIsOfAnExample decodes the recorded prompt again and finds the same rounds: tokens, trees and what was
// kept of them. Times differ.
func TestRecordingIsOfAnExample(t *testing.T) {
	file := read(t, recordedFile)
	want, err := trace.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, r := range want.Rounds {
		for _, token := range r.Tokens {
			text.WriteString(token.Text)
		}
	}
	if len(want.Rounds) != want.Run || zipped(file) > maximum {
		t.Errorf("%d of %d rounds in %d bytes", len(want.Rounds), want.Run, zipped(file))
	}
	if !slices.ContainsFunc(chosen(t).Examples, func(e Example) bool {
		return e.Prompt == want.Prompt && e.Completion == text.String()+want.Rest
	}) {
		t.Errorf("no example continues %q by %q", want.Prompt, text.String())
	}
	decodedAgain(t, openDemo(t), want, small())
}

// TestPlaygroundIsRecorded decodes the runs of the playground again, as TestRecordingIsOfAnExample does.
func TestPlaygroundIsRecorded(t *testing.T) {
	first, err := trace.Read(read(t, recordedFile))
	if err != nil {
		t.Fatal(err)
	}
	s := openDemo(t)
	for _, temperature := range temperatures() {
		want, err := trace.Read(read(t, playgroundFile(temperature)))
		if err != nil {
			t.Fatal(err)
		}
		if want.Prompt != first.Prompt {
			t.Errorf("the playground continues %q, and the page's first run %q", want.Prompt, first.Prompt)
		}
		decodedAgain(t, s, want, large(temperature))
	}
}

// decodedAgain checks that a request finds the tokens and trees of a trace again. Times differ.
func decodedAgain(t *testing.T, s *foretoken.Session, want *trace.Trace, r foretoken.Request) {
	t.Helper()
	b, err := record(t.Context(), s, want.Prompt, r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := trace.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, rounds := range [][]trace.Round{got.Rounds, want.Rounds} {
		for i := range rounds {
			r := &rounds[i]
			*r = trace.Round{Tokens: r.Tokens, Tree: r.Tree}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded again at temperature %v, it takes %d rounds instead of %d, or they differ", r.Temperature,
			got.Run, want.Run)
	}
}
