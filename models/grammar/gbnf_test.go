package grammar

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"foretoken/models/fuzztest"
)

// bytesVocab has a token for each byte and an end-of-text token.
func bytesVocab() *Vocab {
	return NewVocab(257, func(id int32) []byte { return []byte{byte(id)} }, func(id int32) bool { return id == 256 })
}

// allows reports whether a grammar allows a text, read byte by byte.
func allows(g *Grammar, text string) bool {
	m := NewMatcher(context.Background(), g, bytesVocab())
	s := m.Start()
	for i := range len(text) {
		var ok bool
		if s, ok = m.Accept(s, int32(text[i])); !ok {
			return false
		}
	}
	return s.CanEnd()
}

func parse(t *testing.T, source string) *Grammar {
	t.Helper()
	g, err := ParseGBNF(context.Background(), source)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return g
}

func TestGBNF(t *testing.T) {
	for _, c := range []struct{ source, yes, no string }{
		{`root ::= "a" | "bc"`, "a bc", "b abc ac"},
		{"root ::= one |\n  two # or\n\none ::= \"1\"\ntwo ::= \"2\"", "1 2", "3 12"},
		{"root ::= \"1\"\n  | \"2\"\nother ::= \"3\"", "1 2", "3"},
		{`root ::= ("x" | "y"){2,3} "z"?`, "xx xyx yyz xyxz", "x xyxy z"},
		{`root ::= [a-c0]+`, "a 0cab", "d aBc"},
		{`root ::= [^a-y]+`, "z é漢A", "a zb"},
		{`root ::= "é" . "!"`, "éx! é漢! é🙂!", "é! éxx!"},
		{`root ::= "\x41\u00e9\n\"\\"`, "Aé\n\"\\", "A"},
		{`root ::= "\xff"`, "\xff", "ÿ"},
		{`root ::= "\uD83D\uDE00" | "\U0000d83d\ude01" | "\U0001F602"`, "😀 😁 😂", "\ufffd \ufffd\ufffd 😃"},
		{`root ::= [\uD83D\uDE00-\uD83D\uDE02x]`, "😀 😁 😂 x", "😃 \ufffd"},
		{`root ::= [\uD000-\uE000]`, "\ud000 \ud7ff \ue000", "\xed\xa0\x80 \xed\xbf\xbf \uffff"},
		{`root ::= [\x41-\x43\]\-]`, "A C ] -", "D \\"},
		{`root ::= "a"{3}`, "aaa", "aa aaaa"},
		{`root ::= "a"{2,}`, "aa aaaaaa", "a"},
		{`root ::= (("a"?)*)*  "b"`, "b ab aaab", "a ba"},
		{`root ::= "(" root? ")"`, "() (())", "( ()()"},
		{`root ::= list
list ::= item ("," item)*
item ::= [a-z] | "[" list "]"`, "a a,b [a,[b]],c", ", a, [a"},
		{`root ::= e
e ::= t (("+" | "-") t)*
t ::= [0-9]+ | "(" e ")"`, "1 1+2-33 (1+(2))", "+ 1+ (1"},
	} {
		g := parse(t, c.source)
		for _, s := range strings.Split(c.yes, " ") {
			if !allows(g, s) {
				t.Errorf("%s does not allow %q", c.source, s)
			}
		}
		for _, s := range strings.Split(c.no, " ") {
			if allows(g, s) {
				t.Errorf("%s allows %q", c.source, s)
			}
		}
	}
	if !allows(parse(t, `root ::= ""`), "") || allows(parse(t, `root ::= "a"`), "") {
		t.Error("the empty text")
	}
}

func TestGBNFMistakes(t *testing.T) {
	for source, want := range map[string]string{
		``:                             `no rule "root"`,
		`a ::= "b"`:                    `no rule "root"`,
		`root ::= missing`:             `"missing" is not defined`,
		`root ::= root "a" | "b"`:      `"root" begins with itself`,
		`root ::= "x"? root "a"`:       "begins with itself",
		"root ::= a\na ::= root \"b\"": "begins with itself",
		"root ::= \"a\nroot ::= \"b\"": "line 1: a literal is not closed",
		"\nroot ::= [a":                "line 2: a class is not closed",
		`root ::= ("a"`:                "a group is not closed",
		`root ::= "a"{3,2}`:            "at least 3 and at most 2",
		`root ::= "a"{9999999}`:        "more than",
		`root ::= "a"{x}`:              "want a number",
		`root ::= ((((("a"{99}){99}){99}){99}){99}){99}` + strings.Repeat(" \"b\"{60}", 9000): "more than",
		`root ::= "a" root | other
other ::= "b" root`: "allows no text",
		`root ::= [z-a]`:                 "is empty",
		`root ::= "\q"`:                  "escape",
		`root ::= "\u12"`:                "4 hexadecimal digits",
		`root ::= "\U00110000"`:          "no character",
		"root ::= a\na ::= \"\\uD800\"":  `line 2: U+D800 is no character but half`,
		`root ::= "\uDE00\uD83D"`:        "half of one",
		`root ::= "\uD83D\uD83D\uDE00"`:  "half of one",
		`root ::= "\uD83D \uDE00"`:       "half of one",
		`root ::= "\U0000DFFF"`:          "half of one",
		`root ::= [\uDE00]`:              "half of one",
		`root ::= [^\uD800-\uDFFF]`:      "half of one",
		`root ::= [\uD83D-\uDE00]`:       "half of one",
		"root ::= \"\xff\"":              "not UTF-8",
		`root ::= "a" )`:                 `cannot read ")"`,
		`root "a"`:                       "want ::=",
		`root ::=`:                       `rule "root" is empty`,
		"root ::= \"a\"\nroot ::= \"b\"": "defined twice",
		`root ::= ` + strings.Repeat("(", 500) + `"a"` + strings.Repeat(")", 500): "deeper than",
	} {
		if _, err := ParseGBNF(context.Background(), source); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "grammar: ") {
			t.Errorf("%.60s: %v, want %q", source, err, want)
		}
	}
}

