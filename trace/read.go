package trace

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"foretoken"
	"foretoken/spec"
)

// Read reads a trace, which may come from anybody: it refuses whatever differs from the format, and allocates no more
// than in proportion to b.
func Read(b []byte) (*Trace, error) {
	if len(b) > MaxBytes {
		return nil, fmt.Errorf("trace: it has %d bytes, want at most %d", len(b), MaxBytes)
	}
	r := &reader{rest: b}
	if version := r.number("version", math.MaxInt32); r.err == nil && version != Version {
		return nil, fmt.Errorf("trace: its version is %d, and this program reads version %d", version, Version)
	}
	t := &Trace{Prompt: r.text("prompt", MaxPrompt), Run: r.number("run", math.MaxInt32)}
	rounds := r.number("rounds", min(t.Run, MaxRounds))
	t.Finish = finishes[r.number("finish", len(finishes)-1)]
	t.Rest = r.text("rest", MaxBytes)
	for r.err == nil && len(t.Rounds) < rounds {
		r.where = fmt.Sprintf("round %d: ", len(t.Rounds)+1)
		t.Rounds = append(t.Rounds, Round{})
		last := time.Duration(0)
		if i := len(t.Rounds) - 2; i >= 0 {
			last = t.Rounds[i].Elapsed
		}
		r.round(&t.Rounds[len(t.Rounds)-1], last)
	}
	for i := range t.Rounds {
		if r.err != nil || len(r.rest) == 0 {
			break
		}
		r.where = fmt.Sprintf("tree %d: ", i+1)
		t.Rounds[i].Tree = r.tree(len(t.Rounds[i].Tokens))
	}
	if r.err == nil && len(r.rest) > 0 {
		r.where = ""
		r.fail("%d bytes follow the last tree", len(r.rest))
	}
	if r.err != nil {
		return nil, r.err
	}
	return t, nil
}

// reader reads parts of a trace. After the first error it reads zeros.
type reader struct {
	rest  []byte
	where string // the part under way, for errors
	err   error
	ids   []int32 // the dictionary
	texts []string
	steps []int // of each node of a tree, -V
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("trace: "+r.where+format, args...)
	}
}

func (r *reader) number(what string, most int) int {
	if r.err != nil {
		return 0
	}
	v, n := binary.Uvarint(r.rest)
	switch {
	case n == 0:
		r.fail("it ends within %s", what)
		return 0
	case n < 0 || v > uint64(most):
		r.fail("%s is more than %d", what, most)
		return 0
	case n > 1 && r.rest[n-1] == 0:
		r.fail("%s is longer than it needs", what)
		return 0
	}
	r.rest = r.rest[n:]
	return int(v)
}

