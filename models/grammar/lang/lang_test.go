package lang

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// letters of random automata and texts: among them neighbours, the last before the surrogates and the first after.
var letters = []rune{'a', 'b', 'c', 0xD7FF, 0xE000, '😀', utf8.MaxRune}

func randomStates(r *rand.Rand) []State {
	states := make([]State, 1+r.IntN(6))
	for i := range states {
		states[i].Final = r.IntN(3) == 0
		for range r.IntN(4) {
			var ranges []Range
			for range 1 + r.IntN(2) {
				lo := r.IntN(len(letters))
				ranges = append(ranges, Range{letters[lo], letters[lo+r.IntN(len(letters)-lo)]})
			}
			states[i].Edges = append(states[i].Edges, Edge{ranges, int32(r.IntN(len(states)))})
		}
	}
	return states
}

func randomText(r *rand.Rand, most int) string {
	text := make([]rune, r.IntN(most+1))
	for i := range text {
		text[i] = letters[r.IntN(len(letters))]
	}
	return string(text)
}

// runs is a second reading of an automaton, straight from its definition.
func runs(states []State, at int32, text []rune) bool {
	if len(text) == 0 {
		return states[at].Final
	}
	for _, e := range states[at].Edges {
		for _, g := range e.Ranges {
			if g.Lo <= text[0] && text[0] <= g.Hi && runs(states, e.To, text[1:]) {
				return true
			}
		}
	}
	return false
}

// check fails unless an automaton keeps what Lang promises.
func check(t *testing.T, l *Lang) {
	t.Helper()
	trimmed, _ := new(Maker).trim(l.states)
	if len(trimmed) != len(l.states) {
		t.Fatalf("%d of %d states are of use", len(trimmed), len(l.states))
	}
	for i, s := range l.states {
		for j, e := range s.Edges {
			if j > 0 && s.Edges[j-1].To >= e.To || len(e.Ranges) == 0 {
				t.Fatalf("state %d has edges %v", i, s.Edges)
			}
			for k, r := range e.Ranges {
				if r.Lo > r.Hi || r.Lo < 0xE000 && r.Hi > 0xD7FF || k > 0 && e.Ranges[k-1].Hi+1 >= r.Lo {
					t.Fatalf("state %d has ranges %v", i, e.Ranges)
				}
			}
		}
		if l.single && s.ambiguous() {
			t.Fatalf("state %d is ambiguous: %v", i, s.Edges)
		}
	}
}

func TestLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1500 {
		m := &Maker{}
		left, right := randomStates(r), randomStates(r)
		a, b := m.Of(left), m.Of(right)
		least, most := r.IntN(4), r.IntN(6)-1
		and, or, not, length := m.And(a, b), m.Or(a, b), m.Not(a), m.Length(a, least, most)
		exact, _ := m.determine(b, -1)
		for _, l := range []*Lang{a, b, and, or, not, length, exact} {
			check(t, l)
		}
		if !exact.single || !not.single {
			t.Fatal("a deterministic automaton is not known as such")
		}
		for range 40 {
			text := randomText(r, 6)
			inA, inB := runs(left, 0, []rune(text)), runs(right, 0, []rune(text))
			n := utf8.RuneCountInString(text)
			for name, c := range map[string]struct {
				l    *Lang
				want bool
			}{
				"Of": {a, inA}, "And": {and, inA && inB}, "Or": {or, inA || inB}, "Not": {not, !inA},
				"Length": {length, inA && n >= least && (most < 0 || n <= most)}, "determine": {exact, inB},
			} {
				if c.l.Has(text) != c.want {
					t.Fatalf("%s: %q is in: %v; of %v and %v, %d to %d", name, text, !c.want, left, right, least, most)
				}
			}
		}
		if both := m.And(a, not); !both.Empty() {
			t.Fatalf("a language and its complement share strings: %v", both.states)
		}
		if back := m.Not(not); !m.And(back, not).Empty() || !m.And(a, m.Not(back)).Empty() {
			t.Fatalf("the complement of the complement differs: %v", left)
		}
	}
}

func TestTexts(t *testing.T) {
	m := &Maker{}
	texts := []string{"", "a", "ab", "b", "\U0001F600", "é", "aé", "ab"}
	l := m.Texts(texts...)
	check(t, l)
	all, finite := l.List(7)
	want := []string{"", "a", "ab", "aé", "b", "é", "\U0001F600"}
	if !finite || !slices.Equal(all, want) || !l.single {
		t.Fatalf("lists %q", all)
	}
	if all, finite = l.List(6); finite || all != nil {
		t.Fatalf("lists %q of more than 6", all)
	}
	if l.Has("\xff") || m.All().Has("a\xff") || l.Has("abc") {
		t.Fatal("has text that it was not made of")
	}
	if all, finite = m.Texts().List(0); !finite || len(all) != 0 {
		t.Fatal("no texts are some")
	}
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("property_%d_%x", i*7919%1000, i))
	}
	not := m.Not(m.Texts(names...))
	check(t, not)
	if n := len(not.states); n > 6000 {
		t.Errorf("the complement of a thousand names has %d states", n)
	}
	for _, name := range names {
		if not.Has(name) || !not.Has(name+"x") || !not.Has(name[1:]) {
			t.Fatalf("wrong about %q", name)
		}
	}
}

