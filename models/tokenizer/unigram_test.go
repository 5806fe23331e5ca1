package tokenizer

import (
	"math"
	"strings"
	"testing"
)

// TestUnigram compares with a search over all ways to cut a text.
func TestUnigram(t *testing.T) {
	list := []any{[]any{"<unk>", 0}, []any{"▁", -2.5}, []any{"a", -3}, []any{"b", -3.5}, []any{"ab", -4},
		[]any{"▁a", -4.25}, []any{"ba", -5.5}, []any{"▁ab", -6}, []any{"aba", -6.5}, []any{"é", -7}}
	data := marshal(t, object{"added_tokens": []object{{"id": 0, "content": "<unk>", "special": true},
		{"id": 10, "content": "</s>", "special": true}},
		"normalizer": nil, "pre_tokenizer": metaspace("always"),
		"model": object{"type": "Unigram", "unk_id": 0, "vocab": list}})
	tok, kv := fromJSON(t, data, []byte(`{"eos_token": "</s>"}`))
	if value(kv, keyModel) != "t5" {
		t.Error(value(kv, keyModel))
	}
	scores := map[string]float64{}
	for _, e := range list[1:] {
		pair := e.([]any)
		scores[pair[0].(string)] = toFloat(pair[1])
	}
	var best func(s string) float64
	best = func(s string) float64 {
		if s == "" {
			return 0
		}
		top := math.Inf(-1)
		for end := 1; end <= len(s); end++ {
			if x, ok := scores[s[:end]]; ok {
				top = max(top, x+best(s[end:]))
			}
		}
		return top
	}
	for _, text := range []string{"a", "ab", "aba b", "abab aab", " a  b", "baab ba abba", "éa"} {
		ids, sum, spelled := tok.Encode(text, false), 0.0, ""
		for _, id := range ids {
			sum += scores[tok.TokenText(id)]
			spelled += tok.TokenText(id)
		}
		want := strings.ReplaceAll(" "+text, " ", "▁")
		if spelled != want || math.Abs(sum-best(want)) > 1e-6 {
			t.Errorf("%q is cut into %s with the sum %v, want %v", text, texts(tok, ids), sum, best(want))
		}
		if back := tok.Decode(ids); back != text {
			t.Errorf("%q decodes to %q", text, back)
		}
	}
	if got := texts(tok, tok.Encode("axya", false)); got != "▁a|<unk>|a" {
		t.Error(got)
	}
	for id, s := range []string{"<unk>", "", "", "", "", "", "", "", "", "", "</s>"} {
		if s != "" && tok.TokenText(int32(id)) != s {
			t.Error(id, tok.TokenText(int32(id)))
		}
	}
}

func toFloat(v any) float64 {
	switch x := v.(type) {
	case int:
		return float64(x)
	case float64:
		return x
	}
	return math.NaN()
}

// TestLeast: no text has fewer tokens than its bytes say.
func TestLeast(t *testing.T) {
	list := []any{[]any{"<unk>", 0}, []any{"▁", -2.5}, []any{"a", -3}}
	unk := object{"id": 0, "content": "<unk>", "special": true}
	unigram, _ := fromJSON(t, marshal(t, object{"added_tokens": []object{unk}, "normalizer": nil,
		"pre_tokenizer": metaspace("always"), "model": object{"type": "Unigram", "unk_id": 0, "vocab": list}}),
		[]byte(`{}`))
	strips := func(f fields, kind kind) *Tokenizer {
		for id, k := range f.tokenizer(t).kinds {
			if k == kind {
				return f.with(keyRight, []int32{int32(id)}).tokenizer(t)
			}
		}
		t.Fatalf("no token of kind %d", kind)
		return nil
	}
	for name, c := range map[string]struct {
		tok            *Tokenizer
		plain, special bool // the bytes tell something
	}{
		"bytes":                        {smallBPE().tokenizer(t), true, true},
		"SentencePiece":                {smallSPM().tokenizer(t), true, true},
		"unknown characters":           {unigram, false, false},
		"control token that strips":    {strips(smallSPM(), control), true, false},
		"user's token that strips":     {strips(smallSPM(), userDefined), false, false},
		"control token that strips, B": {strips(smallBPE(), control), true, false},
	} {
		texts := []string{"", "a", strings.Repeat("x", 500), strings.Repeat(" ", 500), strings.Repeat("a", 500)}
		for id, s := range c.tok.texts {
			if k := c.tok.kinds[id]; k != normal && k != byteToken || len(s) > 4 && id%7 == 0 {
				texts = append(texts, s+strings.Repeat(" ", 500), strings.Repeat(s, 100))
			}
		}
		for _, special := range []bool{false, true} {
			for _, text := range texts {
				ids, _ := c.tok.EncodeWith(text, EncodeOptions{Special: special})
				if least := c.tok.Least(len(text), special); least > len(ids) {
					t.Errorf("%s: %.20q of %d bytes has %d tokens, %d are the least", name, text, len(text),
						len(ids), least)
				}
			}
		}
		if plain, special := c.tok.Least(1<<20, false) > 0, c.tok.Least(1<<20, true) > 0; plain != c.plain ||
			special != c.special {
			t.Errorf("%s: the bytes tell something: %t, with control tokens %t", name, plain, special)
		}
	}
}
