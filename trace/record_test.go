package trace

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"foretoken"
	"foretoken/spec"
)

var update = flag.Bool("update", false, "write testdata/trace.json, which the page's reader is tested with too")

// pieces are the texts of tokens in these tests; 200 begins a character.
func pieces(id int32) []byte {
	if id == 200 {
		return []byte("\xf0\x9f")
	}
	return fmt.Appendf(nil, " t%d", id)
}

func token(id int32, kind spec.Origin, depth int) foretoken.Token {
	return foretoken.Token{ID: id, Text: string(pieces(id)), Kind: kind, Depth: depth}
}

// sample records a request with everything that a trace can hold: a tree with a relaxed token and pruned nodes, a round
// without a draft, a chain, texts that are no UTF-8 and a closing event.
func sample() *Recorder {
	r := NewRecorder(pieces)
	r.Begin("func é(")
	tree := &spec.Tree{}
	tree.Reset(7)
	one := tree.Add(0, 11, -0.25)
	tree.Add(0, 12, -1.5)
	two := tree.Add(one, 200, -0.75)
	tree.Add(one, 13, float32(math.Inf(-1)))
	tree.Add(two, 11, -0.5) // above its parent's
	levels := []spec.Level{{Beams: []int32{0, 1}, Entropies: []float32{0.5}, Candidates: []spec.Candidate{
		{Token: 11, LogQ: -0.25}, {Token: 12, LogQ: -1.5}, {Token: 14, LogQ: -3}}},
		{Entropies: []float32{1, 2}, Candidates: []spec.Candidate{{Token: 200, LogQ: -0.5},
			{Token: 15, LogQ: -1, Beam: 1}, {Token: 16, LogQ: -1.25, Beam: 1}}}}
	outputs := make([]spec.NodeOutput, tree.Len())
	for i := range outputs {
		outputs[i].Entropy = float32(i) / 4
	}
	outputs[5].Entropy = float32(math.NaN())
	last := token(13, spec.Corrected, 0)
	last.Text = "🙂"
	add := func(elapsed time.Duration, e *spec.Event, tokens ...foretoken.Token) {
		r.Add(&foretoken.Event{Tokens: tokens, Round: e}, elapsed)
	}
	add(2100*time.Millisecond, &spec.Event{Tree: tree, Path: []int32{0, one, two}, Levels: levels, Outputs: outputs,
		Proposal: &spec.Draft{Tree: tree, Levels: levels, Bin: 3, Phi: 2.125}, Draft: 1234 * time.Microsecond,
		Verify: 2 * time.Second, Readback: 5 * time.Microsecond, Host: 4 * time.Microsecond},
		token(11, spec.Accepted, 1), foretoken.Token{ID: 200, Kind: spec.Relaxed, Depth: 2}, last)
	root := &spec.Tree{}
	root.Reset(13)
	add(2101*time.Millisecond, &spec.Event{Tree: root, Path: []int32{0}, Proposal: &spec.Draft{Tree: root},
		Verify: time.Millisecond}, token(9, spec.Plain, 0))
	chain := &spec.Tree{}
	chain.Reset(9)
	chain.Add(chain.Add(0, 12, -0.125), 11, -0.25)
	add(2102*time.Millisecond, &spec.Event{Tree: chain, Path: []int32{0, 1, 2}, Proposal: &spec.Draft{Tree: chain,
		Drawn: []spec.Drawn{{Entropy: 0.0625}, {Entropy: 40}}}},
		token(12, spec.Accepted, 1), token(11, spec.Accepted, 2), foretoken.Token{ID: 4, Kind: spec.Bonus})
	r.Add(&foretoken.Event{Text: "held", Round: &spec.Event{Finish: spec.FinishStop}}, 2200*time.Millisecond)
	return r
}

