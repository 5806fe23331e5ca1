//go:build !js

package foretoken

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"foretoken/models/demo"
	"foretoken/models/gguf"
	"foretoken/spec/method"
	"foretoken/webgpu/simd"
)

// TestOfferedHead opens sessions one after the other, each with what the one before stored. The offered head is loaded
// once it promises a gain, and stays where its passes cost little: without another draft, on a device that takes as
// long for any pass. On the cpu device it costs more than it brings, and the session after that does without for good.
func TestOfferedHead(t *testing.T) {
	ctx := context.Background()
	head, config := demoFile(t, demo.HeadName), demoFile(t, demo.ConfigName)
	opened := 0
	offer := Offer{"eagle3", func(context.Context) (gguf.Source, gguf.Source, error) {
		opened++
		return head, config, nil
	}}
	// visit opens a session on a device whose runs take so much longer, and returns what its reply says of the head.
	visit := func(late time.Duration, draft gguf.Source, o Options) (choice string, loaded bool,
		tuning map[string]map[string]string) {
		t.Helper()
		dev, err := simd.Open(simd.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Destroy()
		o.Context = 256
		s, err := Open(ctx, slow{dev, late}, demo.Target(), draft, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.TimePasses(ctx); err != nil {
			t.Fatal(err)
		}
		const prompt = "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfor i := 0; i < 10; i++ {\n"
		want, err := s.Generate(ctx, prompt, Request{Policy: method.DrafterNone, MaxTokens: 48}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Generate(ctx, prompt, Request{Policy: method.DrafterAuto, MaxTokens: 48}, nil)
		if err != nil || !slices.Equal(got.TokenIDs, want.TokenIDs) {
			t.Fatalf("%v, auto gives %q, plain decoding %q", err, got.Text, want.Text)
		}
		return got.OfferedHead, s.Info().EAGLE3 != nil, s.Tuning()
	}
	promised := func(tuning map[string]map[string]string) map[string]map[string]string {
		t.Helper()
		tuning = maps.Clone(tuning)
		tuning[tuningCosts] = maps.Clone(tuning[tuningCosts])
		for key, known := range tuning[tuningCosts] {
			if known == headDoesNot || known == headPromises {
				tuning[tuningCosts][key] = headPromises
				return tuning
			}
		}
		t.Fatalf("nothing is stored of the head")
		return nil
	}
	choice, loaded, tuning := visit(0, demo.Draft(), Options{})
	if choice != "" || loaded {
		t.Errorf("without an offer: %q, loaded: %t", choice, loaded)
	}
	choice, loaded, tuning = visit(0, demo.Draft(), Options{OfferedHead: offer, Tuning: tuning})
	if choice != headDoesNot || loaded || opened > 0 {
		t.Fatalf("at first the head %q, loaded: %t, opened %d times; want it left out", choice, loaded, opened)
	}
	for _, on := range []struct {
		late  time.Duration
		draft gguf.Source
		want  string
	}{{0, demo.Draft(), headCosts}, {8 * time.Millisecond, nil, headPays}} {
		_, _, tuning := visit(0, on.draft, Options{OfferedHead: offer})
		tuning = promised(tuning)
		for visits := range 2 {
			opened = 0
			choice, loaded, tuning = visit(on.late, on.draft, Options{OfferedHead: offer, Tuning: tuning})
			wanted := visits == 0 || on.want == headPays
			if choice != on.want || loaded != wanted || (opened == 1) != wanted {
				t.Errorf("runs %v longer, session %d: %q, loaded: %t, opened %d times; want %q, loaded: %t",
					on.late, visits+1, choice, loaded, opened, on.want, wanted)
			}
		}
	}
	opens := func(head, config gguf.Source, err error) Options {
		return Options{OfferedHead: Offer{"eagle3", func(context.Context) (gguf.Source, gguf.Source, error) {
			return head, config, err
		}}}
	}
	opened = 0
	other := Options{OfferedHead: Offer{"another", offer.Open}, Tuning: promised(tuning)}
	if _, loaded, _ := visit(0, demo.Draft(), other); loaded || opened > 0 {
		t.Error("a head is loaded by what is known of another")
	}
	for name, o := range map[string]Options{
		"too large": {OfferedHead: offer, Memory: memoryOfPair(t)},
		"missing":   opens(nil, nil, errors.New("not found")),
		"broken":    opens(cut{head, head.Size() / 2}, config, nil),
		"no head":   opens(config, config, nil),
	} {
		o.Tuning = promised(tuning)
		if choice, loaded, _ := visit(0, demo.Draft(), o); loaded || choice != headMissing {
			t.Errorf("a head that is %s: %q, loaded: %t", name, choice, loaded)
		}
	}
}

// cut is a file that cannot be read from a position on.
type cut struct {
	gguf.Source
	at int64
}

func (c cut) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > c.at {
		return 0, errors.New("cut off")
	}
	return c.Source.ReadAt(p, off)
}

// memoryOfPair returns the bytes that the built-in pair takes without its head.
func memoryOfPair(t *testing.T) int64 {
	t.Helper()
	dev, err := simd.Open(simd.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Destroy()
	m, err := Plan(demo.Target(), demo.Draft(), Options{Context: 256}, dev.Info().Limits)
	if err != nil {
		t.Fatal(err)
	}
	return m.Total
}