// TestUTF8Classes compares ranges of runes with the bytes of their members.
func TestUTF8Classes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	edges := []rune{0, 1, 0x7e, 0x7f, 0x80, 0x7ff, 0x800, 0xfff, 0x1000, 0xd7ff, 0xd800, 0xdfff, 0xe000, 0xffff,
		0x10000, 0x3ffff, 0x40000, 0x10ffff}
	for range 300 {
		lo, hi := edges[rng.IntN(len(edges))], edges[rng.IntN(len(edges))]
		if rng.IntN(2) == 0 {
			lo = rune(rng.IntN(utf8.MaxRune))
		}
		if rng.IntN(2) == 0 {
			hi = rune(rng.IntN(utf8.MaxRune))
		}
		lo, hi = min(lo, hi), max(lo, hi)
		b := newBuilder(context.Background())
		r := b.anonymous("root")
		b.define(r, b.class(runeRange{lo, hi}))
		g, err := b.grammar(r)
		if err != nil {
			if lo >= 0xd800 && hi <= 0xdfff {
				continue // nothing but surrogates
			}
			t.Fatal(err)
		}
		tries := append([]rune{lo - 1, lo, lo + 1, hi - 1, hi, hi + 1}, edges...)
		for range 50 {
			tries = append(tries, rune(rng.IntN(utf8.MaxRune+1)))
		}
		for _, c := range tries {
			if c < 0 || !utf8.ValidRune(c) {
				continue
			}
			if got, want := allows(g, string(c)), c >= lo && c <= hi; got != want {
				t.Fatalf("%U-%U allows %U: %v", lo, hi, c, got)
			}
		}
		for _, broken := range []string{"\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe0\x80\x80"} {
			if allows(g, broken) {
				t.Fatalf("%U-%U allows the bytes %x", lo, hi, broken)
			}
		}
	}
}

// TestMask compares masks with trying each token, over random walks, with and without room to keep states.
func TestMask(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"", "<end>"}
	for range 400 {
		n := 1 + rng.IntN(5)
		var p []byte
		for range n {
			p = append(p, `{}[]",:ab1 2-.\ntrue`[rng.IntN(20)])
		}
		pieces = append(pieces, string(p))
	}
	for b := range 256 {
		pieces = append(pieces, string([]byte{byte(b)}))
	}
	v := NewVocab(len(pieces), func(id int32) []byte { return []byte(pieces[id]) },
		func(id int32) bool { return id == 1 })
	for name, g := range map[string]*Grammar{"json": schemaGrammar(t, `true`, Free),
		"object": schemaGrammar(t, `{"type":"object"}`, Free),
		"lists":  parse(t, `root ::= "[" (root ("," root)*)? "]" | [a-b]+ "\xe4" | "true" root`)} {
		for _, room := range []int{keptBytes, 1} {
			m := NewMatcher(context.Background(), g, v)
			m.most = room
			for range 6 {
				s := m.Start()
				for range 30 {
					mask := m.Mask(s)
					var can []int32
					for id := range int32(len(pieces)) {
						_, ok := m.Commit(s, id)
						if got := mask[id/32]>>(id%32)&1 == 1; got != ok {
							t.Fatalf("%s: token %q: mask %v, accepted %v", name, pieces[id], got, ok)
						}
						if ok && id != 1 {
							can = append(can, id)
						}
					}
					if len(can) == 0 {
						if !s.MustEnd() || !s.CanEnd() {
							t.Fatalf("%s: nothing may follow, and the text is not whole", name)
						}
						break
					}
					s, _ = m.Commit(s, can[rng.IntN(len(can))])
				}
			}
		}
	}
}

