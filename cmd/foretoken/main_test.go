//go:build !js

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/trace"
)

// outcome is the result of a command line.
type outcome struct {
	code     int
	out, err string
}

// call runs a command line with no terminal and no tuning cache.
func call(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(context.Background(), &console{in: strings.NewReader(stdin), out: &out, err: &errs}, args)
	return outcome{code, out.String(), errs.String()}
}

// generate calls generate on the cpu device.
func generate(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	return call(t, stdin, append([]string{"generate", "--device", "cpu"}, args...)...)
}

// result is the JSON of one prompt as a client reads it.
type result struct {
	ID        string         `json:"id"`
	PromptIDs []int32        `json:"prompt_ids"`
	TokenIDs  []int32        `json:"token_ids"`
	Text      string         `json:"text"`
	Finish    string         `json:"finish"`
	Stats     map[string]any `json:"stats"`
	Unchecked []string       `json:"unchecked"`
}

func results(t *testing.T, o outcome) []result {
	t.Helper()
	if o.code != exitOK {
		t.Fatalf("exit code %d: %s", o.code, o.err)
	}
	var all []result
	for line := range strings.Lines(o.out) {
		var r result
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, r)
	}
	return all
}

const testPrompt = "func main() {"

func TestTextEqualsJSON(t *testing.T) {
	r := results(t, generate(t, "", "--prompt", testPrompt, "--max-tokens", "12", "--json"))
	if len(r) != 1 {
		t.Fatalf("%d objects, want 1", len(r))
	}
	got := r[0]
	if got.ID != "prompt" || len(got.PromptIDs) == 0 || len(got.TokenIDs) != 12 || got.Text == "" ||
		got.Finish != "length" {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"output_tokens", "calls", "acceptance_length", "decode_tok_s",
		"acceptance_per_depth"} {
		if _, ok := got.Stats[name]; !ok {
			t.Errorf("the stats have no %s", name)
		}
	}
	o := generate(t, "", "--prompt", testPrompt, "--max-tokens", "12")
	if o.code != exitOK || strings.TrimSuffix(o.out, "\n") != strings.TrimSuffix(got.Text, "\n") {
		t.Errorf("code %d, text %q, want %q", o.code, o.out, got.Text)
	}
	if strings.Count(o.err, "\n") != 1 || !strings.Contains(o.err, "12 tokens in") ||
		!strings.Contains(o.err, "policy auto") {
		t.Errorf("statistics %q", o.err)
	}
	if strings.Contains(o.out, "\x1b") {
		t.Errorf("colours without a terminal: %q", o.out)
	}
}

// TestTraceHoldsTheRounds writes a trace and finds the text, the tokens and drafted trees in it.
func TestTraceHoldsTheRounds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.trace")
	args := []string{"--prompt", "func main() {", "--policy", "eagle2", "--max-tokens", "12", "--trace", file}
	want := results(t, generate(t, "", append(args, "--json")...))[0]
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := trace.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int32
	text, drafted := "", 0
	for _, r := range got.Rounds {
		for _, token := range r.Tokens {
			ids, text = append(ids, token.ID), text+token.Text
		}
		drafted += r.Tree.Len() - 1
	}
	if text += got.Rest; text != want.Text || !slices.Equal(ids, want.TokenIDs) || drafted == 0 ||
		got.Prompt != "func main() {" || string(got.Finish) != want.Finish {
		t.Errorf("a trace of %q after %q, ended by %q, with %d drafted nodes; want %q", text, got.Prompt, got.Finish,
			drafted, want.Text)
	}
	for _, c := range []struct{ args, says string }{
		{"--trace=", "--trace is empty"},
		{"--trace /nowhere/run.trace", "/nowhere"},
		{"--trace run.trace --prompt-file prompts.jsonl", "give it by --prompt"},
	} {
		if o := generate(t, "x", strings.Fields(c.args)...); o.code == exitOK || !strings.Contains(o.err, c.says) {
			t.Errorf("%s: exit code %d: %s", c.args, o.code, o.err)
		}
	}
}

