package tokenizer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
)

type object = map[string]any

// byteLevelJSON writes the tokenizer.json that a byte-level vocabulary's metadata could have come from.
func byteLevelJSON(t testing.TB, f *gguf.File, pre any, ignoreMerges, pairs bool) []byte {
	t.Helper()
	tokens, err := f.Strings(keyTokens)
	if err != nil {
		t.Fatal(err)
	}
	types, err := f.Int32s(keyTypes)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := f.Strings(keyMerges)
	if err != nil {
		t.Fatal(err)
	}
	vocab, added := object{}, []object{}
	for id, s := range tokens {
		switch kind(types[id]) {
		case normal:
			vocab[s] = id
		case unused: // left out: the converter fills them in
		default:
			added = append(added, object{"id": id, "content": s, "special": kind(types[id]) == control, "lstrip": false,
				"rstrip": false, "normalized": false, "single_word": false})
		}
	}
	var merges []any
	for _, line := range lines {
		if pairs {
			at := strings.Index(line[1:], " ") + 1
			merges = append(merges, []string{line[:at], line[at+1:]})
		} else {
			merges = append(merges, line)
		}
	}
	return marshal(t, object{"version": "1.0", "added_tokens": added, "normalizer": nil, "pre_tokenizer": pre,
		"post_processor": object{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false},
		"decoder":        object{"type": "ByteLevel"},
		"model": object{"type": "BPE", "dropout": nil, "unk_token": nil, "byte_fallback": false,
			"ignore_merges": ignoreMerges, "vocab": vocab, "merges": merges}})
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sequence(parts ...object) object { return object{"type": "Sequence", "pretokenizers": parts} }

func splitBy(regex string) object {
	return object{"type": "Split", "pattern": object{"Regex": regex}, "behavior": "Isolated", "invert": false}
}

func byteLevel(words bool) object {
	return object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": words}
}

var digits = object{"type": "Digits", "individual_digits": true}

func vocabFile(t testing.TB, name string) *gguf.File {
	t.Helper()
	src, err := files.Open(vocabPath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Close() })
	f, err := gguf.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// fromJSON makes a tokenizer of the two files.
func fromJSON(t testing.TB, tokenizerJSON, config []byte) (*Tokenizer, []gguf.KV) {
	t.Helper()
	kv, err := MetadataFromJSON("tokenizer.json", tokenizerJSON, config)
	if err != nil {
		t.Fatal(err)
	}
	b, err := gguf.Bytes(kv, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes("converted.gguf", b))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok, kv
}

func value(kv []gguf.KV, key string) any {
	for _, e := range kv {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// TestVocabulariesFromJSON writes published byte-level vocabularies as
// tokenizer.json and wants the ids that llama.cpp gives with the GGUF files.
func TestVocabulariesFromJSON(t *testing.T) {
	for _, c := range []struct {
		name  string
		pre   object
		want  string
		pairs bool
	}{
		{"gpt-2", byteLevel(true), "gpt-2", false},
		{"starcoder", sequence(digits, byteLevel(true)), "smollm", true},
		{"deepseek-coder", sequence(splitBy("[\r\n]"), splitBy(`\s?\p{L}+`), splitBy(`\s?\p{P}+`),
			splitBy("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), digits, byteLevel(false)), "deepseek-coder", true},
	} {
		if testing.Short() && c.name != "deepseek-coder" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			f := vocabFile(t, c.name)
			special, err := f.Uint32(keyBOS)
			if err != nil {
				t.Fatal(err)
			}
			tokens, _ := f.Strings(keyTokens)
			config := marshal(t, object{"bos_token": tokens[special], "eos_token": object{"content": tokens[special]},
				"add_bos_token": false})
			tok, kv := fromJSON(t, byteLevelJSON(t, f, c.pre, false, c.pairs), config)
			if got := value(kv, keyPre); got != c.want {
				t.Errorf("pre-tokenizer %v, want %s", got, c.want)
			}
			texts, want := vocabCases(t, c.name)
			for i, text := range texts {
				if got := tok.Encode(text, false); !slices.Equal(got, want[i]) {
					t.Errorf("%q:\n got %v\nwant %v", text, got, want[i])
				}
			}
			if bos, _ := tok.BOS(); bos != int32(special) || tok.AddBOS() {
				t.Errorf("BOS %d, added: %t", bos, tok.AddBOS())
			}
		})
	}
}

// spmJSON writes the tokenizer.json that Transformers makes of a SentencePiece
// vocabulary: every way to put a token together, in order of its score.
func spmJSON(t testing.TB, f *gguf.File, norm, pre, post any) []byte {
	t.Helper()
	tokens, err := f.Strings(keyTokens)
	if err != nil {
		t.Fatal(err)
	}
	scores, err := f.Float32s(keyScores)
	if err != nil {
		t.Fatal(err)
	}
	types, err := f.Int32s(keyTypes)
	if err != nil {
		t.Fatal(err)
	}
	ids, vocab, added := map[string]int{}, object{}, []object{}
	for id, s := range tokens {
		ids[s], vocab[s] = id, id
		if k := kind(types[id]); k == control || k == userDefined || k == unknown {
			added = append(added, object{"id": id, "content": s, "special": k != userDefined})
		}
	}
	order := make([]int, 0, len(tokens))
	for id := range tokens {
		if kind(types[id]) == normal {
			order = append(order, id)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	merges := [][2]string{}
	for _, id := range order {
		s := tokens[id]
		for at := range s {
			_, left := ids[s[:at]]
			_, right := ids[s[at:]]
			if at > 0 && left && right {
				merges = append(merges, [2]string{s[:at], s[at:]})
			}
		}
	}
	return marshal(t, object{"added_tokens": added, "normalizer": norm, "pre_tokenizer": pre, "post_processor": post,
		"model": object{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": vocab,
			"merges": merges}})
}

var (
	prepend = object{"type": "Prepend", "prepend": "▁"}
	replace = object{"type": "Replace", "pattern": object{"String": " "}, "content": "▁"}
	bosPost = object{"type": "TemplateProcessing", "single": []object{
		{"SpecialToken": object{"id": "<s>", "type_id": 0}}, {"Sequence": object{"id": "A", "type_id": 0}}}}
)

func norms(parts ...object) object { return object{"type": "Sequence", "normalizers": parts} }

func metaspace(scheme string) object {
	return object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false}
}

// TestSentencePieceFromJSON does the same for Llama's vocabulary, which TinyLlama and Mistral share.
func TestSentencePieceFromJSON(t *testing.T) {
	f := vocabFile(t, "llama-spm")
	texts, want := vocabCases(t, "llama-spm")
	original, err := f.Float32s(keyScores)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ norm, pre any }{
		"legacy": {norms(prepend, replace), nil}, "metaspace": {nil, metaspace("first")},
	} {
		if testing.Short() && name != "legacy" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			tok, kv := fromJSON(t, spmJSON(t, f, c.norm, c.pre, bosPost),
				marshal(t, object{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))
			for i, text := range texts {
				if got := tok.Encode(text, false); !slices.Equal(got, want[i]) {
					t.Errorf("%q:\n got %v\nwant %v", text, got, want[i])
				}
			}
			bos, _ := tok.BOS()
			if eos, _ := tok.EOS(); bos != 1 || eos != 2 || !tok.AddBOS() || value(kv, keyAddEOS) != false ||
				value(kv, keyModel) != "llama" {
				t.Errorf("BOS %d, EOS %d, add BOS %t, add EOS %v, %v", bos, eos, tok.AddBOS(), value(kv, keyAddEOS),
					value(kv, keyModel))
			}
			// The order of the scores is the original one. Runs of spaces were added
			// to the vocabulary by hand, below all others.
			scores := value(kv, keyScores).([]float32)
			var order []int
			for id, score := range original {
				if score != -1e9 && strings.Count(tok.TokenText(int32(id)), "") > 2 && tok.kinds[id] == normal {
					order = append(order, id)
				}
			}
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(original[b], original[a]) })
			for i := 1; i < len(order); i++ {
				if scores[order[i]] >= scores[order[i-1]] {
					t.Fatalf("%q has the score %v, %q before it %v", tok.TokenText(int32(order[i])), scores[order[i]],
						tok.TokenText(int32(order[i-1])), scores[order[i-1]])
				}
			}
			t.Logf("%d of %d scores are in the original order", len(order), tok.VocabSize())
		})
	}
	if testing.Short() {
		return
	}
	tok, _ := fromJSON(t, spmJSON(t, f, replace, nil, nil),
		marshal(t, object{"bos_token": "<s>", "add_bos_token": true}))
	if got := tok.Encode("Hello", true); got[0] != 1 || tok.TokenText(got[1]) != "Hello" {
		t.Errorf("without a space before it, Hello is %v", got)
	}
	// The two merges have the same text with a space between their tokens.
	tok, _ = fromJSON(t, changed(t, spmJSON(t, f, replace, nil, nil), func(j object) {
		m := j["model"].(object)
		vocab := m["vocab"].(object)
		for _, token := range []string{"q b", "b 7", "q b7", "qb 7"} {
			vocab[token] = f.Count(keyTokens) + uint64(len(vocab))
		}
		m["merges"] = append(m["merges"].([]any), []any{"q b", "7"}, []any{"q", "b 7"})
	}), marshal(t, object{"bos_token": "<s>"}))
	if id, ok := tok.ids.id("qb 7"); !ok || tok.kinds[id] != normal {
		t.Errorf("a token of merges with spaces is %d, %t", id, ok)
	}
}

// changed decodes JSON, changes it and encodes it again.
func changed(t testing.TB, data []byte, change func(j object)) []byte {
	t.Helper()
	var j object
	if err := json.Unmarshal(data, &j); err != nil {
		t.Fatal(err)
	}
	change(j)
	return marshal(t, j)
}

func smallJSON(t testing.TB) []byte {
	return byteLevelJSON(t, smallBPE().file(t, "small.gguf"),
		sequence(splitBy(qwen2Original), byteLevel(false)), false, true)
}

// The expressions as tokenizer.json files of the models have them.
const (
	qwen2Original = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ` +
		`?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Original = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ` +
		`?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Original = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ` +
		`?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenOriginal = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|` +
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ` +
		`?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	gpt4oOriginal = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|` +
		`'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|` +
		`'m|'ll|'d)?|\p{N}{1,3}| ` +
		`?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

func TestPreTokenizersFromJSON(t *testing.T) {
	removed := object{"type": "Split", "pattern": object{"Regex": gpt4oOriginal}, "behavior": "Removed", "invert": true}
	for _, c := range []struct {
		pre    any
		ignore bool
		want   string // a name, or part of the error
	}{
		{sequence(splitBy(qwen2Original), byteLevel(false)), false, "qwen2"},
		{sequence(splitBy(llama3Original), byteLevel(false)), true, "llama-bpe"},
		{sequence(splitBy(llama3Original), byteLevel(false)), false, "smaug-bpe"},
		{sequence(splitBy(qwen35Original), byteLevel(false)), false, "qwen35"},
		{sequence(splitBy(tekkenOriginal), byteLevel(false)), false, "tekken"},
		{sequence(splitBy(tekkenOriginal), byteLevel(false)), true, "tekken"},
		{sequence(splitBy(gpt4oOriginal), byteLevel(false)), false, "gpt-4o"},
		{sequence(removed, byteLevel(false)), false, "gpt-4o"},
		{object{"type": "ByteLevel", "add_prefix_space": false}, false, "gpt-2"},
		{sequence(digits, byteLevel(true)), false, "smollm"},
		{sequence(splitBy(qwen2Original), byteLevel(false)), true,
			"ignore_merges: true is not what the pre-tokenizer qwen2"},
		{sequence(splitBy(`\p{Greek}+ odd`), byteLevel(false)), false, `no known pre-tokenizer cuts by \p{Greek}+ odd`},
		{byteLevel(false), false, "nothing but bytes"},
		{object{"type": "ByteLevel", "add_prefix_space": true}, false, "add_prefix_space"},
		{sequence(object{"type": "Digits"}, byteLevel(true)), false, "Digits in runs"},
		{sequence(object{"type": "Split", "pattern": object{"String": " "}, "behavior": "Isolated"}, byteLevel(true)),
			false, "without a Regex"},
		{sequence(object{"type": "Split", "pattern": object{"Regex": " "}, "behavior": "MergedWithNext"},
			byteLevel(true)), false, `"MergedWithNext"`},
		{sequence(byteLevel(true), digits), false, "after ByteLevel"},
		{object{"type": "Whitespace"}, false, `"Whitespace" is not supported`},
		{nil, false, "ByteLevel is missing"},
	} {
		data := changed(t, smallJSON(t), func(j object) {
			j["pre_tokenizer"] = c.pre
			j["model"].(object)["ignore_merges"] = c.ignore
		})
		kv, err := MetadataFromJSON("tokenizer.json", data, nil)
		if err != nil {
			checkJSONError(t, err)
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			continue
		}
		if got := value(kv, keyPre); got != c.want {
			t.Errorf("%v gives %v, want %s", c.pre, got, c.want)
		}
	}
}

func checkJSONError(t testing.TB, err error) {
	t.Helper()
	msg := err.Error()
	if !strings.HasPrefix(msg, "tokenizer: tokenizer.json: ") || strings.Contains(msg, "\n") || len(msg) > 1200 {
		t.Errorf("error %q", msg)
	}
}

func TestFieldsFromJSON(t *testing.T) {
	data := changed(t, smallJSON(t), func(j object) {
		added := j["added_tokens"].([]any)
		added[3].(object)["lstrip"] = true
		added[4].(object)["rstrip"] = true
		j["added_tokens"] = append(added, object{"id": 300, "content": "<|looks_special|>", "special": false})
		j["normalizer"] = object{"type": "NFC"}
		j["post_processor"] = object{"type": "Sequence",
			"processors": []object{{"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": []object{
				{"SpecialToken": object{"id": "<|endoftext|>"}}, {"Sequence": object{}},
				{"SpecialToken": object{"id": "<|im_end|>"}}}}}}
	})
	config := marshal(t, object{"eos_token": "<|im_end|>", "pad_token": nil, "chat_template": []object{
		{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}}})
	tok, kv := fromJSON(t, data, config)
	n := len(smallBPE()[keyTokens].([]string))
	if tok.VocabSize() != 301 || tok.TokenText(int32(n)) != fmt.Sprintf("[PAD%d]", n) || tok.kinds[n] != unused ||
		!tok.Special(300) {
		t.Errorf("%d tokens, token %d is %q", tok.VocabSize(), n, tok.TokenText(int32(n)))
	}
	if !tok.addBOS || !tok.addEOS || tok.TokenText(tok.bos) != "<|endoftext|>" ||
		tok.TokenText(tok.eos) != "<|im_end|>" {
		t.Error(tok.addBOS, tok.addEOS, tok.bos, tok.eos)
	}
	if got := texts(tok, tok.Encode("hello \n<think> \n hello\t<thinking> \n hello",
		false)); got != "hello|<think>|Ġ|Ċ|Ġ|hello|ĉ|<thinking>|hello" {
		t.Error(got)
	}
	if value(kv, keyTemplate) != "D" || value(kv, keyTemplate+".tool_use") != "T" ||
		!slices.Equal(value(kv, keyTemplates).([]string), []string{"tool_use"}) {
		t.Error("chat templates")
	}
	for config, want := range map[string]any{`""`: nil, `"\n \t"`: nil, `null`: nil, `[]`: nil,
		`[{"name": "default", "template": " "}]`:                                nil,
		`[{"name": "default", "template": ""}, {"name": "x", "template": "X"}]`: "X"} {
		_, kv := fromJSON(t, smallJSON(t), []byte(`{"chat_template": `+config+`}`))
		if got := value(kv, keyTemplate); got != want {
			t.Errorf("chat_template %s gives %v, want %v", config, got, want)
		}
	}
	if _, kv := fromJSON(t, smallJSON(t), []byte(`{"bos_token": "<|endoftext|>", "add_bos_token": `+
		`true, "chat_template": "X"}`)); value(kv, keyTemplate) != "X" || value(kv, keyAddBOS) != true {
		t.Error("one template, BOS by the configuration")
	}
	if _, kv := fromJSON(t, smallJSON(t), nil); value(kv, keyTemplate) != nil || value(kv, keyAddBOS) != false ||
		value(kv, keyBOS) != nil {
		t.Error("no configuration")
	}
}

func TestJSONErrors(t *testing.T) {
	good := smallJSON(t)
	spm := spmJSON(t, smallSPM().file(t, "small.gguf"), norms(prepend, replace), nil, nil)
	model := func(key string, v any) func(object) {
		return func(j object) { j["model"].(object)[key] = v }
	}
	top := func(key string, v any) func(object) { return func(j object) { j[key] = v } }
	post := func(parts ...object) func(object) {
		return top("post_processor", object{"type": "TemplateProcessing", "single": parts})
	}
	for name, c := range map[string]struct {
		from   []byte
		change func(j object)
		config string
		want   string
	}{
		"no model":   {good, func(j object) { delete(j, "model") }, "", "model: missing"},
		"model type": {good, model("type", "WordPiece"), "", `"WordPiece" is not supported`},
		"vocabulary": {good, model("vocab", []int{1}), "", "model.vocab"},
		"empty": {good, func(j object) { model("vocab", object{})(j); j["added_tokens"] = nil },
			"", "no tokens"},
		"negative id":    {good, model("vocab", object{"a": -1}), "", "the id of \"a\" is -1"},
		"large id":       {good, model("vocab", object{"a": 1 << 40}), "", "want 0 to 4194303"},
		"id of a word":   {good, model("vocab", object{"a": "b"}), "", "no integer"},
		"id of a part":   {good, model("vocab", object{"a": 1.5}), "", "no integer"},
		"merge of words": {good, model("merges", []any{"a b", 5}), "", "merge 1 is neither"},
		"merges":         {good, model("merges", 5), "", "merges: want a list"},
		"vocab":          {good, model("vocab", 5), "", "want an object"},
		"holes":          {good, model("vocab", object{"a": 4_000_000}), "", "there is an id 4000000, but only"},
		"same id":        {good, model("vocab", object{"a": 1, "b": 1}), "", `"a" and "b" both have the id 1`},
		"added id":       {good, top("added_tokens", []object{{"id": 0, "content": "<|x|>"}}), "", "the id 0 is of"},
		"added twice": {good, top("added_tokens", []object{{"id": 400, "content": "he"}}), "",
			`"he" has the id 400 here and 256`},
		"added nothing": {good, top("added_tokens", []object{{"id": 400, "content": ""}}), "", "added_tokens"},
		"single word": {good, top("added_tokens", []object{{"id": 280, "content": "x y", "single_word": true}}), "",
			"single word"},
		"merge":          {good, model("merges", []string{"ab"}), "", "is not two tokens with"},
		"merge of three": {good, model("merges", []any{[]string{"a", "b", "c"}}), "", "merge 0 is not two tokens"},
		"merge of spaces": {good, model("merges", []any{[]string{"a b", "c"}}), "",
			`merge 0 of "a b" and "c" has a token with a space`},
		"merge of none": {good, model("merges", []any{[]string{"", "c"}}), "", "merge 0 \" c\" has an empty token"},
		"dropout":       {good, model("dropout", 0.1), "", "model.dropout"},
		"suffix":        {good, model("end_of_word_suffix", "</w>"), "", "marks of continued"},
		"normalizer":    {good, top("normalizer", object{"type": "Lowercase"}), "", `normalizer: "Lowercase"`},
		"no bytes": {good, func(j object) { j["pre_tokenizer"], j["decoder"] = nil, nil }, "",
			"without byte_fallback"},
		"post-processor": {good, top("post_processor", object{"type": "BertProcessing"}), "", `"BertProcessing"`},
		"two before": {good, post(object{"SpecialToken": object{"id": "a"}},
			object{"SpecialToken": object{"id": "b"}}), "", "more than one token"},
		"unknown before": {good, post(object{"SpecialToken": object{"id": "<s>"}}, object{"Sequence": object{}}), "",
			`"<s>" is not in the vocabulary`},
		"another before": {good, post(object{"SpecialToken": object{"id": "<|im_end|>"}},
			object{"Sequence": object{}}), `{"bos_token": "<|endoftext|>"}`, "is not the token of " + keyBOS},
		"configuration":  {good, func(object) {}, `{"bos_token": 5}`, "tokenizer_config.json"},
		"template":       {good, func(object) {}, `{"chat_template": 5}`, "chat_template"},
		"bos":            {good, func(object) {}, `{"bos_token": "<none>"}`, `"<none>" is not in the vocabulary`},
		"spm normalizer": {spm, top("normalizer", object{"type": "NFKC"}), "", `"NFKC" is not supported here`},
		"spm pre": {spm, top("pre_tokenizer", object{"type": "Whitespace"}), "",
			`"Whitespace" is not supported here`},
		"spm no spaces": {spm, top("normalizer", nil), "", "nothing writes spaces as ▁"},
		"spm split": {spm, func(j object) {
			j["normalizer"] = nil
			m := metaspace("first")
			m["split"] = true
			j["pre_tokenizer"] = m
		}, "", "goes over one"},
		"spm merge": {spm, model("merges", [][2]string{{"q", "z"}}), "",
			"needs tokens that the vocabulary does not have"},
		"spm missing way": {spm, func(j object) { m := j["model"].(object); m["merges"] = m["merges"].([]any)[1:] }, "",
			"is not listed"},
		"spm order": {spm, func(j object) {
			m := j["model"].(object)
			l := m["merges"].([]any)
			m["vocab"].(object)["aaa"], m["vocab"].(object)["aab"] = 401, 402
			m["merges"] = append(l, []any{"aa", "a"}, []any{"aa", "b"}, []any{"a", "aa"})
		}, "", "scores cannot say that"},
		"merge twice": {spm, func(j object) {
			m := j["model"].(object)
			l := m["merges"].([]any)
			m["merges"] = append(l, l[0])
		}, "", `are both "▁ t"`},
		"spm long token": {spm, func(j object) {
			j["model"].(object)["vocab"].(object)[strings.Repeat("x", 300)] = 400
		}, "", "at most 256"},
		"unigram vocab": {spm, func(j object) { model("type", "Unigram")(j) }, "", "want a list of texts with scores"},
		"unigram score": {spm, func(j object) {
			model("type", "Unigram")(j)
			model("vocab", []any{[]any{"a", "x"}})(j)
		}, "", "the score of token 0"},
		"unigram twice": {spm, func(j object) {
			model("type", "Unigram")(j)
			model("vocab",
				[]any{[]any{"a", 0}, []any{"a", 0}})(j)
		}, "", `tokens 0 and 1 are both "a"`},
	} {
		_, err := MetadataFromJSON("tokenizer.json", changed(t, c.from, c.change), []byte(c.config))
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		checkJSONError(t, err)
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	for _, text := range []string{"", "{", "[]", "null", `{"model": 5}`, strings.Repeat("[", 100_000)} {
		_, err := MetadataFromJSON("tokenizer.json", []byte(text), nil)
		if err == nil {
			t.Errorf("%.20q: no error", text)
			continue
		}
		checkJSONError(t, err)
	}
}
