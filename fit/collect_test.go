//go:build !js

package fit

import (
	"context"
	"math"
	"reflect"
	"slices"
	"testing"

	"foretoken"
	"foretoken/models/demo"
	"foretoken/spec"
	"foretoken/spec/adapt"
	"foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
)

var collecting = map[string]Options{"greedy": {Seed: 3}, "T=0.8, coupled": {Temperature: 0.8, Seed: 3},
	"T=0.8, uncoupled": {Temperature: 0.8, Seed: 3, Uncoupled: true}, "greedy, a head": {Seed: 3, Head: true},
	"T=0.8, coupled, a head": {Temperature: 0.8, Seed: 3, Head: true}}

const collected = "package main\n\nimport (\n\t\"fmt\"\n)\n\nfunc main() {\n"

// TestTeacherForcingMeetsDecoding compares the trees drafted along a finished text with those of decoding it: the
// same roots and the same numbers of accepted tokens.
func TestTeacherForcingMeetsDecoding(t *testing.T) {
	s := openDemo(t)
	for name, o := range collecting {
		// the token limit may cut the last round
		r := foretoken.Request{Policy: method.DrafterEAGLE2, Depth: 2, TopK: 3, Nodes: 7, MaxTokens: 32,
			Temperature: o.Temperature, Seed: o.Seed}
		if o.Head {
			r.Source = method.SourceEAGLE3
		}
		if o.Uncoupled {
			coupled := false
			r.Coupled = &coupled
		}
		type round struct {
			root     int32
			accepted int
		}
		var want, got []round
		decoded, err := s.Generate(context.Background(), collected, r, func(e *foretoken.Event) error {
			want = append(want, round{e.Round.Tree.Tokens[0], len(e.Round.Path) - 1})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Continue(context.Background(), s, collected, 24, o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(c.Tokens, decoded.TokenIDs[:24]) || !slices.Equal(c.Prompt, decoded.PromptIDs) {
			t.Fatalf("%s: the continuation is %v, decoding gives %v", name, c.Tokens, decoded.TokenIDs)
		}
		var b spec.Builder
		force := func(visit visit) error {
			_, err := withGrower(context.Background(), s, r.Depth, r.TopK, o, func(model grower) (any, error) {
				return nil, teacherForce(context.Background(), model, c, r.Depth, r.TopK, o, visit)
			})
			return err
		}
		err = force(func(root int32, levels []spec.Level, future []int32) (int, error) {
			tree, err := b.Build(root, levels, r.Nodes)
			if err != nil {
				return 0, err
			}
			got = append(got, round{root, followed(tree, future)})
			return got[len(got)-1].accepted, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) < 4 || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("%s: teacher forcing drafts\n%v\ndecoding\n%v", name, got, want)
		}
		o.Every = true
		roots := 0
		err = force(func(root int32, _ []spec.Level, _ []int32) (int, error) {
			if want := c.ids()[len(c.Prompt)-1+roots]; root != want {
				t.Fatalf("%s: root %d is token %d, want %d", name, roots, root, want)
			}
			roots++
			return 0, nil
		})
		if want := len(c.Tokens) - r.Depth - 1 + 1; err != nil || roots != want {
			t.Errorf("%s: %d roots (%v), want one at every position that has a whole tree after it, %d", name,
				roots, err, want)
		}
	}
}

func TestCollectHeteroSeesEachRoot(t *testing.T) {
	s := openDemo(t)
	c, err := Continue(context.Background(), s, collected, 20, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for depth := 1; depth <= 3; depth++ {
		points, err := HeteroPoints(context.Background(), s, c, 3, 8, depth, Options{})
		if err != nil || len(points) < 3 {
			t.Fatalf("%d roots, %v", len(points), err)
		}
		for i, p := range points {
			if most := float64(depth+1) * math.Log(3); p.TCR < 1 || p.TCR > 8 || p.Phi < 0 || p.Phi > most+1e-6 {
				t.Errorf("depth %d, root %d: %+v", depth, i, p)
			}
		}
	}
}

func TestCollectC2TCountsEveryNode(t *testing.T) {
	s := openDemo(t)
	c, err := Continue(context.Background(), s, collected, 20, Options{})
	if err != nil {
		t.Fatal(err)
	}
	const depth, k, others = 2, 4, 5
	trees, err := C2TTrees(context.Background(), s, c, depth, k, others, Options{Seed: 1})
	if err != nil || len(trees) < 3 {
		t.Fatalf("%d trees, %v", len(trees), err)
	}
	accepted := 0
	for i, tree := range trees {
		if nodes := len(tree.Accepted) + tree.Rejected; nodes != k+depth*k*k || len(tree.Others) != others {
			t.Errorf("tree %d has %d nodes, want %d; %d others kept", i, nodes, k+depth*k*k, len(tree.Others))
		}
		for d, f := range tree.Accepted {
			if f.Depth != d+1 || !(f.Probability > 0 && f.Probability <= 1) ||
				d > 0 && f.Probability > tree.Accepted[d-1].Probability {
				t.Errorf("tree %d: the accepted path is %+v", i, tree.Accepted)
			}
		}
		accepted += len(tree.Accepted)
	}
	if accepted == 0 {
		t.Error("nothing was accepted")
	}
	again, err := C2TTrees(context.Background(), s, c, depth, k, others, Options{Seed: 1})
	if err != nil || !reflect.DeepEqual(trees, again) {
		t.Errorf("a second run gives other trees (%v)", err)
	}
	narrow, err := C2TTrees(context.Background(), s, c, depth, k, others, Options{Seed: 1, EntropyTop: 2})
	if err != nil || len(narrow) != len(trees) {
		t.Fatalf("%d trees with the entropy of two tokens, %v", len(narrow), err)
	}
	for i, tree := range narrow {
		for j, f := range tree.Others {
			of := trees[i].Others[j]
			if f.Probability != of.Probability || f.Depth != of.Depth || !(f.Entropy < min(of.Entropy, math.Ln2+1e-6)) {
				t.Errorf("tree %d: %+v with the entropy of two tokens, %+v with that of all", i, f, of)
			}
		}
	}
}

func TestMixtureLabelsWhatTheVerifierWouldSay(t *testing.T) {
	s := openDemo(t)
	for _, l := range []struct {
		label string
		o     Options
	}{
		{adapt.LabelArgmax, Options{Seed: 5}},
		{adapt.LabelDraw, Options{Seed: 5, Temperature: 1}},
		{adapt.LabelProbability, Options{Seed: 5, Temperature: 1}},
		{adapt.LabelRatio, Options{Seed: 5, Temperature: 1}},
		{adapt.LabelArgmax, Options{Seed: 5, Head: true}},
		{adapt.LabelDraw, Options{Seed: 5, Temperature: 1, Head: true}},
		{adapt.LabelRatio, Options{Seed: 5, Temperature: 1, Head: true}},
	} {
		c, err := Continue(context.Background(), s, collected, 40, l.o)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Mix(context.Background(), s, c, l.label, 0.5, 7, l.o)
		if err != nil {
			t.Fatal(err)
		}
		if m.First != len(c.Prompt) || len(m.Labels) != len(c.Tokens) || len(m.Tokens) != len(c.Prompt)+len(c.Tokens) ||
			!slices.Equal(m.Tokens[:m.First], c.Prompt) {
			t.Fatalf("%s: %+v", l.label, m)
		}
		if l.o.Head != slices.Equal(m.Target, c.Tokens) {
			t.Errorf("%s: a head reads the target's tokens %v, want %v", l.label, m.Target, c.Tokens)
		}
		own, right := 0, 0
		for i, label := range m.Labels {
			same := m.Tokens[m.First+i] == c.Tokens[i]
			switch {
			case label == -1:
				own++
				if !same {
					t.Errorf("%s: token %d has no label and is not the target's", l.label, i)
				}
			case label < 0 || label > 1:
				t.Errorf("%s: label %d is %v", l.label, i, label)
			case l.label == adapt.LabelArgmax || l.label == adapt.LabelDraw:
				if (label == 1) != same {
					t.Errorf("%s: label %d is %v and the token the target's: %v", l.label, i, label, same)
				}
				if same {
					right++
				}
			}
		}
		if own < 10 || own > 30 {
			t.Errorf("%s: %d of 40 tokens are the target's, want about half", l.label, own)
		}
		if l.label == adapt.LabelDraw && right == 0 {
			t.Error("no draw that shares the target's noise is the target's")
		}
		if _, err := Mix(context.Background(), s, c, l.label, 0.5, 7,
			Options{Temperature: 1 - l.o.Temperature, Head: l.o.Head}); err == nil {
			t.Errorf("%s: taken at temperature %v", l.label, 1-l.o.Temperature)
		}
	}
}

// TestHeadExamplesAreOfLabelledTokens trains on the states of the tokens with a label: of a draft model, those of the
// mixture; of an EAGLE-3 head, those after the target's own text.
func TestHeadExamplesAreOfLabelledTokens(t *testing.T) {
	s := openDemo(t)
	c, err := Continue(context.Background(), s, collected, 20, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Seed: 5}, {Seed: 5, Head: true}} {
		mix := func(part float64) *Mixture {
			t.Helper()
			m, err := Mix(context.Background(), s, c, adapt.LabelArgmax, part, 7, o)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		states := func(m *Mixture) *Examples {
			t.Helper()
			e, err := HeadExamples(context.Background(), s, [][]*Mixture{{m}}, 6, o, func(int) {})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		some := mix(0.5)
		got := states(some)
		all := *some // the states of all tokens
		all.Labels = make([]float32, len(some.Labels))
		every := states(&all)
		if every.Len() != 20 || got.width != map[bool]int{false: 96, true: 256}[o.Head] {
			t.Fatalf("%d states of width %d", every.Len(), got.width)
		}
		n := 0
		for i, label := range some.Labels {
			if label < 0 {
				continue
			}
			if !slices.Equal(got.inputs[n*got.width:][:got.width], every.inputs[i*got.width:][:got.width]) ||
				got.yes[n] != label || got.no[n] != 6*(1-label) {
				t.Errorf("%+v: example %d is not token %d's", o, n, i)
			}
			n++
		}
		if n != got.Len() {
			t.Errorf("%+v: %d examples of %d labels", o, got.Len(), n)
		}
		// The first state after the prompt does not depend on the mixture's later tokens.
		other := *some
		other.Tokens = append(slices.Clone(some.Tokens[:some.First+1]), make([]int32, 19)...)
		if changed := states(&other); changed.Len() > 0 && some.Labels[0] >= 0 &&
			!slices.Equal(changed.inputs[:got.width], got.inputs[:got.width]) {
			t.Errorf("%+v: the first state depends on later tokens", o)
		}
	}
}

func TestCollectingNeedsADraft(t *testing.T) {
	s, err := foretoken.Open(context.Background(), kerneltest.CPU(t), demo.Target(), nil, foretoken.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, err := range []error{
		func() error {
			_, err := HeteroPoints(context.Background(), s, nil, 1, 2, 1, Options{})
			return err
		}(),
		func() error {
			_, err := C2TTrees(context.Background(), s, nil, 1, 2, 1, Options{})
			return err
		}(),
		func() error {
			_, err := Mix(context.Background(), s, nil, adapt.LabelArgmax, 0, 0, Options{})
			return err
		}(),
	} {
		if err != errNothingToDraft {
			t.Errorf("%v", err)
		}
	}
	if _, err := C2TTrees(context.Background(), s, nil, 1, 2, 1, Options{Head: true}); err != errNoHead {
		t.Errorf("%v", err)
	}
}

func TestTemperedProbabilities(t *testing.T) {
	out := spec.NodeOutput{TopIDs: []int32{4, 9, 2}, TopLogits: []float32{2, 1, -1}}
	for _, temperature := range []float64{0.5, 1, 2} {
		sum := 0.0
		for _, id := range out.TopIDs {
			sum += tempered(&out, id, temperature)
		}
		if r := tempered(&out, 4, temperature) / tempered(&out, 9, temperature); math.Abs(sum-1) > 1e-9 ||
			math.Abs(r-math.Exp(1/temperature)) > 1e-6 {
			t.Errorf("T=%v: sum %v, ratio %v", temperature, sum, r)
		}
	}
	if p := tempered(&out, 7, 1); p != 0 {
		t.Errorf("an unknown token has %v", p)
	}
}
