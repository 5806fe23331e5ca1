//go:build !js

package foretoken

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"foretoken/spec/method"
	"foretoken/webgpu/open"
)

// TestEmbed compares poolings with each other, texts with one another, and a text that is written after it with one
// written before.
func TestEmbed(t *testing.T) {
	const text = "func (b *Buffer) Len() int { return len(b.buf) - b.off }"
	s := demoSessionWith(t, open.Accelerator, Options{})
	ctx := context.Background()
	write := func() string {
		t.Helper()
		out, err := s.Generate(ctx, text, Request{MaxTokens: 12, Policy: method.DrafterNone}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out.Text
	}
	embed := func(text string, o EmbedOptions) []float32 {
		t.Helper()
		e, err := s.Embed(ctx, text, o)
		if err != nil {
			t.Fatal(err)
		}
		if ids := s.Tokenizer().Encode(text, true); e.Tokens != len(ids) || len(e.Vector) != s.Info().Target.Width {
			t.Fatalf("%d tokens and %d values, want %d and %d", e.Tokens, len(e.Vector), len(ids),
				s.Info().Target.Width)
		}
		return e.Vector
	}
	dot := func(a, b []float32) (sum float64) {
		for i := range a {
			sum += float64(a[i]) * float64(b[i])
		}
		return sum
	}
	before := write()
	for _, pooling := range []string{"", "mean", "last"} {
		unit, raw := embed(text, EmbedOptions{Pooling: pooling}),
			embed(text, EmbedOptions{Pooling: pooling, Raw: true})
		length := math.Sqrt(dot(raw, raw))
		if math.Abs(dot(unit, unit)-1) > 1e-5 || math.Abs(dot(unit, raw)/length-1) > 1e-5 {
			t.Errorf("pooling %q: |v|² = %g, the unscaled one points elsewhere by %g", pooling, dot(unit, unit),
				dot(unit, raw)/length)
		}
	}
	mean := embed(text, EmbedOptions{})
	if !slices.Equal(mean, embed(text, EmbedOptions{Pooling: "mean"})) {
		t.Error("the default is not the mean")
	}
	if slices.Equal(mean, embed(text, EmbedOptions{Pooling: "last"})) {
		t.Error("mean and last are the same")
	}
	near, far := embed("func (b *Buffer) Cap() int { return cap(b.buf) }", EmbedOptions{}),
		embed("// Copyright 2009 The Go Authors. All rights reserved.", EmbedOptions{})
	if dot(mean, near) <= dot(mean, far) {
		t.Errorf("a method is %.3f like another, and %.3f like a copyright notice", dot(mean, near), dot(mean, far))
	}
	if after := write(); after != before {
		t.Errorf("the text is %q after embedding, %q before", after, before)
	}
	for _, c := range []struct {
		text string
		o    EmbedOptions
		kind error
	}{
		{"a", EmbedOptions{Pooling: "max"}, ErrRequest},
		{string(make([]byte, 100_000)), EmbedOptions{}, ErrContextFull},
	} {
		if _, err := s.Embed(ctx, c.text, c.o); !errors.Is(err, c.kind) {
			t.Errorf("%+v: %v, want %v", c.o, err, c.kind)
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Embed(cancelled, text, EmbedOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestEndTokenAfterPrompts: a file's add_eos_token is about texts that are complete. Embeddings have the token; a text
// to continue has not, whichever of a pair asks for it, and neither has a conversation.
func TestEndTokenAfterPrompts(t *testing.T) {
	ends := func(m *modelEditor) { m.set("tokenizer.ggml.add_eos_token", true) }
	plain := opened(t, "cpu", edited(t, "tiny-f32", nil), nil, Options{Context: 128})
	const text = "One day"
	want, err := plain.Generate(t.Context(), text, Request{Policy: method.DrafterNone, MaxTokens: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := plain.Tokenizer().Encode(text, true)
	for _, c := range []struct {
		name          string
		target, draft func(*modelEditor)
	}{{"target", ends, nil}, {"draft", nil, ends}, {"both", ends, ends}} {
		s := opened(t, "cpu", edited(t, "tiny-f32", c.target), edited(t, "tiny-f32", c.draft), Options{Context: 128})
		got, err := s.Generate(t.Context(), text, Request{Policy: method.DrafterChain, MaxTokens: 4}, nil)
		if err != nil || got.Text != want.Text || !slices.Equal(got.PromptIDs, whole) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, want)
		}
		e, err := s.Embed(t.Context(), text, EmbedOptions{})
		tokens := len(whole)
		if c.target != nil {
			tokens++
		}
		if err != nil || e.Tokens != tokens {
			t.Errorf("%s: an embedded text has %+v tokens, want %d; %v", c.name, e, tokens, err)
		}
		ids, err := s.ChatIDs(ChatOptions{Template: "{{ messages[0].content }}",
			Messages: []Message{{Role: RoleUser, Content: text}}}, nil)
		if err != nil || !slices.Equal(ids, whole) {
			t.Errorf("%s: a conversation is %v, want %v; %v", c.name, ids, whole, err)
		}
	}
}

// TestPoolingOfTheFile: a model for embeddings says how it was trained to pool.
func TestPoolingOfTheFile(t *testing.T) {
	s := opened(t, "cpu", edited(t, "tiny-f32", func(m *modelEditor) { m.set("llama.pooling_type", uint32(3)) }), nil,
		Options{Context: 128})
	vector := map[string][]float32{}
	for _, pooling := range []string{"", "last", "mean"} {
		e, err := s.Embed(t.Context(), "One day", EmbedOptions{Pooling: pooling})
		if err != nil {
			t.Fatal(err)
		}
		vector[pooling] = e.Vector
	}
	if !slices.Equal(vector[""], vector["last"]) || slices.Equal(vector[""], vector["mean"]) {
		t.Error("the file's pooling is not the default")
	}
}
