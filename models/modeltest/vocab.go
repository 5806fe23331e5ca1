package modeltest

import (
	"fmt"
	"strings"

	"foretoken/models/gguf"
)

// words make up the vocabularies: each word with a space before it, and each of its prefixes.
var words = strings.Fields(`
the and was said then they there with that this have had her his him she were what when where which would
could should little big day dog cat tree house park mother play friend happy sad run went came back look see
saw find found good very some many more time once upon water sun moon food like love want because after before
again home girl boy bird ball func return string error package import type struct range const value name file
read write open close length index map list first last next new old left right long short make take give keep
hold work turn start end light dark night morning people world children school garden river mountain animal
colour number letter question answer story picture music`)

// pieces returns n tokens as pairs: an earlier token, and the letter that it grows by.
func pieces(n int, space string) (parts [][2]string) {
	known := map[string]bool{}
	for _, word := range words {
		text := space + word
		for i := len(space) + 1; i <= len(text); i++ {
			if left, right := text[:i-1], text[i-1:i]; !known[text[:i]] && len(parts) < n {
				known[text[:i]] = true
				parts = append(parts, [2]string{left, right})
			}
		}
	}
	for a := 'a'; a <= 'z'; a++ {
		for b := 'a'; b <= 'z' && len(parts) < n; b++ {
			parts = append(parts, [2]string{string(a), string(b)})
		}
	}
	return parts
}

// sentencePiece is a vocabulary of n tokens: three control tokens, all bytes, ASCII and pieces of words.
func sentencePiece(n int) []gguf.KV {
	const normal, unknown, control, raw, space = 1, 2, 3, 6, "▁"
	var texts []string
	var kinds []int32
	var scores []float32
	add := func(text string, kind int32) {
		texts, kinds, scores = append(texts, text), append(kinds, kind), append(scores, -float32(len(texts)))
	}
	add("<unk>", unknown)
	add("<s>", control)
	add("</s>", control)
	for i := range 256 {
		add(fmt.Sprintf("<0x%02X>", i), raw)
	}
	add(space, normal)
	for c := '!'; c <= '~'; c++ {
		add(string(c), normal)
	}
	for _, p := range pieces(n-len(texts), space) {
		add(p[0]+p[1], normal)
	}
	return tokens("llama", "default", texts, kinds, []gguf.KV{{Key: "tokenizer.ggml.scores", Value: scores},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(1)}, {Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.unknown_token_id", Value: uint32(0)}, {Key: "tokenizer.ggml.add_bos_token", Value: true},
		{Key: "tokenizer.ggml.add_eos_token", Value: false}, {Key: "tokenizer.ggml.add_space_prefix", Value: true}})
}

// bpe is a vocabulary of n tokens: all bytes, pieces of words, and three control tokens.
func bpe(n int) []gguf.KV {
	const normal, control, space = 1, 3, "Ġ"
	var texts, merges []string
	for i, others := 0, 0; i < 256; i++ { // GPT-2's letters for bytes
		if i > ' ' && i < 0x7f || i > 0xa0 && i != 0xad {
			texts = append(texts, string(rune(i)))
		} else {
			texts = append(texts, string(rune(256+others)))
			others++
		}
	}
	for _, p := range pieces(n-3-len(texts), space) {
		texts, merges = append(texts, p[0]+p[1]), append(merges, p[0]+" "+p[1])
	}
	kinds := make([]int32, n)
	for i := range kinds {
		if kinds[i] = normal; i >= n-3 {
			kinds[i] = control
		}
	}
	texts = append(texts, "<|endoftext|>", "<|im_start|>", "<|im_end|>")
	text, end := uint32(n-3), uint32(n-1)
	return tokens("gpt2", "qwen2", texts, kinds, []gguf.KV{{Key: "tokenizer.ggml.merges", Value: merges},
		{Key: "tokenizer.ggml.bos_token_id", Value: text}, {Key: "tokenizer.ggml.eos_token_id", Value: end},
		{Key: "tokenizer.ggml.padding_token_id", Value: text}, {Key: "tokenizer.ggml.add_bos_token", Value: false}})
}

func tokens(model, pre string, texts []string, kinds []int32, more []gguf.KV) []gguf.KV {
	return append([]gguf.KV{{Key: "tokenizer.ggml.model", Value: model}, {Key: "tokenizer.ggml.pre", Value: pre},
		{Key: "tokenizer.ggml.tokens", Value: texts}, {Key: "tokenizer.ggml.token_type", Value: kinds}}, more...)
}
