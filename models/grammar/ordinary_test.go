package grammar

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// strung is a vocabulary of ordinary tokens and others, of one and several characters, of parts of characters, and of
// more characters than a run has.
var strung = func() *Vocab {
	var all [][]byte
	for b := range 256 {
		all = append(all, []byte{byte(b)})
	}
	letters := []string{"a", "n", "na", "name", "1", "é", "漢", "\U0001f600", `"`, `\`, `\n`, "\n", " ", ",", `":`, "{",
		"}", "\xc3", "\xe6\xbc", "\x7f", "\u0080", "\uf8ff"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 4000 {
		var token []byte
		for range 1 + r.IntN(5) {
			token = append(token, letters[r.IntN(len(letters))]...)
		}
		all = append(all, token)
	}
	for n := 2; n < 40; n++ {
		all = append(all, slices.Repeat([]byte("a"), n), slices.Repeat([]byte("漢"), n),
			append(slices.Repeat([]byte("n"), n), '"'))
	}
	v := NewVocab(len(all)+1, func(id int32) []byte {
		if int(id) == len(all) {
			return nil
		}
		return all[id]
	}, func(id int32) bool { return int(id) == len(all) })
	if !v.large {
		panic("the vocabulary is too small for the test")
	}
	return v
}()

// slowMask tries every token by itself.
func slowMask(m *Matcher, s *State) []uint32 {
	mask := make([]uint32, m.vocab.words)
	for id := range int32(len(m.vocab.pieces)) {
		if _, ok := m.Accept(s, id); ok {
			mask[id/32] |= 1 << (id % 32)
		}
	}
	return mask
}

// checkMasks follows a script through a grammar and compares its masks with those of single tokens.
func checkMasks(t *testing.T, name string, g *Grammar, v *Vocab, script string) {
	t.Helper()
	m, slow := NewMatcher(context.Background(), g, v), NewMatcher(context.Background(), g, v)
	s, same := m.Start(), slow.Start()
	for i := range len(script) + 1 {
		mask, want := m.Mask(s), slowMask(slow, same)
		if m.Err() != nil || slow.Err() != nil {
			return
		}
		for id := range int32(len(v.pieces)) {
			if mask[id/32]>>(id%32)&1 != want[id/32]>>(id%32)&1 {
				t.Fatalf("%s: the mask is wrong of %q after %d tokens of %q", name, v.pieces[id], i, script)
			}
		}
		if i == len(script) {
			return
		}
		var can []int32
		for id := range int32(len(v.pieces)) {
			if mask[id/32]>>(id%32)&1 == 1 && !v.ends(int32(id)) {
				can = append(can, id)
			}
		}
		if len(can) == 0 {
			return
		}
		token := can[int(script[i])*len(can)/256]
		s, _ = m.Commit(s, token)
		same, _ = slow.Commit(same, token)
	}
}

// TestMasks compares the masks of strings of all kinds with those of single tokens.
func TestMasks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, schema := range []string{
		`{"type":"string"}`, `{}`, `{"type":"string","minLength":1}`, `{"type":"string","maxLength":3}`,
		`{"type":"string","minLength":5,"maxLength":30}`, `{"type":"string","pattern":"na"}`,
		`{"type":"string","pattern":"^[a-z漢]*$"}`, `{"type":"string","pattern":"^.*1$"}`,
		`{"type":"string","pattern":"\\d{2}-a"}`, `{"type":"string","pattern":"^[^n]*$"}`,
		`{"type":"string","pattern":"^[^\\uF8FF]+$"}`, `{"type":"string","pattern":"^(\\uF8FF|a|n)*$"}`,
		`{"type":"string","pattern":"^.{0,20}$"}`, `{"type":"string","pattern":"^[^n1]"}`,
		`{"type":"string","pattern":"^.[^a]"}`, `{"enum":["name","na\n","漢漢"]}`,
		`{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"},"漢":{}},` +
			`"additionalProperties":{"type":"string","maxLength":20}}`,
		`{"type":"array","items":{"type":"string","maxLength":17},"maxItems":2}`,
	} {
		for _, layout := range []Layout{Free, Compact} {
			g := schemaGrammar(t, schema, layout)
			for range 4 {
				script := make([]byte, 12)
				for i := range script {
					script[i] = byte(r.UintN(256))
				}
				checkMasks(t, schema, g, strung, string(script))
			}
		}
	}
	for _, source := range []string{`root ::= "\"" [^"\\]* "\""`, `root ::= [^n]+`, `root ::= ([a-z] | "é" | "\x80")*`,
		`root ::= .*`, `root ::= .{3} "n"`, `root ::= "a"* [^a"\\]? "\""`,
		"root ::= c+\nc ::= [^a\"\\\\] | \"a\" c \"x\"",
		"root ::= [^\"\\\\\\x7F\\x00-\\x1F]* (\"a\" | \"\\\"\" root)"} {
		g, err := ParseGBNF(context.Background(), source)
		if err != nil {
			t.Fatal(err)
		}
		checkMasks(t, source, g, strung, "\x10\x80\xf0\x33\x77")
	}
}

// FuzzMasks compares the masks of grammars with those of single tokens.
func FuzzMasks(f *testing.F) {
	for i, source := range []string{`root ::= "a" | "na" root`, `root ::= [^"]* "\"" root?`, `root ::= .{2,5} | "n"*`} {
		f.Add(source, fmt.Sprint("script", i))
	}
	f.Fuzz(func(t *testing.T, source, script string) {
		g, err := ParseGBNF(context.Background(), source)
		if err != nil {
			return
		}
		checkMasks(t, source, g, strung, script[:min(len(script), 8)])
	})
}

// TestOrdinaryTokens compares the ordinary tokens and the others with their definition.
func TestOrdinaryTokens(t *testing.T) {
	v := strung
	ordinary := map[int32]int{}
	for _, token := range v.ordinary {
		ordinary[token.id] = int(token.run)
	}
	others := map[int32]bool{}
	for _, id := range v.others.tokens {
		others[id] = true
	}
	long := map[int32]bool{}
	for _, id := range v.long.tokens {
		long[id] = true
	}
	for id, p := range v.pieces {
		if len(p) == 0 {
			continue
		}
		n, is := 0, true
		for _, r := range string(p) {
			if r < ' ' || r == '"' || r == '\\' || r == 0x7f || r == '\ufffd' {
				is = false
			}
			n++
		}
		run, has := ordinary[int32(id)]
		if is != has || is && run != min(n, endless) || is == others[int32(id)] || long[int32(id)] != (run == endless) {
			t.Errorf("%q has %d characters, and counts as %d; it is of the others: %v, of the long ones: %v", p, n, run,
				others[int32(id)], long[int32(id)])
		}
	}
	for i, at := range v.inAll {
		if a, o := v.all.nodes[at], v.others.nodes[i]; a.b != o.b || a.depth != o.depth {
			t.Fatalf("node %d of the others is not node %d", i, at)
		}
	}
}
