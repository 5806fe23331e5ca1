package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// sized is a vocabulary like Qwen2.5's: text, 22 special tokens from the id
// `special` on, and padding up to size, under the names that padding has.
func sized(special, size int, padding string) fields {
	m := smallBPE()
	tokens, types := slices.Clone(m[keyTokens].([]string)), slices.Clone(m[keyTypes].([]int32))
	tokens, types = tokens[:len(tokens)-6], types[:len(types)-6]
	for id := len(tokens); id < special; id++ {
		tokens, types = append(tokens, fmt.Sprintf("word%d", id)), append(types, int32(normal))
	}
	for _, s := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		tokens, types = append(tokens, s), append(types, int32(control))
	}
	for i := range 19 {
		tokens, types = append(tokens, fmt.Sprintf("<|tool_%d|>", i)), append(types, int32(control))
	}
	for id := len(tokens); id < size; id++ {
		tokens, types = append(tokens, fmt.Sprintf(padding, id)), append(types, int32(unused))
	}
	delete(m, keyBOS)
	return m.with(keyTokens, tokens).with(keyTypes, types).with(keyEOS, uint32(special+2))
}

// TestPaddedPairs is about pairs like those of the Qwen2.5 family, whose vocabulary
// ends at 151,665 and is padded to 151,936 rows up to 3B and to 152,064 from 7B on.
func TestPaddedPairs(t *testing.T) {
	special := 1643
	end := special + 22
	open := func(m fields, name string) *Tokenizer {
		tok, err := New(m.file(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	target := open(sized(special, end+271, "[PAD%d]"), "target.gguf")
	with := func(m fields, id int, text string, k kind) fields {
		tokens, types := slices.Clone(m[keyTokens].([]string)), slices.Clone(m[keyTypes].([]int32))
		tokens[id], types[id] = text, int32(k)
		return m.with(keyTokens, tokens).with(keyTypes, types)
	}
	for name, c := range map[string]struct {
		draft fields
		want  string // "" if the two fit
	}{
		"the same size":           {sized(special, end+271, "[PAD%d]"), ""},
		"larger padding":          {sized(special, end+399, "[PAD%d]"), ""},
		"no padding":              {sized(special, end, ""), ""},
		"padding by another name": {sized(special, end+271, "<|unused_%d|>"), ""},
		"base model":              {sized(special, end, "").with(keyEOS, uint32(special)), ""},
		"tokens added":            {with(sized(special, end+271, "[PAD%d]"), end, "<think>", userDefined), ""},
		"text for padding": {with(sized(special, end+271, "[PAD%d]"), end+7, "word", normal),
			fmt.Sprintf("token %d is \"word\" in the second and missing", end+7)},
		"text beyond the end": {with(sized(special, end+399, "[PAD%d]"), end+390, "word", normal),
			fmt.Sprintf("token %d is \"word\" in the second and missing", end+390)},
		"text among the special ones": {with(sized(special, end, ""), special+5, "word", normal),
			fmt.Sprintf("token %d is \"<|tool_2|>\" in the first and \"word\" in the second", special+5)},
		"another end": {sized(special, end, "").with(keyEOS, uint32(special+5)), "EOS is"},
		"BOS added": {
			sized(special, end, "").with(keyBOS, uint32(special)).with(keyAddBOS, true), keyAddBOS},
	} {
		draft := open(c.draft, "draft.gguf")
		for _, pair := range [][2]*Tokenizer{{target, draft}, {draft, target}} {
			err := Compatible(pair[0], pair[1])
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s: %v", name, err)
			case c.want != "" && err == nil:
				t.Errorf("%s: no error", name)
			case err != nil && pair[0] == target && !strings.Contains(err.Error(), c.want):
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
	}
	if !testing.Short() {
		small, large := open(sized(151643, 151936, "[PAD%d]"), "0.5B.gguf"),
			open(sized(151643, 152064, "[PAD%d]"), "7B.gguf")
		if err := Compatible(small, large); err != nil {
			t.Error(err)
		}
	}
	llama := smallBPE().with(keyAddBOS, true)
	err := Compatible(open(llama, "a.gguf"), open(llama.with(keyBOS, uint32(5)), "b.gguf"))
	if err == nil || !strings.Contains(err.Error(), "BOS is") {
		t.Errorf("another BOS: %v", err)
	}
}

func TestSeveralEnds(t *testing.T) {
	m := smallBPE()
	tok := m.with(keyEndIDs, []int32{5, 7}).with("tokenizer.ggml.eot_token_id", uint32(9)).tokenizer(t)
	for id, want := range map[int32]bool{5: true, 7: true, 9: true, tok.eos: true,
		idOf(tok, "<|endoftext|>"): true, 6: false} {
		if tok.EOG(id) != want {
			t.Errorf("token %d ends generation: %t", id, !want)
		}
	}
	if _, err := New(m.with(keyEndIDs, make([]int32, MaxEnds+1)).file(t, "small.gguf")); err == nil ||
		!strings.Contains(err.Error(), "65 tokens end a text, at most 64") {
		t.Error(err)
	}
	if _, err := New(m.with(keyEndIDs, []int32{1 << 20}).file(t, "small.gguf")); err == nil ||
		!strings.Contains(err.Error(), keyEndIDs) {
		t.Error(err)
	}
}

func TestSuppressed(t *testing.T) {
	m := smallBPE()
	if got := m.with(keyNever, []int32{7, 5}).tokenizer(t).Suppressed(); !slices.Equal(got, []int32{7, 5}) {
		t.Errorf("%v are ruled out", got)
	}
	for want, ids := range map[string][]int32{"257 tokens are ruled out, at most 256": make([]int32, maxSuppressed+1),
		keyNever + ": id -1": {-1}, keyNever + ": id 1048576": {1 << 20}} {
		if _, err := New(m.with(keyNever, ids).file(t, "small.gguf")); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
