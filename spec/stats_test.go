package spec

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// act is one round as a test writes it down.
type act struct {
	tokens, parents []int32 // of the tree, the root's left out; nil: no draft
	path            []int32
	relaxed         []bool
	next            int32
}

// play is drafter, session, verifier, policy and target at once. It gives the rounds
// it is told to, and moves the clock by known amounts.
type play struct {
	rest
	acts    []act
	at      int // of the round under way
	now     time.Time
	held    int // tokens in the target's cache
	tree    Tree
	target  [][]int32 // paths committed
	session [][]int32
	shown   []Finish
}

// rest holds the methods of a target that play does not need; they are nil.
type rest struct{ Target }

func (p *play) pass(ms int)      { p.now = p.now.Add(time.Duration(ms) * time.Millisecond) }
func (p *play) clock() time.Time { return p.now }

func (p *play) Limits() Limits { return Limits{Context: 100, MaxRows: 64, Vocab: 10} }
func (p *play) Reset()         { p.held = 0 }
func (p *play) Len() int       { return p.held }
func (p *play) Sync() error    { return nil }

func (p *play) ReusePrefix([]int32) int     { p.held = 0; return 0 }
func (p *play) ReadbackTime() time.Duration { return 0 }

func (p *play) Prefill(_ context.Context, t []int32) error {
	p.held += len(t)
	p.pass(10)
	return nil
}

func (p *play) Begin(context.Context, SessionOptions) (DraftSession, error) {
	p.pass(4)
	return playSession{p}, nil
}

func (p *play) NextBudget(free Budget) Budget {
	if p.acts[p.at].tokens == nil {
		return Budget{}
	}
	return free
}

func (p *play) Start()           {}
func (p *play) Observe(e *Event) { p.at++; p.shown = append(p.shown, e.Finish) }

type playSession struct{ play *play }

func (playSession) Observe(*Event) {}

func (s playSession) Propose(_ context.Context, seq []int32, _ Budget) (*Draft, error) {
	p := s.play
	p.pass(3)
	p.tree.Reset(seq[len(seq)-1])
	for i, token := range p.acts[p.at].tokens {
		p.tree.Add(p.acts[p.at].parents[i], token, 0)
	}
	return &Draft{Tree: &p.tree}, nil
}

func (s playSession) Commit(path []int32) error {
	s.play.session = append(s.play.session, slices.Clone(path))
	return nil
}

func (p *play) Verify(_ context.Context, r PassRequest) (*Pass, error) {
	p.pass(5)
	return &Pass{Outputs: make([]NodeOutput, r.Tree.Len())}, nil
}

type playVerifier struct{ play *play }

func (playVerifier) Pass(Sampling) PassKind { return PassOutputs }

func (p playVerifier) Accept(_ *Tree, _ *Pass, v *Verdict) error {
	a := p.play.acts[p.play.at]
	*v = Verdict{Path: a.path, Relaxed: a.relaxed, Next: a.next}
	return nil
}

func (p *play) Commit(path []int32) error {
	p.held += len(path)
	p.target = append(p.target, slices.Clone(path))
	return nil
}