// count is a number of things that take at least a byte each.
func (r *reader) count(what string, least, most int) int {
	n := r.number(what, most)
	if n < least {
		r.fail("%s is %d, want at least %d", what, n, least)
	}
	if n > len(r.rest) {
		r.fail("it ends within %d %s", n, what)
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *reader) text(what string, most int) string {
	return r.bytes(what, r.count(what, 0, most))
}

// bytes reads a text of n bytes.
func (r *reader) bytes(what string, n int) string {
	if r.err != nil {
		return ""
	}
	if n > len(r.rest) {
		r.fail("it ends within %s", what)
		return ""
	}
	text := r.rest[:n]
	if !utf8.Valid(text) {
		r.fail("%s is not UTF-8", what)
		return ""
	}
	r.rest = r.rest[n:]
	return string(text)
}

func (r *reader) round(to *Round, last time.Duration) {
	for _, part := range [...]struct {
		name string
		to   *time.Duration
	}{{"draft", &to.Draft}, {"verify", &to.Verify}, {"readback", &to.Readback}, {"host", &to.Host},
		{"elapsed", &to.Elapsed}} {
		*part.to = time.Duration(r.number(part.name, math.MaxInt32)) * unit
	}
	to.Elapsed += last
	to.Tokens = make([]foretoken.Token, r.count("tokens", 1, spec.MaxNodes))
	for i := range to.Tokens {
		t := &to.Tokens[i]
		t.ID = int32(r.number("a token", math.MaxInt32))
		kind := r.number("a kind", math.MaxInt32)
		if t.Kind = spec.Origin(kind & 7); t.Kind > spec.Bonus {
			r.fail("a token has the unknown kind %d", t.Kind)
		}
		t.Text = r.bytes("a token's text", kind>>3)
		if t.Kind == spec.Accepted || t.Kind == spec.Relaxed {
			t.Depth = i + 1
		}
	}
}

func (r *reader) tree(committed int) *Tree {
	n := r.count("nodes", 1, spec.MaxNodes)
	known := r.number("known", 7)
	if r.err != nil {
		return nil
	}
	t := &Tree{Tree: spec.Tree{Tokens: make([]int32, n), Parents: make([]int32, n), Depths: make([]int32, n),
		Scores: make([]float32, n)}, Texts: make([]string, n)}
	r.tokens(t.Tokens, t.Texts)
	t.Parents[0] = -1
	parent := 0
	for i := 1; i < n; i++ {
		by := r.number("a parent", 2*spec.MaxNodes)
		if parent += by>>1 ^ -(by & 1); parent < 0 || parent >= i {
			r.fail("node %d has parent %d, want an earlier node", i, parent)
			return nil
		}
		t.Parents[i], t.Depths[i] = int32(parent), t.Depths[parent]+1
	}
	r.steps = append(r.steps[:0], 0)
	for i := 1; i < n; i++ {
		r.steps = append(r.steps, r.steps[t.Parents[i]]+r.number("a score", MaxNats*scoreSteps))
		t.Scores[i] = float32(-r.steps[i]) / scoreSteps
	}
	t.Path = t.Tree.Path(nil, int32(r.number("last", n-1)))
	if len(t.Path)-1 > committed {
		r.fail("its path has %d nodes, but the round %d tokens", len(t.Path)-1, committed)
	}
	if known&1 != 0 {
		for range n {
			t.Entropies = append(t.Entropies, r.nats("an entropy", 0))
		}
	}
	if known&2 != 0 {
		for range n {
			t.DraftEntropies = append(t.DraftEntropies, r.nats("an entropy", 1))
		}
	}
	if known&4 != 0 {
		t.Bin, t.Phi = r.number("bin", math.MaxInt32), float64(r.nats("phi", 0))
	}
	p := &t.Pruned
	if p.Total = r.number("pruned", math.MaxInt32); p.Total > 0 {
		shown := r.count("shown", 1, min(p.Total, MaxPruned))
		p.Tokens, p.Texts = make([]int32, shown), make([]string, shown)
		p.Parents, p.Scores = make([]int32, shown), make([]float32, shown)
		r.tokens(p.Tokens, p.Texts)
		for i := range p.Parents {
			p.Parents[i] = int32(r.number("a parent", n+i-1))
		}
		at := 0
		for i := range p.Scores {
			at += r.number("a score", MaxNats*scoreSteps)
			p.Scores[i] = float32(-at) / scoreSteps
		}
	}
	return t
}

func (r *reader) tokens(ids []int32, texts []string) {
	for i := range ids {
		at := r.number("a token", len(r.ids))
		if at == len(r.ids) && r.err == nil {
			r.ids = append(r.ids, int32(r.number("a token's id", math.MaxInt32)))
			r.texts = append(r.texts, r.text("a token's text", MaxBytes))
		}
		if r.err == nil {
			ids[i], texts[i] = r.ids[at], r.texts[at]
		}
	}
}

// nats reads an entropy that is stored with less added to it; -1 where that is unknown.
func (r *reader) nats(what string, less int) float32 {
	at := r.number(what, MaxNats*entropySteps+less) - less
	if at < 0 {
		return -1
	}
	return float32(at) / entropySteps
}