func TestPromptComesFromStandardInput(t *testing.T) {
	flag := results(t, generate(t, "", "--prompt", testPrompt, "--max-tokens", "4", "--json"))[0]
	pipe := results(t, generate(t, testPrompt, "--max-tokens", "4", "--json"))[0]
	if pipe.ID != "stdin" || !slices.Equal(pipe.PromptIDs, flag.PromptIDs) ||
		!slices.Equal(pipe.TokenIDs, flag.TokenIDs) {
		t.Errorf("standard input gives %+v, --prompt %+v", pipe, flag)
	}
}

func TestPoliciesGiveTheSameTokens(t *testing.T) {
	for _, sampling := range [][]string{nil,
		{"--temperature", "0.8", "--seed", "7", "--sample-top-k", "40", "--top-p", "0.95", "--min-p", "0.02"}} {
		var want result
		for i, m := range method.All() {
			policy := m.Name
			if m.Config.Verifier != method.VerifierMatch || sampling != nil && i > 3 {
				continue // other tokens; the root package compares sampled methods
			}
			if sampling != nil && strings.HasPrefix(policy, method.DrafterNgram) {
				continue // independent of the temperature
			}
			args := append([]string{"--prompt", testPrompt, "--max-tokens", "10", "--json", "--policy",
				policy}, sampling...)
			got := results(t, generate(t, "", args...))
			if m.Name == method.DrafterAuto { // with the built-in head too, which is loaded for it
				got = append(got, results(t, generate(t, "", append(args, "--source", method.SourceEAGLE3)...))...)
			}
			if i == 0 {
				want = got[0]
			}
			for _, r := range got {
				if !slices.Equal(r.TokenIDs, want.TokenIDs) || r.Text != want.Text {
					t.Errorf("%v: %s gives %v, plain decoding %v", sampling, policy, r.TokenIDs, want.TokenIDs)
				}
			}
		}
	}
	coupled := results(t,
		generate(t, "", "--prompt", testPrompt, "--max-tokens", "10", "--temperature", "0.8", "--json"))[0]
	un := results(t, generate(t, "", "--prompt", testPrompt, "--max-tokens", "10", "--temperature", "0.8", "--json",
		"--no-coupling"))[0]
	if !slices.Equal(coupled.TokenIDs, un.TokenIDs) {
		t.Errorf("--no-coupling changes the tokens: %v, %v", coupled.TokenIDs, un.TokenIDs)
	}
}

func TestPromptFile(t *testing.T) {
	path := write(t, "prompts.jsonl", []byte("{\"id\": \"a\", \"category\": \"x\", \"prompt\": \"func main() {\"}\n\n"+
		"{\"id\": \"b\", \"prompt\": \"package main\"}"))
	r := results(t, generate(t, "", "--prompt-file", path, "--max-tokens", "4", "--json"))
	if len(r) != 2 || r[0].ID != "a" || r[1].ID != "b" {
		t.Fatalf("%+v", r)
	}
	alone := results(t, generate(t, "", "--prompt", "package main", "--max-tokens", "4", "--json"))[0]
	if !slices.Equal(alone.TokenIDs, r[1].TokenIDs) {
		t.Errorf("the second prompt gives %v, alone %v", r[1].TokenIDs, alone.TokenIDs)
	}
	o := generate(t, "", "--prompt-file", path, "--max-tokens", "4")
	if !strings.HasPrefix(o.out, "==> a <==\n") || !strings.Contains(o.out, "\n\n==> b <==\n") ||
		!strings.Contains(o.err, "2 prompts") {
		t.Errorf("text %q, statistics %q", o.out, o.err)
	}
}