func TestListOfAmbiguous(t *testing.T) {
	m := &Maker{}
	states := make([]State, 0, 61) // two ways for each character, but one string in the end
	for i := range 30 {
		at := int32(2 * i)
		both := []Edge{{[]Range{{'a', 'a'}}, at + 1}, {[]Range{{'a', 'a'}}, at + 2}}
		states = append(states, State{Edges: both}, State{Edges: []Edge{{[]Range{{'a', 'a'}}, min(at+3, 60)}}})
	}
	l := &Lang{states: append(states, State{Final: true})}
	if all, finite := l.List(100); !finite || len(all) == 0 || len(all) > 60 {
		t.Fatalf("lists %d strings, finite %v", len(all), finite)
	}
	if all, finite := m.Of([]State{{Final: true, Edges: []Edge{{scalars, 1}}}, {Final: true}}).List(50); finite {
		t.Fatalf("lists %d strings of a million", len(all))
	}
	if _, finite := m.All().List(1 << 20); finite {
		t.Fatal("all strings are finite")
	}
}

func TestLengthIsSmall(t *testing.T) {
	m := &Maker{}
	again := []Edge{{[]Range{{'a', 'z'}}, 1}}
	az := m.Of([]State{{Edges: again}, {Edges: again, Final: true}})
	if n := len(m.Length(az, 2, 255).states); n != 256 {
		t.Errorf("%d states for 2 to 255 letters", n)
	}
	if m.Length(az, 1, -1) != az || m.Length(m.Texts("abc", "d"), 1, 3).states == nil {
		t.Error("bounds that change nothing change the automaton")
	}
	if !m.Length(az, 3, 2).Empty() || !m.Length(m.Texts("abc"), 4, -1).Empty() || !m.Length(az, 0, 0).Empty() {
		t.Error("bounds that nothing keeps leave something")
	}
}

func TestAndOfLengths(t *testing.T) {
	m := &Maker{}
	a := m.Texts("ab", "abc", "cba")
	for _, c := range []struct {
		least, most int
		want        string
	}{{2, 3, "ab abc cba"}, {0, -1, "ab abc cba"}, {3, 9, "abc cba"}, {0, 2, "ab"}, {4, 5, ""}} {
		length := m.Length(m.All(), c.least, c.most)
		for _, l := range []*Lang{m.And(a, length), m.And(length, a)} {
			check(t, l)
			if all, finite := l.List(9); !finite || strings.Join(all, " ") != c.want {
				t.Errorf("of %d to %d characters: %q", c.least, c.most, all)
			}
		}
	}
	ab := m.Length(m.Of([]State{{Edges: []Edge{{[]Range{{'a', 'b'}}, 0}}, Final: true}}), 0, 5)
	if all, _ := m.And(a, ab).List(9); !slices.Equal(all, []string{"ab"}) {
		t.Errorf("of a and b: %q", all)
	}
}

func TestSpendEnds(t *testing.T) {
	build := func(m *Maker) *Lang {
		a := m.Texts(strings.Repeat("a", 50), "b")
		return m.Not(m.Or(m.And(m.Length(m.All(), 2, 40), m.Not(a)), m.None(), m.Of([]State{{Final: true}})))
	}
	spent := 0
	if l := build(&Maker{Spend: func(n int) bool { spent += n; return true }}); l == nil {
		t.Fatal("nothing made")
	}
	for most := 0; most < spent; most += 1 + spent/500 {
		left := most
		if l := build(&Maker{Spend: func(n int) bool { left -= n; return left >= 0 }}); l != nil {
			t.Fatalf("made with %d units of %d", most, spent)
		}
	}
	m := &Maker{}
	for name, l := range map[string]*Lang{"And": m.And(nil, m.All()), "Or": m.Or(m.All(), nil), "Not": m.Not(nil),
		"Length": m.Length(nil, 0, -1)} {
		if l != nil {
			t.Errorf("%s makes something of nil", name)
		}
	}
	var none *Lang
	if _, finite := none.List(0); none.Has("") || !none.Empty() || len(none.States()) > 0 || !finite {
		t.Error("nil is not empty")
	}
}