func TestStatsOfRoundsWorkedByHand(t *testing.T) {
	p := &play{acts: []act{
		// A chain of three: two accepted, the third replaced.
		{tokens: []int32{5, 6, 8}, parents: []int32{0, 1, 2}, path: []int32{0, 1, 2}, next: 9},
		// A tree of two branches, one accepted down to its leaf.
		{tokens: []int32{1, 2, 3}, parents: []int32{0, 0, 1}, path: []int32{0, 1, 3}, next: 4},
		{path: []int32{0}, next: 6},
		// Four accepted, the first of them relaxed, but the second ends the sequence: the rest is not verified.
		{tokens: []int32{1, 7, 2, 2}, parents: []int32{0, 1, 2, 3}, path: []int32{0, 1, 2, 3, 4},
			relaxed: []bool{false, true, false, false, false}, next: 3},
	}}
	g, err := New(p, Parts{Drafter: p, Verifier: playVerifier{p}, Policy: p, Clock: p.clock})
	if err != nil {
		t.Fatal(err)
	}
	var tokens []int32
	var origins []Origin
	var verified []int
	stats, err := g.Generate(context.Background(), []int32{0, 1, 2, 3}, Options{EOS: []int32{7}, MaxTokens: 40,
		Cut: func(run []int32) (int, bool) { p.pass(2); return len(run), false },
	}, func(e *Event) error {
		tokens, origins, verified = append(tokens, e.Tokens...), append(origins, e.Origins...),
			append(verified, e.VerifiedDepth)
		p.pass(7)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{5, 6, 9, 1, 3, 4, 6, 1, 7}; !slices.Equal(tokens, want) {
		t.Errorf("tokens %v, want %v", tokens, want)
	}
	if want := []Origin{Accepted, Accepted, Corrected, Accepted, Accepted, Bonus, Plain, Relaxed,
		Accepted}; !slices.Equal(origins, want) {
		t.Errorf("origins %v, want %v", origins, want)
	}
	if want := []int{3, 2, 0, 2}; !slices.Equal(verified, want) {
		t.Errorf("verified to %v, want %v", verified, want)
	}
	if want := [][]int32{{0, 1, 2}, {0, 1, 3}, {0}, {0, 1}}; !reflect.DeepEqual(p.target, want) {
		t.Errorf("the target committed %v, want %v", p.target, want)
	}
	if want := [][]int32{{0, 1, 2}, {0, 1, 3}, {0, 1}}; !reflect.DeepEqual(p.session, want) {
		t.Errorf("the session committed %v, want %v", p.session, want)
	}
	ms := time.Millisecond
	want := Stats{
		Requests: 1, PromptTokens: 4, OutputTokens: 9, Prefilled: 3,
		Rounds: 4, Calls: 4, Nodes: 4 + 4 + 1 + 5,
		Drafted: 3 + 3 + 2, Accepted: 6, Relaxed: 1, Corrected: 1, Bonus: 1, Plain: 1,
		DepthDrafted: []int{3, 3, 1}, DepthAccepted: []int{3, 3, 0},
		Prefill: 14 * ms, Draft: 9 * ms, Verify: 20 * ms, Host: 8 * ms, Emit: 21 * ms,
		Decode: 58 * ms, First: 24 * ms, Started: 1, Finish: FinishEOS,
	}
	if !reflect.DeepEqual(stats, want) {
		t.Errorf("stats\n%+v, want\n%+v", stats, want)
	}
	if want := []Finish{"", "", "", FinishEOS}; !slices.Equal(p.shown, want) {
		t.Errorf("the policy saw %v, want %v", p.shown, want)
	}
	near := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	near("accepted length", stats.AcceptedLength(), 2.25)
	near("draft acceptance", stats.DraftAcceptance(), 0.75)
	near("prefill speed", stats.PrefillSpeed(), 3/0.014)
	near("decode speed", stats.DecodeSpeed(), 9/0.058)
	near("draft a round", stats.PerRound(stats.Draft), 2.25)
	if got := stats.DepthAcceptance(); !slices.Equal(got, []float64{1, 1, 0}) {
		t.Errorf("acceptance by depth %v", got)
	}

	var sum Stats
	sum.Add(&stats)
	sum.Add(&Stats{
		Requests: 1, PromptTokens: 1, OutputTokens: 3, Rounds: 2, Calls: 2, Nodes: 10, Drafted: 8, Accepted: 1,
		Corrected:    2,
		DepthDrafted: []int{2, 2, 2, 2}, DepthAccepted: []int{1, 0, 0, 0}, Decode: 2 * ms, First: 6 * ms, Started: 1,
		Finish: FinishLength,
	})
	near("merged accepted length", sum.AcceptedLength(), 2)
	near("merged first token", sum.FirstToken().Seconds(), 0.015)
	if got := sum.DepthAcceptance(); !slices.Equal(got, []float64{0.8, 0.6, 0, 0}) || len(stats.DepthDrafted) != 3 {
		t.Errorf("merged acceptance by depth %v; the first's counts are %v", got, stats.DepthDrafted)
	}
	if sum.Finish != FinishLength || sum.Requests != 2 || sum.Nodes != 24 || sum.Decode != 60*ms {
		t.Errorf("merged %+v", sum)
	}
}

// fill gives every field a value of its own, of slices one element.
func fill(v reflect.Value, n int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), 10*n+int64(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.String:
		v.SetString("eos")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(n) + 0.5)
	default:
		v.SetInt(n)
	}
}

func TestAddCoversEveryField(t *testing.T) {
	var one, sum Stats
	fill(reflect.ValueOf(&one).Elem(), 1)
	sum.Add(&one)
	if !reflect.DeepEqual(sum, one) {
		t.Errorf("nothing and %+v are %+v", one, sum)
	}
	var same Stats
	fill(reflect.ValueOf(&same).Elem(), 1)
	sum.Add(&one)
	if !reflect.DeepEqual(one, same) {
		t.Errorf("adding %+v twice made it %+v", same, one)
	}
}