func TestStopStringEndsTheText(t *testing.T) {
	whole := results(t, generate(t, "", "--prompt", testPrompt, "--max-tokens", "16", "--json"))[0]
	middle := strings.TrimSpace(whole.Text)
	stop := middle[len(middle)/2 : len(middle)/2+3]
	cut := results(t, generate(t, "", "--prompt", testPrompt, "--max-tokens", "16", "--json", "--stop", "never, this",
		"--stop", stop))[0]
	if want, _, _ := strings.Cut(whole.Text, stop); cut.Text != want || cut.Finish != "stop" {
		t.Errorf("stopping at %q gives %q (%s), want %q", stop, cut.Text, cut.Finish, want)
	}
}

func TestTargetWithoutDraftDecodesPlainly(t *testing.T) {
	path := write(t, "target.gguf", demoBytes(t, "target"))
	want := results(t, generate(t, "", "--prompt", testPrompt, "--max-tokens", "6", "--json", "--policy", "none"))[0]
	for _, extra := range [][]string{nil, {"--draft", "none"}, {"--draft", "none", "--policy", "ngram"}} {
		o := generate(t, "",
			append([]string{"--target", path, "--prompt", testPrompt, "--max-tokens", "6", "--json"}, extra...)...)
		if got := results(t, o)[0]; !slices.Equal(got.TokenIDs, want.TokenIDs) {
			t.Errorf("%v: %v, want %v", extra, got.TokenIDs, want.TokenIDs)
		}
		if noted := strings.Contains(o.err, "without speculation"); noted != (extra == nil) {
			t.Errorf("%v: standard error %q", extra, o.err)
		}
	}
	if o := generate(t, "", "--target", path, "--policy", "chain", "--prompt", "x"); o.code != exitUsage ||
		!strings.Contains(o.err, "--draft") {
		t.Errorf("a chain without a draft: code %d, %q", o.code, o.err)
	}
}

// TestPairMaySwap drafts with the large model, which is slow but exact.
func TestPairMaySwap(t *testing.T) {
	target, draft := write(t, "target.gguf", demoBytes(t, "target")), write(t, "draft.gguf", demoBytes(t, "draft"))
	args := []string{"--target", draft, "--draft", target, "--prompt", testPrompt, "--max-tokens", "8", "--json"}
	plain := results(t, generate(t, "", append(args, "--policy", "none")...))[0]
	if got := results(t, generate(t, "", args...))[0]; !slices.Equal(got.TokenIDs, plain.TokenIDs) {
		t.Errorf("%v, plain decoding gives %v", got.TokenIDs, plain.TokenIDs)
	}
}

