package runner

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"foretoken/models/convert"
	"foretoken/models/graph"
	"foretoken/models/safetensors"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

// request is one of several requests on the same models.
type request struct {
	name   string
	prompt func(before []int32) []int32 // given the tokens after the previous request
	tokens int
	abort  int // rounds before it is cancelled; 0: never
	cut    int // tokens before it ends, usually in the middle of an accepted run; 0: no limit
}

// conversation is the sequence of requests of a chat.
func conversation() []request {
	on := func(more ...int32) func([]int32) []int32 {
		return func(before []int32) []int32 { return append(slices.Clone(before), more...) }
	}
	return []request{
		{name: "first", prompt: func([]int32) []int32 { return text }, tokens: 10},
		{name: "next, cut", prompt: on(300, 17), tokens: 12, cut: 5},
		{name: "next, aborted", prompt: on(44), tokens: 30, abort: 2},
		{name: "the same again", prompt: on(), tokens: 5},
		{name: "edited", prompt: func(b []int32) []int32 { return append(slices.Clone(b[:len(text)-2]), 99, 100) },
			tokens: 8},
		{name: "nothing in common", prompt: func([]int32) []int32 { return []int32{text[4], text[3]} }, tokens: 4},
	}
}

// record holds the result of a request: its tokens, and all numbers of every node of its rounds.
type record struct {
	tokens  []int32
	numbers []uint32
}

// TestKeptPrefix runs conversations on models that keep their KV cache between requests and on models that start
// empty, with every kind of draft: the outputs of draft and target must have the same bits.
func TestKeptPrefix(t *testing.T) {
	if testing.Short() {
		t.Skip("short: the slot table is the same on every device")
	}
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		kv := kernels.KVF16
		if dev.Info().Host() { // one KV format per device is enough
			kv = kernels.KVQ8
		}
		target := loadTarget(t, dev, "tiny-q8_0", graph.Options{Context: 160, KV: kv, MaxRows: 32, TopK: 4})
		draft := loadDraft(t, dev, "noisy-q8_0", graph.Options{Context: 160, KV: kv})
		acceptance := &adapt.AcceptanceHead{Estimator: *testEstimator(draft.Graph.Arch.Dim, 1)}
		w, err := convert.Head(randomHead(t, target.Graph.Arch, safetensors.F16, false, nil))
		if err != nil {
			t.Fatal(err)
		}
		head, err := LoadEAGLE3(background, dev, target, w, graph.Options{KV: kv})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(head.Close)
		models := map[string]spec.DraftModel{"": draft, method.SourceEAGLE3: head}
		sampled := spec.Sampling{Temperature: 0.8, Seed: 7}
		for _, way := range []struct {
			method.Config
			spec.Sampling
		}{
			{method.Config{Drafter: method.DrafterEAGLE2, Depth: 3, TopK: 3, Nodes: 12}, sampled},
			{method.Config{Drafter: method.DrafterChain, Source: method.SourceEAGLE3, Depth: 4,
				Verifier: method.VerifierRejection}, sampled},
			{method.Config{Drafter: method.DrafterChain, Depth: 4}, spec.Sampling{}},
			{method.Config{Drafter: method.DrafterEAGLE2, Adapt: method.AdaptAcceptance,
				Settings: method.Settings{Threshold: 0.4},
				Depth:    3, TopK: 3, Nodes: 12, Fitted: method.Fitted{Head: acceptance}}, spec.Sampling{}},
			{method.Config{Drafter: method.DrafterChain, Depth: 4, Verifier: method.VerifierRejection}, sampled},
			{method.Config{Drafter: method.DrafterSampled, Shape: [][]int{{2}, {2, 1}},
				Verifier: method.VerifierWithoutReplacement}, sampled},
			{method.Config{Drafter: method.DrafterEAGLE2, Source: method.SourceEAGLE3, Depth: 3, TopK: 3, Nodes: 12},
				spec.Sampling{}},
		} {
			c, s := way.Config, way.Sampling
			var programs spec.Programs
			if c.Adapt == method.AdaptAcceptance {
				programs.Estimator = &acceptance.Estimator
			}
			if err := draft.Prepare(programs); err != nil {
				t.Fatal(err)
			}
			model := models[c.Source]
			fresh, _ := converse(t, target, model, c, s, false)
			kept, reused := converse(t, target, model, c, s, true)
			for i, r := range conversation() {
				what := fmt.Sprintf("%s %s %s at T=%g, %s", c.Drafter, c.Source, c.Verifier, s.Temperature, r.name)
				if !slices.Equal(kept[i].tokens, fresh[i].tokens) {
					t.Errorf("%s: with a kept prefix %v, without %v", what, kept[i].tokens, fresh[i].tokens)
				} else if !slices.Equal(kept[i].numbers, fresh[i].numbers) {
					t.Errorf("%s: the same tokens of other numbers", what)
				}
				if len(fresh[i].numbers) == 0 && c.Verifier == "" {
					t.Errorf("%s: no numbers to compare", what)
				}
			}
			if reused < 60 {
				t.Errorf("%d tokens reused", reused)
			}
		}
	})
}

