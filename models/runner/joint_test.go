package runner

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"foretoken/models/graph"
	"foretoken/models/safetensors"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// separateTarget is a target that verifies in separate runs.
type separateTarget struct{ *Target }

func (t separateTarget) Limits() spec.Limits {
	lim := t.Target.Limits()
	lim.Joint = false
	return lim
}

// roundRecord is a copy of a round for comparison.
type roundRecord struct {
	Tokens, Path []int32
	Tree         spec.Tree
	Levels       []spec.Level
	Outputs      []spec.NodeOutput
	joint        bool
	counted      webgpu.Counters // at the end of the round
}

// rounds generates and returns all rounds.
func rounds(t *testing.T, target spec.Target, draft spec.DraftModel, c method.Config, s spec.Sampling,
	dev webgpu.Device) []roundRecord {
	t.Helper()
	g, err := method.New(target, c, draft, draft) // as either source
	if err != nil {
		t.Fatal(err)
	}
	target.Reset()
	draft.Reset()
	var all []roundRecord
	if _, err := g.Generate(background, text, spec.Options{Sampling: s, MaxTokens: 12}, func(e *spec.Event) error {
		one := roundRecord{Tokens: append([]int32{}, e.Tokens...), Path: append([]int32{}, e.Path...),
			Tree:   *e.Tree.Clone(),
			Levels: mustLevels(t)(e.Levels, nil), joint: e.Joint, counted: dev.Counters()}
		for _, o := range e.Outputs {
			one.Outputs = append(one.Outputs, output(o))
		}
		all = append(all, one)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestJointRounds compares rounds of one run with rounds of two: levels, trees, outputs and tokens have the same
// bits. A joint round takes one submit and one readback and compiles nothing.
func TestJointRounds(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		target := loadTarget(t, dev, "tiny-q8_0", graph.Options{Context: 96})
		model := loadDraft(t, dev, "noisy-q8_0", graph.Options{Context: 96})
		type pair struct {
			target *Target
			draft  spec.DraftModel
			c      method.Config
		}
		pairs := []pair{
			{target, model, method.Config{Drafter: method.DrafterChain, Depth: 4}},
			{target, model, method.Config{Drafter: method.DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12}},
			{target, model, method.Config{Drafter: method.DrafterStatic, Shape: [][]int{{3}, {2, 0, 1}, {1, 1}}}},
			{target, model, method.Config{Drafter: method.DrafterChain, Depth: 3, Verifier: method.VerifierRejection}},
			{target, model, method.Config{Drafter: method.DrafterChain, Depth: 3, Verifier: method.VerifierAdaSD}},
			{target, model, method.Config{Drafter: method.DrafterSampled, Shape: [][]int{{3}, {2, 0, 1}, {1, 1}},
				Verifier: method.VerifierMatch}},
			{target, model, method.Config{Drafter: method.DrafterSampled, Shape: [][]int{{3}, {2, 0, 1}, {1, 1}},
				Verifier: method.VerifierWithoutReplacement}},
		}
		if !testing.Short() {
			small, head, _ := headed(t, dev, safetensors.F16, false, graph.Options{})
			pairs = append(pairs, pair{target, model, method.Config{Drafter: method.DrafterEAGLE2, Depth: 1, TopK: 3,
				Nodes: 30, Verifier: method.VerifierMARS}},
				pair{small, head, method.Config{Drafter: method.DrafterEAGLE2, Source: method.SourceEAGLE3, Depth: 2,
					TopK: 3, Nodes: 8}},
				pair{small, head, method.Config{Drafter: method.DrafterSampled, Source: method.SourceEAGLE3,
					Shape: [][]int{{2}, {2, 1}, {0, 1}}, Verifier: method.VerifierWithoutReplacement}})
		}
		for _, c := range pairs {
			target, draft := c.target, c.draft
			b := c.c.Budget()
			for _, temperature := range []float64{0, 0.8} {
				p := c.c.Programs(temperature, draft.Limits())
				if p.Model = draft; c.c.Drafter == method.DrafterEAGLE2 { // MARS may
					p.Joint = true
				}
				for _, err := range []error{target.Prepare(p), draft.Prepare(p)} {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, s := range []spec.Sampling{{}, {Temperature: 0.8, TopK: 40, TopP: 0.9, Seed: 6}} {
				if testing.Short() && s.Temperature == 0 {
					continue
				}
				name := fmt.Sprintf("%s of %d by %d to %d, %s, T=%v", c.c.Drafter, b.Levels, b.Width, b.Nodes,
					c.c.Verifier, s.Temperature)
				want := rounds(t, separateTarget{target}, draft, c.c, s, dev)
				got := rounds(t, target, draft, c.c, s, dev)
				sameRounds(t, name, got, want)
				for i := 1; i < len(got); i++ {
					if !got[i].joint {
						continue
					}
					a, b := got[i-1].counted, got[i].counted
					if b.Submits-a.Submits != 1 || b.Reads-a.Reads != 1 || b.Buffers != a.Buffers ||
						b.Programs != a.Programs || b.Kernels != a.Kernels {
						t.Fatalf("%s: round %d: counters went from %+v to %+v", name, i, a, b)
					}
				}
			}
		}
		otherTree(t, dev)
	})
}

// TestJointRoundWithoutRoom asks for rounds of one run that the target's context has no room for. The target refuses
// them before the draft consumes anything: it drafts as if it had not been asked.
func TestJointRoundWithoutRoom(t *testing.T) {
	dev := accelerator(t)
	last := len(text) - 1
	target := loadTarget(t, dev, "tiny-q8_0", graph.Options{Context: last + 2})
	draft := loadDraft(t, dev, "noisy-q8_0", graph.Options{Context: 96})
	tree := &spec.DraftRequest{Depth: 2, K: 4, Nodes: 10}
	chain := &spec.SampleRequest{Count: 3, Sampling: spec.Sampling{Temperature: 0.8, Seed: 3}}
	for name, c := range map[string]struct {
		programs spec.Programs
		pass     spec.PassRequest
	}{
		"tree": {spec.Programs{Draft: spec.DraftTree, Depth: 2, Widths: []int{4}, Joint: true,
			Budget: spec.Budget{Levels: 3, Width: 4, Nodes: 10}},
			spec.PassRequest{Draft: tree, Builder: &spec.Builder{}}},
		"chain": {spec.Programs{Draft: spec.DraftChain, Pass: spec.PassChain,
			Budget: spec.Budget{Levels: 3, Width: 1, Nodes: 4}},
			spec.PassRequest{Kind: spec.PassChain, Sampling: chain.Sampling, Chain: chain}},
	} {
		c.programs.Model, c.pass.Model = draft, draft
		target.Reset()
		draft.Reset()
		tree.Pending, chain.Pending = text[last-3:], text[last-3:] // more than the root's pass consumes
		for _, err := range []error{target.Prepare(c.programs), draft.Prepare(c.programs),
			target.Prefill(background, text[:last]), draft.Prefill(background, text[:last-3])} {
			if err != nil {
				t.Fatal(name, err)
			}
		}
		if pass, err := target.Verify(background, c.pass); err == nil || !strings.Contains(err.Error(), "context") {
			t.Fatalf("%s: %+v, %v", name, pass, err)
		}
		if n := draft.Len(); n != last-3 {
			t.Errorf("%s: the draft consumed %d tokens, want %d", name, n, last-3)
		}
	}
}

// misread is a device that changes what is read back.
type misread struct {
	webgpu.Device
	change func(webgpu.Region)
}

func (m *misread) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	err := m.Device.Run(programs, reads...)
	for _, r := range reads {
		m.change(r)
	}
	return err
}

// otherTree has the device gather another tree than the host, which must then be verified.
func otherTree(t *testing.T, dev webgpu.Device) {
	t.Helper()
	other := &misread{dev, func(webgpu.Region) {}}
	target := loadTarget(t, other, "tiny-q8_0", graph.Options{Context: 96})
	draft := loadDraft(t, other, "noisy-q8_0", graph.Options{Context: 96})
	p := growth(2, 4, false)
	p.Budget, p.Joint, p.Model = spec.Budget{Levels: 3, Width: 4, Nodes: 10}, true, draft
	for _, err := range []error{target.Prepare(p), draft.Prepare(p), target.Prefill(background, text[:len(text)-1]),
		draft.Prefill(background, text[:len(text)-1])} {
		if err != nil {
			t.Fatal(err)
		}
	}
	other.change = func(r webgpu.Region) {
		if r.Buffer == target.passes.results.buffer && r.Offset == target.passes.results.gathered.view.Offset {
			r.Dst[4]++
		}
	}
	before := dev.Counters().Submits
	pass, err := target.Verify(background, spec.PassRequest{Model: draft, Builder: &spec.Builder{},
		Draft: &spec.DraftRequest{Pending: text[len(text)-1:], Depth: 2, K: 4, Nodes: 10}})
	if err != nil {
		t.Fatal(err)
	}
	if runs := dev.Counters().Submits - before; runs != 2 {
		t.Fatalf("%d runs, want one for the draft and one for the tree", runs)
	}
	tree := pass.Tree
	var got []spec.NodeOutput
	for _, o := range pass.Outputs {
		got = append(got, output(o))
	}
	want, err := verify(target, tree, spec.Sampling{})
	if err != nil || len(got) != len(want) || tree.Len() != 10 {
		t.Fatalf("%d outputs of %d nodes (%v)", len(got), tree.Len(), err)
	}
	for i := range got {
		if !sameOutput(got[i], want[i]) {
			t.Errorf("node %d of another tree: %+v, want %+v", i, got[i], want[i])
		}
	}
	if err := target.Commit([]int32{0}); err != nil {
		t.Error(err)
	}
}

// sameRounds fails the test if rounds differ or were not joint.
func sameRounds(t *testing.T, name string, got, want []roundRecord) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rounds, want %d", name, len(got), len(want))
	}
	joint := 0
	for i := range got {
		if want[i].joint {
			t.Fatalf("%s: round %d was one run where the target cannot", name, i)
		}
		if got[i].joint {
			joint++
		}
		sameLevels(t, fmt.Sprintf("%s: round %d", name, i), got[i].Levels, want[i].Levels)
		g, w := got[i], want[i]
		if !reflect.DeepEqual(g.Tokens, w.Tokens) || !reflect.DeepEqual(g.Path, w.Path) ||
			!reflect.DeepEqual(g.Tree, w.Tree) || len(g.Outputs) != len(w.Outputs) {
			t.Fatalf("%s: round %d is\n%+v, want\n%+v", name, i, g, w)
		}
		for j := range g.Outputs {
			if !sameOutput(g.Outputs[j], w.Outputs[j]) {
				t.Fatalf("%s: round %d: node %d: %+v, want %+v", name, i, j, g.Outputs[j], w.Outputs[j])
			}
		}
	}
	if joint < len(got)-1 { // the last round may have nothing to draft
		t.Fatalf("%s: %d of %d rounds were one run", name, joint, len(got))
	}
}