func TestStatsAsJSON(t *testing.T) {
	text, err := json.Marshal(&Stats{})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"acceptance_length", "draft_acceptance", "calls", "tokens_verified", "draft_ms",
		"verify_ms", "readback_ms",
		"host_ms", "ttft_ms", "prefill_tok_s", "decode_tok_s", "total_ms", "rounds", "output_tokens"} {
		if v, ok := fields[key].(float64); !ok || v != 0 {
			t.Errorf("%s is %v, want 0", key, fields[key])
		}
	}
	for _, key := range []string{"acceptance_per_depth", "depth_drafted", "depth_accepted"} {
		if v, ok := fields[key].([]any); !ok || len(v) != 0 {
			t.Errorf("%s is %v, want an empty list", key, fields[key])
		}
	}
	s := Stats{Calls: 2, Rounds: 2, OutputTokens: 5, Draft: 3 * time.Millisecond, DepthDrafted: []int{2},
		DepthAccepted: []int{1}}
	if text, err = json.Marshal(s); err != nil {
		t.Fatal(err)
	}
	var back Stats
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%s reads back as %+v (%v)", text, back, err)
	}
	if err := json.Unmarshal(text, &fields); err != nil || fields["acceptance_length"] != 2.5 ||
		fields["draft_ms"] != 1.5 {
		t.Errorf("derived numbers of %s (%v)", text, err)
	}
	if text, _ := json.Marshal([]Origin{Plain, Accepted, Relaxed, Corrected, Bonus, 9}); string(
		text) != `["plain","accepted","relaxed","corrected","bonus","unknown"]` {
		t.Errorf("origins are written %s", text)
	}
}

// TestStatsAddReused merges what was reused.
func TestStatsAddReused(t *testing.T) {
	a, b := Stats{Reused: 3, Prefilled: 4}, Stats{Reused: 5}
	a.Add(&b)
	if got := fmt.Sprint(a.Reused, a.Prefilled); got != "8 4" {
		t.Errorf("%s", got)
	}
}

func TestBrokenVerdictsAreErrors(t *testing.T) {
	for want, a := range map[string]act{
		"a verdict with path [] and":      {next: 1},
		"a verdict with path [0] and 2":   {path: []int32{0}, relaxed: []bool{true, false}, next: 1},
		"a verdict with path [1]":         {path: []int32{1}, next: 1},
		"the accepted path [0 2] is not":  {path: []int32{0, 2}, next: 1},
		"the accepted path [0 9] is not":  {path: []int32{0, 9}, next: 1},
		"the accepted path [0 -1] is not": {path: []int32{0, -1}, next: 1},
		"the target's logits after":       {path: []int32{0}, next: NoToken},
		"the target drew token -2":        {path: []int32{0}, next: -2},
		"the target drew token 10":        {path: []int32{0}, next: 10},
	} {
		a.tokens, a.parents = []int32{1, 2}, []int32{0, 1}
		p := &play{acts: []act{a}}
		g, err := New(p, Parts{Drafter: p, Verifier: playVerifier{p}, Policy: p, Clock: p.clock})
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Generate(context.Background(), []int32{3}, Options{}, nil)
		if err == nil || !strings.HasPrefix(err.Error(), "spec: "+want) || len(p.target) != 0 {
			t.Errorf("%v, want %q; committed %v", err, want, p.target)
		}
	}
}

func TestBinStatsByHand(t *testing.T) {
	tree := &Tree{Tokens: []int32{1, 2, 3, 4}, Parents: []int32{-1, 0, 0, 2}, Depths: []int32{0, 1, 1, 2},
		Scores: []float32{0, -2, -1, -1.5}}
	round := func(bin int, phi float64, path []int32, verified int) *Event {
		return &Event{Proposal: &Draft{Bin: bin, Phi: phi}, Tree: tree, Levels: make([]Level, 3), Path: path,
			VerifiedDepth: verified}
	}
	var s Stats
	s.countBin(&Event{Tree: tree, Path: []int32{0}}) // no bins
	s.countBin(round(0, 0, []int32{0}, 2))
	s.countBin(round(2, 0.6, []int32{0, 2, 3}, 2)) // node 3 is third by V
	s.countBin(round(2, 0.25, []int32{0, 1}, 2))   // the fourth
	s.countBin(round(2, 0.24, []int32{0}, 2))
	s.countBin(round(2, 0, []int32{0, 2}, 1)) // cut: the nodes behind it were not verified
	want := []BinStats{{}, {Rounds: 4, Nodes: 16, Levels: 12, Accepted: 4, Full: 1, TCR: []int{1, 0, 1, 1},
		Phi: []int{2, 1, 1}}}
	if !reflect.DeepEqual(s.Bins, want) {
		t.Errorf("counted %+v, want %+v", s.Bins, want)
	}
}
