package tokenizer

import (
	"math/rand"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// smallWordPiece has the small letters at the beginning of a word and in it, a few words, and BERT's special tokens.
func smallWordPiece() fields {
	tokens := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"}
	types := []int32{int32(control), int32(unknown), int32(control), int32(control)}
	for _, s := range strings.Fields("▁the ▁cat the cat ing ▁run run ▁! ▁, ▁世 ▁$ ▁е е ж ᄒ ▁ᄒ") {
		tokens, types = append(tokens, s), append(types, int32(normal))
	}
	for c := 'a'; c <= 'z'; c++ {
		tokens, types = append(tokens, "▁"+string(c), string(c)), append(types, int32(normal), int32(normal))
	}
	return fields{keyModel: "bert", keyTokens: tokens, keyTypes: types, keyUNK: uint32(1), keyCLS: uint32(2),
		keySEP: uint32(3)}
}

func TestWordPiece(t *testing.T) {
	for _, c := range []struct {
		m          fields
		text, want string
	}{
		{smallWordPiece(), "The cats, RUNNING!", "▁the|▁cat|s|▁,|▁run|n|ing|▁!"},
		{smallWordPiece(), "  été\tnaïve  ", "▁e|t|e|▁n|a|i|v|e"},
		{smallWordPiece(), "a世b$c\u0000d\u200ee", "▁a|▁世|▁b|▁$|▁c|d|e"},
		{smallWordPiece(), "caté世 жx ёж", "▁cat|e|▁世|[UNK]|▁е|ж"},
		{smallWordPiece(), "한 a", "▁ᄒ|▁a"},
		{smallWordPiece().with(keyLower, false), "The cat", "[UNK]|▁cat"},
		{smallWordPiece().with(keyAccent, false), "été e", "[UNK]|▁e"},
	} {
		tok := c.m.tokenizer(t)
		if got := texts(tok, tok.Encode(c.text, false)); got != c.want {
			t.Errorf("%q becomes %s, want %s", c.text, got, c.want)
		}
	}
	tok := smallWordPiece().tokenizer(t)
	ids, err := tok.EncodeWith("the cat", EncodeOptions{Begin: true, Complete: true})
	if got := texts(tok, ids); got != "[CLS]|▁the|▁cat|[SEP]" || err != nil {
		t.Error(got, err)
	}
	if got := tok.Decode(ids); got != "the cat" {
		t.Errorf("%q", got)
	}
	if n := tok.Least(1000, false); n != 0 { // a word of any length may be unknown
		t.Error(n)
	}
}

func TestWordPieceErrors(t *testing.T) {
	m := smallWordPiece()
	long := append(append([]string{}, m[keyTokens].([]string)[1:]...), strings.Repeat("x", 1000))
	for want, m := range map[string]fields{
		keyUNK: m.with(keyUNK, nil), keyBOS: m.with(keyCLS, nil), keyEOS: m.with(keySEP, nil),
		keyLower: m.with(keyLower, "no"), "1000 bytes": m.with(keyTokens, long),
	} {
		if _, err := New(m.file(t, "small.gguf")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
	}
}

// TestDecompositions compares with the tables of golang.org/x/text.
func TestDecompositions(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		want, _ := utf8.DecodeRune(norm.NFD.Bytes([]byte(string(r))))
		if got := withoutAccent(r); got != want {
			t.Errorf("%U loses its accents to %U, want %U", r, got, want)
		}
	}
}

// TestCharsMap reads a double array that is made by hand: "ﬁ" gives "fi", a tab a space, "x" nothing.
func TestCharsMap(t *testing.T) {
	m := smallUnigram().with(keyCharsMap, doubleArray(map[string]string{"ﬁ": "fi", "\t": " ", "x": ""}))
	for _, c := range []struct {
		m          fields
		text, want string
	}{
		{m, "aﬁxa\tb", "a|f|i|a|▁|b"},
		{m.with(keyPrefix, true), " a b ", "▁|▁|a|▁|b|▁"},
		{m.with(keyExtraSpace, true), " a \t b  ", "▁|a|▁|b"},
		{m.with(keyExtraSpace, true), "   ", ""},
	} {
		tok := c.m.tokenizer(t)
		if got := texts(tok, tok.Encode(c.text, false)); got != c.want {
			t.Errorf("%q becomes %s, want %s", c.text, got, c.want)
		}
	}
	for _, b := range [][]int32{{}, {1, 2, 3}, {4, 0, 0, 0, 1, 2, 3, 4}, {4, 0, 0, 0, 1, 2, 3, 4, 5},
		{3, 0, 0, 0, 1, 2, 3, 0}} {
		_, err := New(m.with(keyCharsMap, b).file(t, "small.gguf"))
		if err == nil || !strings.Contains(err.Error(), keyCharsMap) {
			t.Errorf("%v: error %v", b, err)
		}
	}
	// Whatever a file holds, a text is read in time.
	r := rand.New(rand.NewSource(1))
	for range 200 {
		b := doubleArray(map[string]string{"ab": "c", "b": "a"})
		for range 20 {
			b[4+r.Intn(len(b)-5)] = int32(r.Intn(256))
		}
		m.with(keyCharsMap, b).tokenizer(t).Encode("abababab b a xyz\t世", false)
	}
}

func smallUnigram() fields {
	tokens := []string{"<unk>", "▁", "a", "b", "f", "i", "x"}
	scores := []float32{0, -1, -2, -3, -4, -5, -6}
	types := []int32{int32(unknown), 1, 1, 1, 1, 1, 1}
	return fields{keyModel: "t5", keyTokens: tokens, keyScores: scores, keyTypes: types, keyUNK: uint32(0)}
}

// doubleArray lays rules out one node behind the other, 256 units apart.
func doubleArray(rules map[string]string) []int32 {
	units := make([]uint32, 256)
	texts := ""
	base := map[string]uint32{"": 256} // of the children of each beginning
	units[0] = 256 << 10
	units = append(units, make([]uint32, 256)...)
	child := func(prefix string) uint32 {
		if at, ok := base[prefix]; ok {
			return at
		}
		at := uint32(len(units))
		units = append(units, make([]uint32, 256)...)
		base[prefix] = at
		return at
	}
	for rule, gives := range rules {
		for i := range len(rule) {
			at := child(rule[:i]) ^ uint32(rule[i])
			children := child(rule[:i+1])
			units[at] = uint32(rule[i]) | (children^at)<<10 | units[at]&(1<<8)
			if i == len(rule)-1 {
				units[at] |= 1 << 8
				units[children] = 1<<31 | uint32(len(texts))
				texts += gives + "\x00"
			}
		}
	}
	size := 4 * len(units)
	out := []int32{int32(size & 255), int32(size >> 8 & 255), int32(size >> 16), 0}
	for _, u := range units {
		out = append(out, int32(u&255), int32(u>>8&255), int32(u>>16&255), int32(u>>24))
	}
	for _, c := range []byte(texts) {
		out = append(out, int32(c))
	}
	return out
}
