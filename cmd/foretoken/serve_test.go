//go:build !js

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServe starts the command, asks it for a text and ends it by a signal.
func TestServe(t *testing.T) {
	t.Setenv(keyVariable, "from the environment")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	r, w := io.Pipe()
	var errs strings.Builder
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, &console{in: strings.NewReader(""), out: w, err: &errs}, []string{"serve", "--device", "cpu",
			"--addr", "127.0.0.1:0", "--json", "--temperature", "0", "--max-tokens", "6", "--model-name", "small"})
		w.Close()
	}()
	lines := bufio.NewScanner(r)
	next := func() (e struct {
		Event, URL, Model, Path string
		Status                  int
		Output                  int `json:"completion_tokens"`
		Cut                     bool
	}) {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("no further event; %s", errs.String())
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v in %q", err, lines.Text())
		}
		return e
	}
	if e := next(); e.Event != "listening" {
		t.Fatalf("%+v", e)
	}
	ready := next()
	if ready.Event != "ready" || ready.Model != "small" {
		t.Fatalf("%+v", ready)
	}
	ask, err := http.NewRequest("POST", ready.URL+"/completions",
		strings.NewReader(`{"model": "small", "prompt": "func main() {"}`))
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("Content-Type", "application/json")
	ask.Header.Set("Authorization", "Bearer from the environment")
	answer := make(chan string, 1)
	go func() {
		a, err := http.DefaultClient.Do(ask)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer a.Body.Close()
		b, _ := io.ReadAll(a.Body)
		answer <- string(b)
	}()
	if e := next(); e.Event != "request" || e.Path != "/v1/completions" || e.Status != 200 || e.Output != 6 {
		t.Errorf("%+v", e)
	}
	want := results(t, generate(t, "", "--prompt", "func main() {", "--max-tokens", "6", "--json"))[0]
	var got struct{ Choices []struct{ Text string } }
	if text := <-answer; json.Unmarshal([]byte(text), &got) != nil || len(got.Choices) != 1 ||
		got.Choices[0].Text != want.Text {
		t.Errorf("%s, want %q", text, want.Text)
	}
	cancel(stopSignal{syscall.SIGTERM})
	if e := next(); e.Event != "stopped" || e.Cut {
		t.Errorf("%+v", e)
	}
	if got := <-code; got != exitOK {
		t.Errorf("code %d: %s", got, errs.String())
	}
}

func TestServeRefusals(t *testing.T) {
	for _, args := range [][]string{{"--max-queue", "-1"}, {"--timeout", "-1s"}, {"--grace", "-1s"},
		{"--top-logprobs", "21"}, {"--cors-origin", "localhost"}, {"--cors-origin", "http://a/b"},
		{"--addr", "8080"}, {"--policy", "magic"}, {"--temperature", "-1"}} {
		if o := call(t, "", append([]string{"serve", "--device", "cpu"}, args...)...); o.code != exitUsage ||
			!strings.Contains(o.err, strings.TrimPrefix(args[0], "--")) {
			t.Errorf("%v: code %d, %q", args, o.code, o.err)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if o := call(t, "", "serve", "--device", "cpu", "--addr", taken.Addr().String()); o.code != exitError ||
		!strings.Contains(o.err, "taken by another program") {
		t.Errorf("a taken port: code %d, %q", o.code, o.err)
	}
	if o := call(t, "", "serve", "--device", "cpu", "--addr", "127.0.0.1:0", "--target",
		"/nowhere.gguf"); o.code != exitError || !strings.Contains(o.err, "/nowhere.gguf") {
		t.Errorf("a target that is not there: code %d, %q", o.code, o.err)
	}
}

// TestServeToOthers checks the notes on an address that other machines can reach.
func TestServeToOthers(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, stopSignal{os.Interrupt})
	defer cancel()
	for _, key := range []string{"", "secret"} {
		var errs strings.Builder
		run(ctx, &console{in: strings.NewReader(""), out: io.Discard, err: &errs},
			[]string{"serve", "--device", "cpu", "--addr", "0.0.0.0:0", "--api-key", key})
		want := map[string]string{"": "no key is asked for", "secret": "not encrypted"}[key]
		if !strings.Contains(errs.String(), "can be reached from other machines") ||
			!strings.Contains(errs.String(), want) {
			t.Errorf("with the key %q: %q", key, errs.String())
		}
	}
}