func TestTerminalShowsColoursAndProgress(t *testing.T) {
	var out, errs bytes.Buffer
	c := &console{in: strings.NewReader(""), out: &out, err: &errs, outTerminal: true, errTerminal: true, colour: true}
	if code := run(context.Background(), c, []string{"generate", "--device", "cpu", "--policy", "chain", "--prompt",
		testPrompt, "--max-tokens", "12"}); code != exitOK {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	if !strings.Contains(out.String(), colourAccepted) {
		t.Errorf("no accepted token is coloured in %q", out.String())
	}
	plain := generate(t, "", "--prompt", testPrompt, "--max-tokens", "12").out
	if bare := strings.NewReplacer(colourAccepted, "", colourOff, "").Replace(out.String()); bare != plain {
		t.Errorf("without its colours the text is %q, want %q", bare, plain)
	}
	for _, stage := range []string{"target", "draft"} {
		if !strings.Contains(errs.String(), stage) {
			t.Errorf("no progress of the %s in %q", stage, errs.String())
		}
	}
	out.Reset()
	errs.Reset()
	path := write(t, "prompts.jsonl", []byte(`{"id": "a", "prompt": "func"}`+"\n"+`{"id": "b", "prompt": "func"}`))
	c.outTerminal, c.colour = false, false
	if code := run(context.Background(), c,
		[]string{"generate", "--device", "cpu", "--prompt-file", path, "--max-tokens", "2", "--json"}); code != exitOK {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	if !strings.Contains(errs.String(), "prompts") {
		t.Errorf("no progress of the prompts in %q", errs.String())
	}
}

func TestTerminalIsNotSteeredByText(t *testing.T) {
	if got := escapeControls("a\x1b[2J\tb\n\u009bc"); got != "a\ufffd[2J\tb\n\ufffdc" {
		t.Errorf("%q", got)
	}
}

// cancelAfter cancels after the first write. The buffer is a field: embedded, its WriteString would bypass Write.
type cancelAfter struct {
	text   bytes.Buffer
	cancel func()
}

func (w *cancelAfter) Write(b []byte) (int, error) {
	w.cancel()
	return w.text.Write(b)
}

func TestInterruptEndsWithinARoundAndKeepsTheText(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out, errs := &cancelAfter{cancel: cancel}, &bytes.Buffer{}
	code := run(ctx, &console{in: strings.NewReader(""), out: out, err: errs},
		[]string{"generate", "--device", "cpu", "--prompt", testPrompt, "--max-tokens", "0"})
	if code != exitInterrupted || out.text.Len() == 0 || out.text.Len() > 200 || !strings.HasSuffix(errs.String(),
		"foretoken: interrupted\n") || !strings.Contains(errs.String(), "finish "+string(spec.FinishAborted)) {
		t.Errorf("code %d, text %q, standard error %q", code, out.text.String(), errs.String())
	}
	// A pipe that never closes must not delay an interrupt.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if code := run(ctx, &console{in: r, out: out, err: errs},
		[]string{"generate", "--device", "cpu"}); code != exitInterrupted {
		t.Errorf("waiting for standard input: code %d", code)
	}
}

func TestInspect(t *testing.T) {
	path := write(t, "draft.gguf", demoBytes(t, "draft"))
	o := call(t, "", "inspect", path)
	if o.code != exitOK {
		t.Fatal(o.err)
	}
	for _, want := range []string{"GGUF version 3", "llama.block_count", "4096 × string", "token_embd.weight",
		"96 × 4096", "590304 parameters", "gpt2, pre-tokenizer gpt-2, 4096 tokens", "can be run: yes",
		"the model continues texts only",
		"for 1024 positions in f32"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	var i struct {
		Version    int
		Parameters int
		Metadata   map[string]any
		Tensors    []tensorEntry
		Tokenizer  tokenizerEntry
		Runnable   bool
		Memory     graph.Memory
	}
	o = call(t, "", "inspect", "--json", "--context", "100", "--kv", "q8", path)
	if err := json.Unmarshal([]byte(o.out), &i); err != nil {
		t.Fatal(err)
	}
	if i.Version != 3 || i.Parameters != 590304 || i.Metadata["llama.block_count"] != 2.0 || len(i.Tensors) != 20 ||
		i.Tokenizer.Tokens != 4096 || !i.Runnable ||
		i.Memory.Context != 100 || i.Memory.Format != "q8" || i.Memory.Weights < 590304 || i.Memory.KV <= 0 {
		t.Errorf("%+v", i)
	}
}

func TestDevices(t *testing.T) {
	o := call(t, "", "devices", "--json")
	if o.code != exitOK {
		t.Fatal(o.err)
	}
	var list struct {
		Devices []deviceInfo
	}
	if err := json.Unmarshal([]byte(o.out), &list); err != nil {
		t.Fatal(err)
	}
	taken := 0
	for _, d := range list.Devices {
		if d.Auto {
			taken++
		}
		if d.Name == "" || d.Limits.BufferBytes <= 0 {
			t.Errorf("%+v", d)
		}
	}
	if last := list.Devices[len(list.Devices)-1]; taken != 1 || last.Backend != "cpu" || last.Type != "software" {
		t.Errorf("%d devices are taken by auto, the last is %+v", taken, last)
	}
	if o := call(t, "", "devices"); o.code != exitOK || !strings.Contains(o.out, "taken by auto") ||
		!strings.Contains(o.out, "workgroup") {
		t.Errorf("code %d: %s", o.code, o.out)
	}
}

func TestVersion(t *testing.T) {
	if o := call(t, "", "version"); o.code != exitOK || !strings.HasPrefix(o.out, "foretoken ") {
		t.Errorf("%+v", o)
	}
}

func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