func converse(t *testing.T, target *Target, draft spec.DraftModel, c method.Config, s spec.Sampling,
	keeps bool) (records []record, reused int) {
	t.Helper()
	target.Reset()
	draft.Reset()
	var seq []int32
	for _, r := range conversation() {
		if !keeps {
			target.Reset()
			draft.Reset()
		}
		prompt := r.prompt(seq)
		g, err := method.New(target, c, draft, draft) // as either source
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(background)
		o := spec.Options{Sampling: s, MaxTokens: r.tokens}
		count := 0
		if r.cut > 0 {
			o.Cut = func(tokens []int32) (int, bool) {
				count += len(tokens)
				return len(tokens) - max(count-r.cut, 0), count >= r.cut
			}
		}
		rec := record{tokens: slices.Clone(prompt)}
		add := func(x ...float32) {
			for _, v := range x {
				rec.numbers = append(rec.numbers, math.Float32bits(v))
			}
		}
		stats, err := g.Generate(ctx, prompt, o, func(e *spec.Event) error {
			rec.tokens = append(rec.tokens, e.Tokens...)
			for _, out := range e.Outputs {
				add(out.LogSumExp, out.Entropy)
				add(out.TopLogits...)
			}
			for _, l := range e.Levels {
				for _, candidate := range l.Candidates {
					add(candidate.LogQ)
				}
				add(l.Entropies...)
				add(l.Accepts...)
			}
			if e.Round == r.abort {
				cancel()
			}
			return nil
		})
		cancel()
		if err != nil {
			t.Fatalf("%+v: %s: %v", c, r.name, err)
		}
		if stats.Reused+stats.Prefilled != len(prompt)-1 || keeps != (stats.Reused > 0) && r.name != "first" &&
			r.name != "nothing in common" {
			t.Errorf("%s: %d of %d prompt tokens reused, %d prefilled", r.name, stats.Reused, len(prompt),
				stats.Prefilled)
		}
		if r.abort > 0 && stats.Finish != spec.FinishAborted {
			t.Errorf("%s: %s", r.name, stats.Finish)
		}
		records, seq, reused = append(records, rec), rec.tokens, reused+stats.Reused
	}
	return records, reused
}

// TestKeepAfterFailure checks that Keep drops entries that no pass has written.
func TestKeepAfterFailure(t *testing.T) {
	dev := kerneltest.Reference(t)
	failing := &failingDevice{Device: dev}
	target, err := LoadTarget(background, failing, testModel(t, "tiny-f32"), graph.Options{Context: 96})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	if err := target.Prefill(background, text[:6]); err != nil {
		t.Fatal(err)
	}
	failing.fails = true
	if err := target.Prefill(background, text[6:]); err == nil {
		t.Fatal("a failed pass went unnoticed")
	}
	failing.fails = false
	if n := target.ReusePrefix(text); n != 6 || target.Len() != 6 {
		t.Errorf("%d tokens kept of 6 that passes have run for, %d held", n, target.Len())
	}
	if n := target.ReusePrefix(append(slices.Clone(text[:4]), 1)); n != 4 {
		t.Errorf("%d tokens kept of a sequence that differs after 4", n)
	}
	if free := target.seq.Free(); free != target.Graph.Options.Context+target.Graph.Options.Spare()-4 {
		t.Errorf("%d slots are free", free)
	}
}

// failingDevice fails to run on demand.
type failingDevice struct {
	webgpu.Device
	fails bool
}

func (f *failingDevice) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	if f.fails {
		return webgpu.ErrDeviceLost
	}
	return f.Device.Run(programs, reads...)
}

// TestWithin checks that a pass within a prefix has the outputs of one after that prefix alone and leaves the
// sequence unchanged.
func TestWithin(t *testing.T) {
	target, err := LoadTarget(background, kerneltest.Reference(t), testModel(t, "tiny-f32"), graph.Options{Context: 96})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	tree := &spec.Tree{}
	tree.Reset(text[5])
	verify := func() (out spec.NodeOutput) {
		t.Helper()
		got, err := verify(target, tree, spec.Sampling{})
		if err != nil {
			t.Fatal(err)
		}
		out = got[0]
		out.TopIDs, out.TopLogits = slices.Clone(out.TopIDs), slices.Clone(out.TopLogits)
		return out
	}
	after := func(n int) spec.NodeOutput {
		t.Helper()
		target.Reset()
		if err := target.Prefill(background, text[:n]); err != nil {
			t.Fatal(err)
		}
		return verify()
	}
	short, long := after(3), after(9)
	if reflect.DeepEqual(short, long) {
		t.Fatal("both texts have the same continuation")
	}
	var got spec.NodeOutput
	if err := target.Within(3, func() error {
		got = verify()
		return nil
	}); err != nil || !reflect.DeepEqual(got, short) {
		t.Errorf("within 3 tokens: %+v, %v; after 3 %+v", got, err, short)
	}
	if again := verify(); target.Len() != 9 || !reflect.DeepEqual(again, long) {
		t.Errorf("then, after %d: %+v, before %+v", target.Len(), again, long)
	}
	if err := target.Within(10, func() error { return nil }); err == nil {
		t.Error("9 tokens had 10")
	}
}
