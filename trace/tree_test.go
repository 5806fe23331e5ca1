package trace

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
	var d comparison
	var got Tree
	for range 2 {
		d.fill(&got, event)
		want := Pruned{Tokens: []int32{2, 5, 4, 3}, Parents: []int32{0, 3, 1, 0}, Scores: []float32{-1, -1.5, -2.5, -3},
			Total: 4}
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
	chain := &spec.Tree{}
	chain.Reset(9)
	chain.Add(0, 1, -1)
	d.fill(&got,
		&spec.Event{Tree: chain, Proposal: &spec.Draft{Tree: chain, Drawn: []spec.Drawn{{Token: 1, Entropy: 0.75}}}})
	if want := []float32{0.75, -1}; !reflect.DeepEqual(got.DraftEntropies, want) || len(got.Entropies) != 0 {
		t.Errorf("of a chain: %v and %v, want %v and none", got.DraftEntropies, got.Entropies, want)
	}
}

// TestPrunedBound drafts more than a tree reports: it has the best, each after its parent.
func TestPrunedBound(t *testing.T) {
	event := wide(t, rand.New(rand.NewPCG(1, 2)))
	var d comparison
	var got Tree
	d.fill(&got, event)
	p, verified := got.Pruned, event.Tree
	if all := wideTop + 4*wideTop*wideTop; p.Total != all-19 || len(p.Tokens) != MaxPruned {
		t.Fatalf("%d of %d pruned, want %d of %d", len(p.Tokens), p.Total, MaxPruned, all-19)
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
}

const wideTop = 10

// wide is a round that drafted five levels of ten beams and verified a tree of 20 nodes.
func wide(t testing.TB, random *rand.Rand) *spec.Event {
	t.Helper()
	levels := make([]spec.Level, 5)
	for depth := range levels {
		l, beams := &levels[depth], 1
		if depth > 0 {
			beams = wideTop
		}
		for b := range beams {
			l.Entropies = append(l.Entropies, 4*random.Float32())
			for i := range wideTop {
				l.Candidates = append(l.Candidates, spec.Candidate{Token: int32(i),
					LogQ: -4 * random.Float32() * float32(i+1) / wideTop, Beam: int32(b)})
			}
		}
		for b := range wideTop {
			l.Beams = append(l.Beams, int32(b))
		}
	}
	var builder spec.Builder
	verified, err := builder.Build(99, levels, 20)
	if err != nil {
		t.Fatal(err)
	}
	return &spec.Event{Tree: verified, Path: []int32{0}, Levels: levels,
		Proposal: &spec.Draft{Tree: verified, Levels: levels}}
}
