package tokenizer

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// words has texts with the ids that llama.cpp gives them by every pre-tokenizer, over two vocabularies whose merges
// would make each text one token: the ids tell where words end. scripts/tokenizers.mjs writes it.
//
//go:embed testdata/words.json
var words []byte

type recorded struct {
	Texts      []string
	Names      []string
	Characters string // with byte tokens, the base of the vocabulary over characters
	Merges     struct{ Bytes, Characters string }
	Answers    []struct {
		IDs []string // each different answer
		Of  string   // which of them each name gives
	}
}

func readWords(t testing.TB) recorded {
	t.Helper()
	var r recorded
	if err := json.Unmarshal(words, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// vocabulary returns the fields of a vocabulary for a pre-tokenizer.
func (r *recorded) vocabulary(t testing.TB, pre string) fields {
	var tokens, lines []string
	var types []int32
	merges, model := r.Merges.Bytes, "gpt2"
	if findPre(pre).spell == byteAlphabet {
		for _, c := range alphabet {
			tokens, types = append(tokens, string(c)), append(types, int32(normal))
		}
	} else {
		merges = r.Merges.Characters
		for b := range 256 {
			tokens, types = append(tokens, byteText(byte(b))), append(types, int32(byteToken))
		}
		for _, c := range r.Characters {
			tokens, types = append(tokens, string(c)), append(types, int32(normal))
		}
	}
	if pre == "whitespace" {
		model = pre
	}
	for pair := range strings.SplitSeq(merges, ",") {
		var left, right int
		if _, err := fmt.Sscan(pair, &left, &right); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, tokens[left]+" "+tokens[right])
		tokens, types = append(tokens, tokens[left]+tokens[right]), append(types, int32(normal))
	}
	end := uint32(len(tokens))
	tokens, types = append(tokens, "<end>"), append(types, int32(control))
	return fields{keyModel: model, keyPre: pre, keyTokens: tokens, keyTypes: types, keyMerges: lines, keyBOS: end,
		keyEOS: end, keyAddBOS: false}
}

// apart has the number of texts that a pre-tokenizer cuts as the models' own tokenizer.json does where llama.cpp's
// version of the expression differs: it knows capitals of ASCII only and no marks (gpt-4o, tekken, kimi-k2, youtu and
// those after them), keeps digits together with the text before them (afmoe, tiny_aya), and takes white space beyond
// ASCII out of ranges (deepseek).
var apart = map[string]int{
	"gpt-4o": 2, "kanana2": 2, "llama4": 2, "minimax-m2": 2, "talkie": 2, "tekken": 2, "kimi-k2": 3, "youtu": 1,
	"tiny_aya": 5, "cohere2moe": 5, "afmoe": 2, "deepseek-coder": 1, "deepseek-llm": 1,
}

func TestWordsLikeLlamaCpp(t *testing.T) {
	r := readWords(t)
	if !slices.Equal(r.Names, preNames()) {
		t.Errorf("llama.cpp has the names %q", r.Names)
	}
	for n, name := range r.Names {
		tok := r.vocabulary(t, name).tokenizer(t)
		var differ []string
		for i, text := range r.Texts {
			which := 0
			if _, err := fmt.Sscan(strings.Fields(r.Answers[i].Of)[n], &which); err != nil {
				t.Fatal(err)
			}
			want := r.Answers[i].IDs[which]
			if got := strings.Trim(fmt.Sprint(tok.Encode(text, false)), "[]"); got != want {
				differ = append(differ, fmt.Sprintf("%q:\n got %s\nwant %s", text, got, want))
			}
		}
		t.Attr(name, fmt.Sprintf("%d texts of %d as llama.cpp", len(r.Texts)-len(differ), len(r.Texts)))
		if len(differ) != apart[name] {
			t.Errorf("%s differs in %d texts, want %d:\n%s", name, len(differ), apart[name],
				strings.Join(differ, "\n"))
		}
	}
}
