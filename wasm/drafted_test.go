package main

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"foretoken/spec"
)

// TestPruned drafts two levels by hand: one node of three is verified at the first, one of four at the second.
func TestPruned(t *testing.T) {
	levels := []spec.Level{
		{Candidates: []spec.Candidate{{Token: 1, LogQ: -0.5}, {Token: 2, LogQ: -1}, {Token: 3, LogQ: -3}},
			Beams: []int32{0, 1}, Entropies: []float32{1.5}},
		{Candidates: []spec.Candidate{{Token: 1, LogQ: -0.25, Beam: 0}, {Token: 4, LogQ: -2, Beam: 0}, {Token: 5,
			LogQ: -0.5, Beam: 1}, {Token: 6, LogQ: float32(math.Inf(-1)), Beam: 1}}, Entropies: []float32{0.25, 2}},
	}
	verified := &spec.Tree{}
	verified.Reset(9)
	verified.Add(verified.Add(0, 1, -0.5), 1, -0.75)
	event := &spec.Event{Tree: verified, Levels: levels, Proposal: &spec.Draft{Tree: verified, Levels: levels},
		Outputs: []spec.NodeOutput{{Entropy: 0.1}, {Entropy: 0.2}, {Entropy: 0.3}}}
	var d draftTrace
	var got tree
	for range 2 {
		d.compare(&got, event)
		want := pruned{Tokens: []int32{2, 5, 4, 3}, Texts: []string{}, Parents: []int32{0, 3, 1, 0},
			Scores: []float32{-1, -1.5, -2.5, -3}, Total: 4}
		got.Pruned.Texts = []string{}
		if !reflect.DeepEqual(got.Pruned, want) {
			t.Fatalf("pruned %+v, want %+v", got.Pruned, want)
		}
		if want := []float32{1.5, 0.25, -1}; !reflect.DeepEqual(got.DraftEntropies, want) {
			t.Errorf("entropies of the draft %v, want %v", got.DraftEntropies, want)
		}
		if want := []float32{0.1, 0.2, 0.3}; !reflect.DeepEqual(got.Entropies, want) {
			t.Errorf("entropies of the target %v, want %v", got.Entropies, want)
		}
	}
	d.compare(&got, &spec.Event{})
	if got.Pruned.Total != 0 || len(got.Pruned.Tokens)+len(got.Entropies)+len(got.DraftEntropies) != 0 {
		t.Errorf("a closing event tells %+v", got)
	}
	chain := &spec.Tree{}
	chain.Reset(9)
	chain.Add(0, 1, -1)
	d.compare(&got,
		&spec.Event{Tree: chain, Proposal: &spec.Draft{Tree: chain, Drawn: []spec.Drawn{{Token: 1, Entropy: 0.75}}}})
	if want := []float32{0.75, -1}; !reflect.DeepEqual(got.DraftEntropies, want) ||
		len(got.Entropies) != 0 {
		t.Errorf("of a chain: %v and %v, want %v and none", got.DraftEntropies, got.Entropies, want)
	}
}

// TestPrunedBound drafts more than an event reports: the event has the best, each after its parent.
func TestPrunedBound(t *testing.T) {
	const k = 10
	random := rand.New(rand.NewPCG(1, 2))
	levels := make([]spec.Level, 5)
	for depth := range levels {
		l, beams := &levels[depth], 1
		if depth > 0 {
			beams = k
		}
		for b := range beams {
			l.Entropies = append(l.Entropies, 1)
			for i := range k {
				l.Candidates = append(l.Candidates,
					spec.Candidate{Token: int32(i), LogQ: -4 * random.Float32() * float32(i+1) / k, Beam: int32(b)})
			}
		}
		for b := range k {
			l.Beams = append(l.Beams, int32(b))
		}
	}
	var builder spec.Builder
	verified, err := builder.Build(99, levels, 20)
	if err != nil {
		t.Fatal(err)
	}
	event := &spec.Event{Tree: verified, Levels: levels, Proposal: &spec.Draft{Tree: verified, Levels: levels}}
	var d draftTrace
	var got tree
	d.compare(&got, event)
	p := got.Pruned
	if all := k + 4*k*k; p.Total != all-19 || len(p.Tokens) != maxPruned {
		t.Fatalf("%d of %d pruned, want %d of %d", len(p.Tokens), p.Total, maxPruned, all-19)
	}
	least := float32(math.Inf(1))
	for _, v := range verified.Scores {
		least = min(least, v)
	}
	for i, parent := range p.Parents {
		if int(parent) >= verified.Len()+i {
			t.Errorf("pruned node %d is told before its parent %d", i, parent)
		}
		if p.Scores[i] > least || i > 0 && p.Scores[i] > p.Scores[i-1] {
			t.Errorf("pruned node %d has V %v after %v; the least verified has %v", i, p.Scores[i],
				p.Scores[max(i-1, 0)], least)
		}
	}
	if n := testing.AllocsPerRun(10, func() { d.compare(&got, event) }); n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}
