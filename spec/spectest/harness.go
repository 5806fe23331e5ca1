package spectest

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"foretoken/spec"
)

// Setting is a method under test. Parts builds it for each pair of models.
type Setting struct {
	Name  string
	Parts func(*Target, *DraftModel) spec.Parts
}

func Samplings() []spec.Sampling {
	return []spec.Sampling{
		{},
		{Temperature: 0.7},
		{Temperature: 1, TopK: 3},
		{Temperature: 1.3, TopP: 0.8},
		{Temperature: 1, MinP: 0.3},
		{Temperature: 0.9, TopK: 4, TopP: 0.9, MinP: 0.05},
	}
}

// Generate runs a setting and checks the invariants of every event.
func Generate(
	t *testing.T, s Setting, target *Target, draft *DraftModel, prompt []int32, o spec.Options,
) ([]int32, spec.Stats) {
	t.Helper()
	g, err := spec.New(target, s.Parts(target, draft))
	if err != nil {
		t.Fatal(err)
	}
	target.calls, target.rows = 0, 0
	var out []int32
	ended := spec.Finish("")
	stats, err := g.Generate(context.Background(), prompt, o, func(e *spec.Event) error {
		if ended != "" {
			t.Fatalf("%s: an event after the end", s.Name)
		}
		out = append(out, e.Tokens...)
		ended = e.Finish
		if e.Tree != nil {
			checkEvent(t, e)
		}
		if e.Stats.OutputTokens != len(out) || target.Len() != len(prompt)+len(out)-1 {
			t.Fatalf("%s: %d tokens came, counted %d, held %d", s.Name, len(out), e.Stats.OutputTokens, target.Len())
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", s.Name, err)
	}
	if ended == "" || stats.Finish != ended {
		t.Fatalf("%s: ended with %q, stats say %q", s.Name, ended, stats.Finish)
	}
	if stats.Calls != target.calls || stats.Nodes != target.rows ||
		stats.Plain+stats.Corrected+stats.Bonus+stats.Accepted != len(out) {
		t.Fatalf("%s: %d calls and %d rows of %+v", s.Name, target.calls, target.rows, stats)
	}
	return out, stats
}

func checkEvent(t *testing.T, e *spec.Event) {
	t.Helper()
	if len(e.Tokens) == 0 || len(e.Origins) != len(e.Tokens) || e.Path[0] != 0 {
		t.Fatalf("round %d: tokens %v, origins %v, path %v", e.Round, e.Tokens, e.Origins, e.Path)
	}
	for i, n := range e.Path[1:] {
		accepted := e.Origins[i] == spec.Accepted || e.Origins[i] == spec.Relaxed && e.Stats.Lossy
		if e.Tree.Tokens[n] != e.Tokens[i] || e.Tree.Parents[n] != e.Path[i] || !accepted {
			t.Fatalf("round %d: node %d of path %v is not token %d of %v", e.Round, n, e.Path, i, e.Tokens)
		}
	}
	if len(e.Tokens) == len(e.Path) {
		last := e.Path[len(e.Path)-1]
		want := spec.Corrected
		if e.Tree.Len() == 1 {
			want = spec.Plain
		} else if e.Tree.IsLeaf(last) {
			want = spec.Bonus
		}
		if got := e.Origins[len(e.Origins)-1]; got != want {
			t.Fatalf("round %d: the last token is %v, want %v", e.Round, got, want)
		}
	} else if len(e.Tokens) != len(e.Path)-1 || e.Finish == "" || e.VerifiedDepth != len(e.Tokens) {
		t.Fatalf("round %d: %d tokens of path %v, finish %q, verified to depth %d", e.Round, len(e.Tokens), e.Path,
			e.Finish,
			e.VerifiedDepth)
	}
}

func Expect(t *testing.T, name string, got []int32, stats spec.Stats, want []int32, finish spec.Finish) {
	t.Helper()
	if !slices.Equal(got, want) || stats.Finish != finish {
		t.Fatalf("%s: %v (%s), plain decoding gives %v (%s)", name, got, stats.Finish, want, finish)
	}
}

// Long skips a test in short runs, those in a browser: the same Go is slower there, and the remaining tests cover
// the arithmetic that WebAssembly might do differently.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("short: full runs have it")
	}
}

// Fewer returns n, or 1 in short runs.
func Fewer(n uint64) uint64 {
	if testing.Short() {
		return 1
	}
	return n
}

// CutAfter returns a cut that stops after n tokens, even in the middle of a run.
func CutAfter(n int) func([]int32) (int, bool) {
	seen := 0
	return func(tokens []int32) (int, bool) {
		if seen += len(tokens); seen >= n {
			return len(tokens) - (seen - n), true
		}
		return len(tokens), false
	}
}

// PartialTarget and PartialDraft complete scripted models that embed them. Their other methods are nil.
type (
	PartialTarget struct{ spec.Target }
	PartialDraft  struct{ spec.DraftModel }
)

func (PartialTarget) Sync() error                 { return nil }
func (PartialTarget) ReadbackTime() time.Duration { return 0 }

func (PartialDraft) Sync() error                 { return nil }
func (PartialDraft) ReadbackTime() time.Duration { return 0 }

// RandomLayer returns random weights (units, inputs), biases and output weights of a classifier's hidden layer.
func RandomLayer(seed uint64, units, inputs int) (weights [][]float64, bias, output []float64) {
	r := rand.New(rand.NewPCG(seed, 9))
	for range units {
		row := make([]float64, inputs)
		for i := range row {
			row[i] = r.NormFloat64()
		}
		weights, bias, output = append(weights, row), append(bias, r.NormFloat64()), append(output, r.NormFloat64())
	}
	return weights, bias, output
}

// Outcome returns the event of a round that drafted a chain and accepted its first tokens.
func Outcome(drafted, accepted int) *spec.Event {
	var tree spec.Tree
	tree.Reset(0)
	path := []int32{0}
	for i := range drafted {
		tree.Add(int32(i), 1, 0)
		if i < accepted {
			path = append(path, int32(i+1))
		}
	}
	return &spec.Event{Tree: &tree, Path: path, VerifiedDepth: drafted}
}
