//go:build !js

package trace

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"foretoken"
	"foretoken/models/demo"
	"foretoken/models/modeltest"
	"foretoken/spec"
	"foretoken/spec/method"
	"foretoken/webgpu/kernels/kerneltest"
)

// openDemo opens the built-in pair with all that was fitted to it on the cpu device.
func openDemo(t testing.TB) *foretoken.Session {
	t.Helper()
	var fitted foretoken.Calibrations
	for _, f := range demo.Calibrations() {
		if err := fitted.Parse(f.Name, f.Data); err != nil {
			t.Fatal(err)
		}
	}
	head, config := demo.Head()
	s, err := foretoken.Open(context.Background(), kerneltest.CPU(t), demo.Target(), demo.Draft(),
		foretoken.Options{Context: 256, Calibrations: &fitted, EAGLE3: head, EAGLE3Config: config})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// TestTraceOfRuns records a run of every method and finds in its trace the tokens and trees of the engine's events.
func TestTraceOfRuns(t *testing.T) {
	s := openDemo(t)
	prompt := modeltest.Prompts(t)[20].Prompt
	piece := s.Tokenizer().Piece
	rec := NewRecorder(piece)
	requests := []foretoken.Request{{Temperature: 0.8, Seed: 7, Policy: method.DrafterEAGLE2, Depth: 4, TopK: 4,
		Nodes: 16}, {Policy: method.DrafterChain, Stop: []string{"\n\t"}}}
	for _, m := range method.All() {
		requests = append(requests, foretoken.Request{Policy: m.Name, Temperature: 0.5, Seed: 3})
	}
	drafted := map[string]bool{}
	for _, r := range requests {
		r.MaxTokens = 24
		rec.Begin(prompt)
		var want []Round
		var pieces []byte // of the trees, one after the other
		now := time.Duration(0)
		got, err := s.Generate(context.Background(), prompt, r, func(e *foretoken.Event) error {
			now += 1500 * time.Microsecond
			f := rec.Add(e, now)
			pieces = append(pieces, rec.LastTree()...)
			if e.Round.Tree == nil {
				return nil
			}
			x := Round{Tokens: slices.Clone(e.Tokens), Elapsed: now, Draft: e.Round.Draft, Verify: e.Round.Verify,
				Readback: e.Round.Readback, Host: e.Round.Host,
				Tree: &Tree{Tree: *e.Round.Tree.Clone(), Path: slices.Clone(e.Round.Path)}}
			for i := range min(len(e.Round.Outputs), x.Tree.Len()) {
				x.Tree.Entropies = append(x.Tree.Entropies, e.Round.Outputs[i].Entropy)
			}
			if e.Round.Proposal != nil {
				x.Tree.Bin, x.Tree.Phi = e.Round.Proposal.Bin, e.Round.Proposal.Phi
			}
			x.Tree.Pruned.Total = f.Pruned
			drafted[r.Policy] = drafted[r.Policy] || x.Tree.Len() > 1
			want = append(want, x)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		trace, err := Read(rec.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", r.Policy, err)
		}
		text := ""
		for i, round := range trace.Rounds {
			compareRounds(t, r.Policy, piece, &round, &want[i])
			for _, token := range round.Tokens {
				text += token.Text
			}
		}
		if text += trace.Rest; text != got.Text || trace.Finish != got.Finish || trace.Prompt != prompt ||
			len(trace.Rounds) != len(want) || trace.Run != len(want) {
			t.Errorf("%s: a trace of %d of %d rounds with the text %q, ended by %q; want %d with %q, ended by %q",
				r.Policy, len(trace.Rounds), trace.Run, text, trace.Finish, len(want), got.Text, got.Finish)
		}
		if b := rec.Bytes(); !reflect.DeepEqual(b[len(b)-len(pieces):], pieces) {
			t.Errorf("%s: the trees that came with the rounds are not the trace's", r.Policy)
		}
	}
	for _, m := range []string{"eagle2", "hetero", "chain", "eagle3", "mars"} {
		if !drafted[m] {
			t.Errorf("%s drafted nothing, so its trees were not compared", m)
		}
	}
}

// compareRounds compares a round of a trace with the engine's, as exactly as the format holds it.
func compareRounds(t *testing.T, what string, piece func(int32) []byte, got, want *Round) {
	t.Helper()
	near := func(got, want []float32, by float64) bool {
		return slices.EqualFunc(got, want, func(a, b float32) bool {
			return math.Abs(float64(a)-float64(b)) <= by+1e-4
		})
	}
	about := func(got, want time.Duration) bool { return (got - want).Abs() <= unit/2 }
	g, w := got.Tree, want.Tree
	switch {
	case !reflect.DeepEqual(got.Tokens, want.Tokens):
		t.Errorf("%s: tokens %v, want %v", what, got.Tokens, want.Tokens)
	case !reflect.DeepEqual(g.Tokens, w.Tokens), !reflect.DeepEqual(g.Parents, w.Parents),
		!reflect.DeepEqual(g.Depths, w.Depths), !near(g.Scores, w.Scores, 0.5/scoreSteps):
		t.Errorf("%s: the tree %v, want %v", what, g.Tree, w.Tree)
	case !reflect.DeepEqual(g.Path, w.Path):
		t.Errorf("%s: the path %v, want %v", what, g.Path, w.Path)
	case !near(g.Entropies, w.Entropies, 0.5/entropySteps):
		t.Errorf("%s: entropies %v, want %v", what, g.Entropies, w.Entropies)
	case g.Bin != w.Bin || math.Abs(g.Phi-w.Phi) > 0.5/entropySteps+1e-4, g.Pruned.Total != w.Pruned.Total:
		t.Errorf("%s: bin %d, phi %v and %d pruned, want %d, %v and %d", what, g.Bin, g.Phi, g.Pruned.Total, w.Bin,
			w.Phi, w.Pruned.Total)
	case !about(got.Elapsed, want.Elapsed), !about(got.Draft, want.Draft), !about(got.Verify, want.Verify),
		!about(got.Readback, want.Readback), !about(got.Host, want.Host):
		t.Errorf("%s: times %v %v %v %v, want %v %v %v %v", what, got.Elapsed, got.Draft, got.Verify, got.Host,
			want.Elapsed, want.Draft, want.Verify, want.Host)
	}
	for i, id := range g.Tokens {
		if text := strings.ToValidUTF8(string(piece(id)), "\ufffd"); g.Texts[i] != text {
			t.Errorf("%s: node %d says %q, want %q", what, i, g.Texts[i], text)
		}
	}
	for i, token := range got.Tokens[:len(g.Path)-1] {
		if token.ID != g.Tokens[g.Path[i+1]] || token.Kind != spec.Accepted && token.Kind != spec.Relaxed {
			t.Errorf("%s: token %d is %d (%v), its node holds %d", what, i, token.ID, token.Kind, g.Tokens[g.Path[i+1]])
		}
	}
}

// BenchmarkRecord decodes 64 tokens with and without a recorder in turn. It reports the median speed with it as a share
// of the median speed without, in per cent, and which share of the time the recorder itself took, in per mille.
func BenchmarkRecord(b *testing.B) {
	s := openDemo(b)
	prompt := modeltest.Prompts(b)[20].Prompt
	for _, r := range []foretoken.Request{{Policy: method.DrafterAuto},
		{Policy: method.DrafterEAGLE2, Depth: 4, TopK: 4, Nodes: 16}, {Policy: method.DrafterEAGLE2}} {
		r.MaxTokens = 64
		b.Run(fmt.Sprintf("%s-%d", r.Policy, r.Nodes), func(b *testing.B) {
			rec := NewRecorder(s.Tokenizer().Piece)
			var with, without []time.Duration
			var all, adding time.Duration
			decode := func(emit func(*foretoken.Event) error) time.Duration {
				got, err := s.Generate(context.Background(), prompt, r, emit)
				if err != nil {
					b.Fatal(err)
				}
				return got.Stats.Decode
			}
			recording := func() {
				rec.Begin(prompt)
				took := decode(func(e *foretoken.Event) error {
					begin := time.Now()
					rec.Add(e, 0)
					adding += time.Since(begin)
					return nil
				})
				with, all = append(with, took), all+took
			}
			bare := func() { without = append(without, decode(func(*foretoken.Event) error { return nil })) }
			for b.Loop() {
				recording()
				bare()
				bare()
				recording()
			}
			slices.Sort(with)
			slices.Sort(without)
			b.ReportMetric(100*float64(without[len(without)/2])/float64(with[len(with)/2]), "%speed")
			b.ReportMetric(1000*float64(adding)/float64(all), "‰recorder")
		})
	}
}