// outside is a device that counts the allocations of its own runs, so that a test can subtract them.
type outside struct {
	webgpu.Device
	inside, before, after runtime.MemStats
	mallocs               uint64
}

func (o *outside) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	runtime.ReadMemStats(&o.before)
	err := o.Device.Run(programs, reads...)
	runtime.ReadMemStats(&o.after)
	o.mallocs += o.after.Mallocs - o.before.Mallocs
	return err
}

// TestRoundsAllocateNothing checks that a round allocates nothing once every array has its size, except inside the
// device.
func TestRoundsAllocateNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("short: rounds are the same Go on every device")
	}
	dev := &outside{Device: accelerator(t)}
	target := loadTarget(t, dev, "tiny-q8_0", graph.Options{Context: 128})
	draft := loadDraft(t, dev, "noisy-q8_0", graph.Options{Context: 128})
	shape := [][]int{{2}, {2, 1}}
	for name, c := range map[string]method.Config{
		"plain":     {Drafter: method.DrafterNone},
		"chain":     {Drafter: method.DrafterChain, Depth: 2},
		"eagle2":    {Drafter: method.DrafterEAGLE2, Depth: 1, TopK: 2, Nodes: 5},
		"static":    {Drafter: method.DrafterStatic, Shape: shape},
		"sampled":   {Drafter: method.DrafterSampled, Shape: shape, Verifier: method.VerifierWithoutReplacement},
		"rejection": {Drafter: method.DrafterChain, Depth: 2, Verifier: method.VerifierRejection},
		"adaedl":    {Drafter: method.DrafterChain, Depth: 2, Adapt: method.AdaptAdaEDL},
		"adasd":     {Drafter: method.DrafterChain, Depth: 2, Adapt: method.AdaptAdaSD, Verifier: method.VerifierAdaSD},
	} {
		p := c.Programs(0.9, draft.Limits())
		p.Model = draft
		for _, err := range []error{target.Prepare(p), draft.Prepare(p)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		g, err := method.New(target, c, draft, draft) // as either source
		if err != nil {
			t.Fatal(err)
		}
		target.Reset()
		draft.Reset()
		const warm, last, window = 8, 20, 4
		var from uint64
		least := ^uint64(0) // over the windows: the runtime allocates now and then, more often on a busy machine
		rounds := 0
		if _, err := g.Generate(background, text, spec.Options{Sampling: spec.Sampling{Temperature: 0.9, Seed: 2},
			MaxTokens: 80}, func(e *spec.Event) error {
			if rounds = e.Round; rounds < warm || rounds%window != 0 {
				return nil
			}
			runtime.ReadMemStats(&dev.inside)
			now := dev.inside.Mallocs - dev.mallocs
			if rounds > warm {
				least = min(least, now-from)
			}
			from = now
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if rounds < last {
			t.Fatalf("%s: %d rounds", name, rounds)
		}
		if least > 1 {
			t.Errorf("%s: %d allocations in %d rounds", name, least, window)
		}
	}
}
