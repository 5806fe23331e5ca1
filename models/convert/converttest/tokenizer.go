package converttest

import (
	"cmp"
	"fmt"
	"slices"

	"foretoken/models/gguf"
)

// qwenPattern splits text as Qwen's tokenizers do; their tokenizer.json has it.
const qwenPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|` +
	` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// Tokenizer gives a file's tokenizer as tokenizer.json and tokenizer_config.json.
func Tokenizer(f *gguf.File) (tokenizerJSON, config []byte, err error) {
	kind, err := f.String("tokenizer.ggml.model")
	if err != nil {
		return nil, nil, err
	}
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		return nil, nil, err
	}
	types, err := f.Int32s("tokenizer.ggml.token_type")
	if err != nil {
		return nil, nil, err
	}
	vocab, added := map[string]int{}, []any{}
	for id, text := range tokens {
		const unknown, control, userDefined = 2, 3, 4
		switch types[id] {
		case unknown, control, userDefined:
			added = append(added, map[string]any{"id": id, "content": text, "single_word": false, "lstrip": false,
				"rstrip": false, "normalized": false, "special": types[id] != userDefined})
			if kind == "llama" {
				vocab[text] = id
			}
		default:
			vocab[text] = id
		}
	}
	model := map[string]any{"type": "BPE", "dropout": nil, "continuing_subword_prefix": "", "end_of_word_suffix": "",
		"vocab": vocab}
	all := map[string]any{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "model": model,
		"normalizer": nil, "pre_tokenizer": nil}
	set := map[string]any{"clean_up_tokenization_spaces": false}
	for _, s := range []string{"bos", "eos", "unknown"} {
		if id, err := f.Uint32("tokenizer.ggml." + s + "_token_id"); err == nil && int(id) < len(tokens) {
			set[map[string]string{"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token"}[s]] = tokens[id]
		}
	}
	for _, s := range []string{"add_bos_token", "add_eos_token"} {
		if b, err := f.Bool("tokenizer.ggml." + s); err == nil {
			set[s] = b
		}
	}
	switch kind {
	case "gpt2":
		if model["merges"], err = f.Strings("tokenizer.ggml.merges"); err != nil {
			return nil, nil, err
		}
		model["unk_token"], model["fuse_unk"], model["byte_fallback"] = nil, false, false
		all["pre_tokenizer"] = preTokenizer(f)
		all["decoder"] = map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false,
			"use_regex": false}
		set["tokenizer_class"] = "Qwen2Tokenizer"
	case "llama":
		scores, err := f.Float32s("tokenizer.ggml.scores")
		if err != nil {
			return nil, nil, err
		}
		model["merges"] = mergesOf(vocab, scores)
		model["unk_token"], model["fuse_unk"], model["byte_fallback"] = set["unk_token"], true, true
		all["normalizer"] = map[string]any{"type": "Sequence",
			"normalizers": []any{map[string]any{"type": "Prepend", "prepend": "▁"},
				map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"}}}
		all["decoder"] = map[string]any{"type": "Sequence", "decoders": []any{
			map[string]any{"type": "Replace", "pattern": map[string]any{"String": "▁"}, "content": " "},
			map[string]any{"type": "ByteFallback"}, map[string]any{"type": "Fuse"},
			map[string]any{"type": "Strip", "content": " ", "start": 1, "stop": 0}}}
		set["tokenizer_class"] = "LlamaTokenizer"
	default:
		return nil, nil, fmt.Errorf("converttest: %s: a tokenizer of kind %s", f.Name(), kind)
	}
	return marshal(all), marshal(set), nil
}

func preTokenizer(f *gguf.File) any {
	level := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}
	if pre, _ := f.StringOr("tokenizer.ggml.pre", ""); pre != "qwen2" {
		return level
	}
	level["use_regex"] = false
	return map[string]any{"type": "Sequence", "pretokenizers": []any{
		map[string]any{"type": "Split", "pattern": map[string]any{"Regex": qwenPattern}, "behavior": "Isolated",
			"invert": false}, level}}
}

// mergesOf lists the pairs that a SentencePiece vocabulary merges, best first, as the
// conversion in transformers (convert_slow_tokenizer) does.
func mergesOf(vocab map[string]int, scores []float32) []string {
	type merge struct {
		left, right string
		id          int
	}
	var all []merge
	for text, id := range vocab {
		for i := range text {
			if i == 0 {
				continue
			}
			_, l := vocab[text[:i]]
			_, r := vocab[text[i:]]
			if l && r {
				all = append(all, merge{text[:i], text[i:], id})
			}
		}
	}
	slices.SortFunc(all, func(a, b merge) int {
		return cmp.Or(cmp.Compare(scores[b.id], scores[a.id]), cmp.Compare(a.id, b.id),
			cmp.Compare(vocab[a.left], vocab[b.left]), cmp.Compare(vocab[a.right], vocab[b.right]))
	})
	merges := []string{}
	for _, m := range all {
		merges = append(merges, m.left+" "+m.right)
	}
	return merges
}
