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
