//go:build !js

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"foretoken"
	"foretoken/internal/files"
	"foretoken/models/constrain"
	"foretoken/models/demo"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
)

func TestCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("x"), "internal"},
		{fmt.Errorf("target: %w", &codedError{"network", errors.New("x")}), "network"},
		{fmt.Errorf("%w: %w", foretoken.ErrModel, fmt.Errorf("a.gguf: %w", &codedError{"checksum", errors.New("x")})),
			"checksum"},
		{withCode("bad_model", fmt.Errorf("a.gguf: %w", &codedError{"quota", errors.New("x")})), "quota"},
		{withCode("bad_model", fmt.Errorf("a.gguf: %w", &codedError{"", errors.New("x")})), "bad_model"},
		{withCode("bad_model", errors.New("x")), "bad_model"},
		{fmt.Errorf("%w: %w", foretoken.ErrModel, webgpu.ErrDeviceLost), "device_lost"},
		{fmt.Errorf("%w: %w", foretoken.ErrRequest, foretoken.ErrNoChatTemplate), "no_chat"},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	if withCode("bad_model", nil) != nil {
		t.Error("no error became one")
	}
}

// TestCodesAreThePages compares the codes with the page's list of error codes.
func TestCodesAreThePages(t *testing.T) {
	text, err := os.ReadFile("../web/src/protocol/errors.ts")
	if err != nil {
		t.Fatal(err)
	}
	_, union, _ := strings.Cut(string(text), "export type ForetokenErrorCode =")
	union, _, _ = strings.Cut(union, ";")
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(union, -1) {
		known[m[1]] = true
	}
	codes := []string{codeInternal, "busy", "disposed"}
	for _, k := range errorCodes {
		codes = append(codes, k.code)
	}
	for _, code := range codes {
		if !known[code] {
			t.Errorf("the page does not know the code %s", code)
		}
	}
}

// refusals are requests of pages with the beginning of what is said of them, the name of the field first.
var refusals = map[string]string{
	`{"temperature": 99}`:                       "temperature is 99, want 0 (greedy) or 0.001 to 2",
	`{"temperature": "hot"}`:                    "temperature is a string, want a number",
	`{"top_p": 1.5}`:                            "top_p is 1.5, want 0 to 1",
	`{"max_tokens": -1}`:                        "max_tokens is -1, want 0 (until the context is full) or 1 to",
	`{"max_tokens": 1.5}`:                       "max_tokens is 1.5, want a whole number",
	`{"promt": "x"}`:                            "promt is unknown; did you mean prompt?",
	`{"policy": "egale2"}`:                      `policy is "egale2", want none, auto, `,
	`{"policy": "eagle2", "top_k": 99}`:         "top_k is 99, want 1 to 64",
	`{"policy": "none", "grammar": "root ::="}`: "grammar cannot be used: ",
	`{"policy": "none", "json_schema": false}`:  "json_schema cannot be used: ",
	`{"json_open": 1}`:                          "json_open is 1, want true or false",
	`{"unchecked": ["uniqueitem"]}`:             `unchecked names "uniqueitem", want keywords among `,
	`{"unchecked": "not"}`:                      "unchecked is a string, want a list",
	`{"presence_penalty": 3}`:                   "presence_penalty is 3, want -2 to 2",
	`{"logit_bias": {"3": 101}}`:                "logit_bias of token 3 is 101, want -100 to 100",
	`{"stop_token_ids": [-1]}`:                  "stop_token_ids names token -1, want 0 to",
	`{"stop_token_ids": "x"}`:                   "stop_token_ids is a string, want a list",
	`{"stop": [""]}`:                            "stop has an empty string at 0",
	`{"top_logprobs": 2}`:                       "top_logprobs is given without logprobs",
	`{"logprobs": true, "top_logprobs": 21}`:    "top_logprobs is 21, want 0 to 20",
}

// TestRefusalsHaveCodes opens the built-in target and makes requests that it refuses.
func TestRefusalsHaveCodes(t *testing.T) {
	ctx := context.Background()
	target := demo.Target()
	dev := kerneltest.Reference(t)
	for _, c := range []struct {
		file    files.Source
		options foretoken.Options
		want    string
	}{
		{files.FromBytes("x.gguf", []byte("ELF!, and more that is no model")), foretoken.Options{}, "bad_model"},
		{target, foretoken.Options{Memory: 1000}, "out_of_memory"},
		{target, foretoken.Options{Context: 1 << 30}, "bad_option"},
		{target, foretoken.Options{KV: "f8"}, "bad_option"},
	} {
		if _, err := foretoken.Open(ctx, dev, c.file, nil, c.options); err == nil || codeOf(err) != c.want {
			t.Errorf("%+v: %v has the code %s, want %s", c.options, err, codeOf(err), c.want)
		}
	}
	s, err := foretoken.Open(ctx, dev, target, nil, foretoken.Options{Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, c := range map[string]struct {
		prompt string
		r      foretoken.Request
		want   string
	}{
		"an unknown policy":          {"x", foretoken.Request{Policy: "magic"}, "bad_option"},
		"a draft that is not loaded": {"x", foretoken.Request{Policy: "chain"}, "bad_option"},
		"an empty stop string":       {"x", foretoken.Request{Policy: "none", Stop: []string{""}}, "bad_option"},
		"a grammar that is none": {"x",
			foretoken.Request{Policy: "none", Constraints: constrain.Constraints{Grammar: "root ::= ("}}, "bad_option"},
		"a grammar of the empty text": {"x",
			foretoken.Request{Policy: "none", Constraints: constrain.Constraints{Grammar: `root ::= ""`}},
			"bad_option"},
		"a prompt that is too long": {strings.Repeat("func main() {\n", 512), foretoken.Request{Policy: "none"},
			"context_full"},
	} {
		if _, err := s.Generate(ctx, c.prompt, c.r, nil); err == nil || codeOf(err) != c.want {
			t.Errorf("%s: %v has the code %s, want %s", name, err, codeOf(err), c.want)
		}
	}
	for body, want := range refusals {
		r, err := readRequest([]byte(body))
		if err == nil {
			_, err = s.Generate(ctx, "x", r.Request, nil)
		}
		field, ok := errors.AsType[*spec.FieldError](err)
		if err == nil || codeOf(err) != "bad_option" || !strings.Contains(messageOf(err), want) || !ok {
			t.Errorf("%s: %v has the code %s, want %q", body, err, codeOf(err), want)
		} else if name, _, _ := strings.Cut(want, " "); field.Field != name {
			t.Errorf("%s: the field is %q, want %q", body, field.Field, name)
		}
		for _, word := range []string{"json:", "unmarshal", "Go struct", "spec:", "strconv"} {
			if err != nil && strings.Contains(messageOf(err), word) {
				t.Errorf("%s: %v says %q", body, err, word)
			}
		}
	}
	bare, err := foretoken.Open(ctx, dev, demo.Draft(), nil, foretoken.Options{Context: 64}) // has no template
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if _, err := bare.NewChat(foretoken.ChatOptions{}); codeOf(err) != "no_chat" {
		t.Errorf("a conversation without a template: %v has the code %s", err, codeOf(err))
	}
}
