package tokenizer

import (
	"fmt"
	"foretoken/internal/quote"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// naiveMatch tries every way to match a part of an expression at a place, in the order of preference, until rest
// accepts an end. It is written from the definition, without memory.
func naiveMatch(n node, text []rune, at int, rest func(int) bool) bool {
	switch n.kind {
	case nodeClass:
		return at < len(text) && n.class.find(text[at]) && rest(at+1)
	case nodeSequence:
		if len(n.parts) == 0 {
			return rest(at)
		}
		return naiveMatch(n.parts[0], text, at, func(at int) bool {
			return naiveMatch(node{kind: nodeSequence, parts: n.parts[1:]}, text, at, rest)
		})
	case nodeChoice:
		return slices.ContainsFunc(n.parts, func(p node) bool { return naiveMatch(p, text, at, rest) })
	case nodeRepeat:
		var more func(times, at int) bool
		more = func(times, at int) bool {
			return times < n.hi && naiveMatch(n.parts[0], text, at, func(to int) bool {
				return (to > at || times < n.lo) && more(times+1, to)
			}) || times >= n.lo && rest(at)
		}
		return more(0, at)
	case nodeLook:
		return naiveMatch(n.parts[0], text, at, func(int) bool { return true }) != n.not && rest(at)
	case nodeEnd:
		return at == len(text) && rest(at)
	default:
		before := at > 0 && isWord(text[at-1])
		after := at < len(text) && isWord(text[at])
		return before != after && rest(at)
	}
}

func naiveCut(t testing.TB, expr string, text []rune) (ends []int) {
	c := compiler{text: []rune(expr)}
	n := c.alternatives()
	if c.err != nil {
		t.Fatal(c.err)
	}
	done := 0
	for at := 0; at < len(text); {
		to := -1
		if !naiveMatch(n, text, at, func(end int) bool { to = end; return true }) {
			at++
			continue
		}
		if at > done {
			ends = append(ends, at)
		}
		if to > at {
			ends = append(ends, to)
		}
		done, at = to, max(to, at+1)
	}
	if done < len(text) {
		ends = append(ends, len(text))
	}
	return ends
}

// randomExpression draws an expression whose repetitions repeat something.
func randomExpression(r *rand.Rand, depth int) string {
	class := []string{"a", "b", "[ab]", "[^a]", `\d`, `\s`, `\p{L}`, `[\p{L}&&[^a]]`}[r.Intn(8)]
	if depth == 0 {
		return class
	}
	part := func() string { return randomExpression(r, depth-1) }
	switch r.Intn(8) {
	case 0:
		return part() + "|" + part()
	case 1:
		return "(?:" + class + part() + ")" + []string{"*", "+", "?", "{2}", "{1,3}"}[r.Intn(5)]
	case 2:
		return class + []string{"*", "+", "?", "{3}", "{1,2}"}[r.Intn(5)] + part()
	case 3:
		return "(?=" + part() + ")" + part()
	case 4:
		return "(?!" + part() + ")" + part()
	case 5:
		return part() + "$"
	case 6:
		return `\b` + part()
	default:
		return "(" + part() + ")" + part()
	}
}

func FuzzPattern(f *testing.F) {
	for seed := range int64(300) {
		f.Add(seed, "ab a1 bb")
	}
	f.Fuzz(func(t *testing.T, seed int64, text string) {
		if len(text) > 12 || !utf8.ValidString(text) {
			return
		}
		r := rand.New(rand.NewSource(seed))
		expr := randomExpression(r, 1+r.Intn(4))
		for range 5 {
			text += []string{"a", "b", "ab", "1", "12", " ", "世", "\n"}[r.Intn(8)]
		}
		p, err := compile(expr)
		if err != nil {
			t.Fatal(err)
		}
		runes := []rune(text)
		got := newMatcher(p, runes).cut(0, len(runes), nil, &meter{left: slice})
		if want := naiveCut(t, expr, runes); !slices.Equal(got, want) {
			t.Errorf("%s cuts %q at %v, want %v", expr, text, got, want)
		}
	})
}

// TestPatternsMatchNaive cuts awkward texts by every expression.
func TestPatternsMatchNaive(t *testing.T) {
	tested := map[string]bool{}
	for _, pre := range preTokenizers {
		for _, expr := range pre.exprs {
			if tested[expr] {
				continue
			}
			tested[expr] = true
			p, err := compile(expr)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range awkward {
				runes := []rune(text)
				got := newMatcher(p, runes).cut(0, len(runes), nil, &meter{left: slice})
				if want := naiveCut(t, expr, runes); !slices.Equal(got, want) {
					t.Errorf("%s cuts %q at %v, want %v", expr, text, got, want)
				}
			}
		}
	}
}

func TestPatternErrors(t *testing.T) {
	for _, expr := range []string{"a**", "(a", "a)", "[a", `\p{X}`, `\q`, "a{x}", "a{3,2}", "[b-a]", "a+?", `a\`} {
		if _, err := compile(expr); err == nil {
			t.Errorf("%q compiles", expr)
		}
	}
}

// TestPreTokenizerNames holds the names of llama.cpp v0.5.0 and finds the nearest of others.
func TestPreTokenizerNames(t *testing.T) {
	names := preNames()
	if len(names) != 90 || len(slices.Compact(slices.Clone(names))) != 90 {
		t.Errorf("%d names: %q", len(names), names)
	}
	for name, want := range map[string]string{
		"qwen3.5": "qwen35", "llama4x": "llama4", "gemma5": "gemma4", "": "mpt", strings.Repeat("x", 1e6): "a.x-4.0",
	} {
		if near := quote.Nearest(name, names, 5); len(near) != 5 || near[0] != want {
			t.Errorf("nearest to %.20q: %q, want %s first", name, near, want)
		}
	}
}

// TestNoPreTokenizer reads files that do not name theirs.
func TestNoPreTokenizer(t *testing.T) {
	tok := smallBPE().with(keyPre, nil).tokenizer(t)
	if !strings.Contains(tok.Note(), keyPre) {
		t.Errorf("note %q", tok.Note())
	}
	same := smallBPE().with(keyPre, "default").tokenizer(t)
	if same.Note() != "" {
		t.Errorf("note %q", same.Note())
	}
	const text = "hello, world! 1234"
	if a, b := fmt.Sprint(tok.Encode(text, false)), fmt.Sprint(same.Encode(text, false)); a != b {
		t.Errorf("%s, want %s", a, b)
	}
}