// asPage gives a trace the form in which the page's reader returns it.
func asPage(t *Trace) any {
	type object = map[string]any
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	var rounds []object
	for i, r := range t.Rounds {
		text := ""
		var tokens []object
		relaxed := []int32{}
		for k, c := range r.Tokens {
			text += c.Text
			tokens = append(tokens, object{"id": c.ID, "text": c.Text, "kind": c.Kind, "depth": c.Depth})
			if c.Kind == spec.Relaxed {
				relaxed = append(relaxed, r.Tree.Path[k+1])
			}
		}
		list := func(f []float32) []float32 { return append([]float32{}, f...) }
		p := r.Tree.Pruned
		round := object{"round": i + 1, "text": text, "tokens": tokens, "elapsed_ms": ms(r.Elapsed), "ms": object{
			"draft": ms(r.Draft), "verify": ms(r.Verify), "readback": ms(r.Readback), "host": ms(r.Host)},
			"tree": object{"tokens": r.Tree.Tokens, "texts": r.Tree.Texts, "parents": r.Tree.Parents,
				"depths": r.Tree.Depths, "scores": r.Tree.Scores, "accepted": r.Tree.Path[1:], "relaxed": relaxed,
				"entropies": list(r.Tree.Entropies), "draft_entropies": list(r.Tree.DraftEntropies),
				"pruned": object{"tokens": append([]int32{}, p.Tokens...), "texts": append([]string{}, p.Texts...),
					"parents": append([]int32{}, p.Parents...), "scores": list(p.Scores), "total": p.Total}}}
		if r.Tree.Bin > 0 {
			round["bin"], round["phi"] = r.Tree.Bin, r.Tree.Phi
		}
		rounds = append(rounds, round)
	}
	return object{"prompt": t.Prompt, "run": t.Run, "rounds": rounds, "finish": t.Finish, "rest": t.Rest}
}

// TestSample compares the sample and what is read of it with the file that the page's reader is tested with. A change
// of either is a new Version.
func TestSample(t *testing.T) {
	b := sample().Bytes()
	trace, err := Read(b)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"trace": base64.StdEncoding.EncodeToString(b), "want": asPage(trace)}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/trace.json", append(text, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/trace.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text) + "\n"; got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	tree := trace.Rounds[0].Tree
	if want := []float32{0, -0.25, -1.5, -0.75, -0.25 - MaxNats, -0.75}; !reflect.DeepEqual(tree.Scores, want) {
		t.Errorf("scores %v, want %v", tree.Scores, want)
	}
	if want := []float32{0, 0.25, 0.5, 0.75, 1, MaxNats}; !reflect.DeepEqual(tree.Entropies, want) {
		t.Errorf("entropies %v, want %v", tree.Entropies, want)
	}
	if want := []string{" t15", " t16", " t14"}; !reflect.DeepEqual(tree.Pruned.Texts, want) {
		t.Errorf("pruned %v, want %v", tree.Pruned.Texts, want)
	}
	if tree.Texts[3] != "\ufffd" || trace.Rest != "held" || trace.Finish != spec.FinishStop {
		t.Errorf("node 3 says %q; %q at the end, by %q", tree.Texts[3], trace.Rest, trace.Finish)
	}
}

// TestCutAfterTrees shortens a trace after each of its trees.
func TestCutAfterTrees(t *testing.T) {
	r := sample()
	b := r.Bytes()
	whole := len(b) - len(r.trees)
	for cut, trees := whole, 0; cut <= len(b); cut++ {
		trace, err := Read(b[:cut])
		if err != nil {
			continue // within a tree
		}
		for i, round := range trace.Rounds {
			if (round.Tree != nil) != (i < trees) {
				t.Errorf("cut after %d trees, round %d has one: %v", trees, i+1, round.Tree != nil)
			}
		}
		if trees++; cut == len(b) && trees != 4 {
			t.Errorf("a trace of 3 trees can be cut at %d places, want 4", trees)
		}
	}
}