// TestMatcherMemory keeps a matcher's memory within its bound while a text nests ever deeper.
func TestMatcherMemory(t *testing.T) {
	m := NewMatcher(context.Background(), schemaGrammar(t, `true`, Free), bytesVocab())
	m.most = 1 << 20
	s := m.Start()
	for i := range 3000 {
		m.Mask(s)
		var ok bool
		if s, ok = m.Commit(s, '['); !ok {
			t.Fatal(i)
		}
		if m.bytes > 6<<20 {
			t.Fatalf("%d bytes kept after %d brackets", m.bytes, i)
		}
	}
	for range 3000 {
		var ok bool
		if s, ok = m.Commit(s, ']'); !ok {
			t.Fatal("the brackets do not close")
		}
	}
	if !s.CanEnd() || !s.MustEnd() {
		t.Error("the text is whole and may go on")
	}
}

// whole decides whether a grammar allows a text: it computes which stretches of the text each rule can match until
// a fixpoint, independently of the matcher. For short texts.
func whole(g *Grammar, text string) bool {
	ends := make([]uint64, len(g.starts)*(len(text)+1)) // of a rule from a place on, a bit each
	for changed := true; changed; {
		changed = false
		for rule, starts := range g.starts {
			for from := range len(text) + 1 {
				at := &ends[rule*(len(text)+1)+from]
				was := *at
				for _, o := range starts {
					*at |= reached(g, ends, o, from, text)
				}
				changed = changed || *at != was
			}
		}
	}
	return ends[0]>>len(text)&1 == 1
}

// reached is where an alternative may end that begins at a place of a text.
func reached(g *Grammar, ends []uint64, o int32, from int, text string) uint64 {
	set := uint64(1) << from
	for ; g.ops[o].kind != opReturn && set != 0; o++ {
		var next uint64
		for i := range len(text) + 1 {
			switch arg := int(g.ops[o].arg); {
			case set>>i&1 == 0:
			case g.ops[o].kind == opCall:
				next |= ends[arg*(len(text)+1)+i]
			case i < len(text) && g.sets[arg].has(text[i]):
				next |= 1 << (i + 1)
			}
		}
		set = next
	}
	return set
}

// BenchmarkMatcher reads a JSON text with a vocabulary made of its own stretches, the work of a new matcher, in
// masks and steps per text.
func BenchmarkMatcher(b *testing.B) {
	text := `{"name": "Ann \u00e9", "ages": [1, -2.5e3, true, null], "more": {"x": {"y": [[], {}, "z"]}}}`
	var pieces []string
	seen := map[string]bool{}
	for n := 1; n <= 6; n++ {
		for i := 0; i+n <= len(text); i++ {
			if p := text[i : i+n]; !seen[p] {
				seen[p] = true
				pieces = append(pieces, p)
			}
		}
	}
	at := map[string]int32{}
	for i, p := range pieces {
		at[p] = int32(i)
	}
	vocab := NewVocab(len(pieces)+1, func(id int32) []byte {
		if int(id) == len(pieces) {
			return nil
		}
		return []byte(pieces[id])
	}, func(id int32) bool { return int(id) == len(pieces) })
	g := schemaGrammar(b, `true`, Free)
	b.ReportAllocs()
	for b.Loop() {
		m := NewMatcher(context.Background(), g, vocab)
		s := m.Start()
		for i := range len(text) {
			m.Mask(s)
			var ok bool
			if s, ok = m.Accept(s, at[text[i:i+1]]); !ok {
				b.Fatal(i)
			}
		}
	}
}

func FuzzGBNF(f *testing.F) {
	f.Add(`root ::= [a-z]+ ("," root)?`, "ab,c")
	f.Add("root ::= [^\\]\\-a-z\\u00e9\\U0001f600]* \"\\xc3\\xa9\\t\\r\\\\\\\"\" # escapes", "A\u00e9")
	f.Add("root ::= ( a-b | \"x\"{2} ){1,} | \"y\"{ 0 , 3 } \"\"\na-b ::=\n  [0-9A-Fa-f]{4}", "12ef")
	f.Add("root ::= \"(\" root \")\" | [^(]", "((a))")
	f.Add("root ::= root \"a\" | \"b\"", "ba") // left recursion
	f.Add("\nroot ::= \"\\\n\"", "")           // a refusal that quotes this must stay on one line
	f.Add(strings.Repeat("n", 5000)+" = x", "")
	f.Add("root ::= (\"a\" root?)* root?", strings.Repeat("a", 200)) // ever more ways to have read it
	f.Add("root ::= x{2,3} | \"\\u00e9\"\nx ::= . # any", "é")
	f.Fuzz(func(t *testing.T, source, text string) {
		var g *Grammar
		var err error
		fuzztest.Bound(t, len(source), func() { g, err = ParseGBNF(context.Background(), source) })
		if err != nil {
			fuzztest.Refusal(t, err, "grammar: ")
			return
		}
		if len(g.ops) > 2*maxOps {
			t.Fatalf("%d steps", len(g.ops))
		}
		if len(g.ops) < 1<<12 {
			fuzztest.Bound(t, len(source), func() { allows(g, text[:min(len(text), 200)]) })
		}
		if text = text[:min(len(text), 20)]; len(g.ops) < 1<<8 {
			if got, want := allows(g, text), whole(g, text); got != want {
				t.Fatalf("%q: allowed %v, want %v", text, got, want)
			}
		}
	})
}
