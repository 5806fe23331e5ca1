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