// TestBounds records more than a trace holds: it keeps the first rounds, and of these the first trees.
func TestBounds(t *testing.T) {
	r := NewRecorder(pieces)
	r.Begin(strings.Repeat("é", MaxPrompt))
	random := rand.New(rand.NewPCG(3, 4))
	round := wide(t, random)
	const run = MaxRounds + 100
	for range run {
		for i := range round.Tree.Scores { // another tree, so that the work of the bounds shows
			round.Tree.Scores[i] = -4 * random.Float32()
		}
		f := r.Add(&foretoken.Event{Tokens: []foretoken.Token{token(5, spec.Corrected, 0)}, Round: round}, 0)
		if f.Pruned == 0 {
			t.Fatal("the figures ended with the trees")
		}
	}
	b := r.Bytes()
	trace, err := Read(b)
	if err != nil {
		t.Fatal(err)
	}
	trees := 0
	for i, one := range trace.Rounds {
		if one.Tree != nil {
			trees = i + 1
		}
	}
	if len(b) > MaxBytes || len(trace.Prompt) != MaxPrompt || trace.Run != run || len(trace.Rounds) != MaxRounds ||
		trees < 5000 || trees > MaxRounds/2 || len(r.LastTree()) != 0 {
		t.Errorf("%d bytes, a prompt of %d, %d of %d rounds, %d trees", len(b), len(trace.Prompt), len(trace.Rounds),
			trace.Run, trees)
	}
	r.Begin("")
	r.Add(&foretoken.Event{Tokens: []foretoken.Token{token(5, spec.Corrected, 0)}, Round: round}, 0)
	if trace, err := Read(r.Bytes()); err != nil || trace.Run != 1 || trace.Rounds[0].Tree == nil {
		t.Errorf("the next request: %+v, %v", trace, err)
	}
}

// TestFigures compares the means along the path with those of a tree by hand.
func TestFigures(t *testing.T) {
	tree := &spec.Tree{}
	tree.Reset(1)
	tree.Add(tree.Add(0, 2, -1), 3, -2)
	f := NewRecorder(pieces).Add(&foretoken.Event{Tokens: []foretoken.Token{token(2, spec.Accepted, 1)},
		Round: &spec.Event{Tree: tree, Path: []int32{0, 1}, Outputs: []spec.NodeOutput{{Entropy: 1}, {Entropy: 3},
			{Entropy: 9}}, Proposal: &spec.Draft{Tree: tree, Drawn: []spec.Drawn{{Entropy: 0.5}}}}}, 0)
	if want := (Figures{Entropy: 2, DraftEntropy: 0.5}); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
	if f := sample().Add(&foretoken.Event{Round: &spec.Event{}}, 0); f != (Figures{Entropy: -1, DraftEntropy: -1}) {
		t.Errorf("a closing event has the figures %+v", f)
	}
}

// TestAddAllocatesNothing records a round again and again, once memory for it is there.
func TestAddAllocatesNothing(t *testing.T) {
	r := NewRecorder(func(int32) []byte { return nil })
	e := &foretoken.Event{Tokens: []foretoken.Token{token(5, spec.Corrected, 0)},
		Round: wide(t, rand.New(rand.NewPCG(1, 2)))}
	add := func() {
		r.Begin("")
		for range 3 {
			r.Add(e, time.Second)
		}
	}
	add()
	if n := testing.AllocsPerRun(10, add); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkAdd records a round of EAGLE-2: 500 nodes drafted, 20 verified.
func BenchmarkAdd(b *testing.B) {
	r := NewRecorder(pieces)
	e := &foretoken.Event{Tokens: []foretoken.Token{token(5, spec.Corrected, 0)},
		Round: wide(b, rand.New(rand.NewPCG(1, 2)))}
	for i := 0; b.Loop(); i++ {
		if i%100 == 0 {
			r.Begin("")
		}
		r.Add(e, time.Second)
	}
}
