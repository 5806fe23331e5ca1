package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// naivePartition is the definition: all tokens of one length after the other, the longest first, each from the left.
type naivePartition struct {
	lengths []naiveLength // longest first
}

type naiveToken struct {
	id    int32
	asked bool
	strip stripSides
}

type naiveLength struct {
	bytes  int
	starts [256]bool // first bytes, to pass over most of a text quickly
	tokens map[string]naiveToken
}

func newNaivePartition(t *Tokenizer, strip map[int32]stripSides) naivePartition {
	byLength := map[int]int{}
	var p naivePartition
	for id, s := range t.texts {
		k := t.kinds[id]
		if s == "" || k != userDefined && k != control && k != unknown {
			continue
		}
		i, ok := byLength[len(s)]
		if !ok {
			i = len(p.lengths)
			byLength[len(s)] = i
			p.lengths = append(p.lengths, naiveLength{bytes: len(s), tokens: map[string]naiveToken{}})
		}
		l := &p.lengths[i]
		l.starts[s[0]] = true
		l.tokens[s] = naiveToken{int32(id), k != userDefined, strip[int32(id)]}
	}
	slices.SortFunc(p.lengths, func(a, b naiveLength) int { return b.bytes - a.bytes })
	return p
}

// split cuts text into special tokens and what is between them, in order.
func (p *naivePartition) split(text string, parse bool) []fragment {
	if text == "" {
		return nil
	}
	parts := []fragment{{none, text}}
	for i := range p.lengths {
		parts = p.lengths[i].split(parts, parse)
	}
	return parts
}

func (l *naiveLength) split(parts []fragment, parse bool) []fragment {
	var out []fragment // stays nil as long as nothing is found
	for i, f := range parts {
		if f.id != none {
			if out != nil {
				out = append(out, f)
			}
			continue
		}
		rest := f.text
		for {
			at, tok := l.find(rest, parse)
			if at < 0 {
				break
			}
			if out == nil {
				out = append(make([]fragment, 0, len(parts)+2), parts[:i]...)
			}
			before := rest[:at]
			if tok.strip.left {
				before = strings.TrimRight(before, whiteSpace)
			}
			if before != "" {
				out = append(out, fragment{none, before})
			}
			out = append(out, fragment{id: tok.id})
			rest = rest[at+l.bytes:]
			if tok.strip.right {
				rest = strings.TrimLeft(rest, whiteSpace)
			}
		}
		if out != nil && rest != "" {
			out = append(out, fragment{none, rest})
		}
	}
	if out == nil {
		return parts
	}
	return out
}

func (l *naiveLength) find(s string, parse bool) (int, naiveToken) {
	for i := 0; i+l.bytes <= len(s); i++ {
		if l.starts[s[i]] {
			if tok, ok := l.tokens[s[i:i+l.bytes]]; ok && (parse || !tok.asked) {
				return i, tok
			}
		}
	}
	return -1, naiveToken{}
}

// checkSplit compares partition with its definition.
func checkSplit(t *testing.T, tok *Tokenizer, strip map[int32]stripSides, text string) {
	t.Helper()
	p, naive := newPartition(tok, strip), newNaivePartition(tok, strip)
	for _, parse := range []bool{false, true} {
		got, want := p.split(text, parse, "", &meter{left: slice}), naive.split(text, parse)
		if !slices.Equal(got, want) {
			t.Errorf("%.300q (%t) is cut to\n%.500q, want\n%.500q", text, parse, fmt.Sprint(got), fmt.Sprint(want))
		}
	}
}

// randomSpecial is a vocabulary of special tokens over a few letters, which overlap and contain each other.
func randomSpecial(r *rand.Rand) (*Tokenizer, map[int32]stripSides) {
	t, strip := &Tokenizer{}, map[int32]stripSides{}
	seen := map[string]bool{}
	for range 1 + r.IntN(12) {
		s := letters(r, 1+r.IntN(6))
		if seen[s] {
			continue
		}
		seen[s] = true
		strip[int32(len(t.texts))] = stripSides{r.IntN(3) == 0, r.IntN(3) == 0}
		t.texts, t.kinds = append(t.texts, s), append(t.kinds, []kind{control, userDefined, unknown, normal}[r.IntN(4)])
	}
	return t, strip
}

func letters(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "ab \n"[r.IntN(4)]
	}
	return string(b)
}

func TestSplitLikeItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		tok, strip := randomSpecial(r)
		checkSplit(t, tok, strip, letters(r, r.IntN(40)))
	}
	for _, name := range vocabNames {
		tok := loadVocab(t, name)
		var special []string
		strip := map[int32]stripSides{}
		for id, k := range tok.kinds {
			if k == control || k == userDefined || k == unknown {
				special = append(special, tok.texts[id])
				strip[int32(id)] = stripSides{r.IntN(2) == 0, r.IntN(2) == 0}
			}
		}
		for range 200 {
			var b strings.Builder
			for range r.IntN(30) {
				s := special[r.IntN(len(special))]
				b.WriteString([]string{s, s[:r.IntN(len(s)+1)], " ", "\n", "a", "<"}[r.IntN(6)])
			}
			checkSplit(t, tok, strip, b.String())
			checkSplit(t, tok, nil, b.String())
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(uint64(1), "a b\nab")
	f.Fuzz(func(t *testing.T, seed uint64, text string) {
		tok, strip := randomSpecial(rand.New(rand.NewPCG(seed, 0)))
		if len(text) < 10_000 {
			checkSplit(t, tok, strip, text)
		}
	})
}
