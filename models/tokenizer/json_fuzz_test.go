package tokenizer

import (
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/fuzztest"
	"foretoken/models/gguf"
)

func FuzzTokenizerJSON(f *testing.F) {
	bpe := smallJSON(f)
	spm := spmJSON(f, smallSPM().file(f, "small.gguf"), norms(prepend, replace), nil, bosPost)
	config := []byte(`{"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": [{"name": "default", ` +
		`"template": "x"}]}`)
	f.Add(bpe, []byte{}, "hello world")
	f.Add(spm, config, "hello world")
	f.Add([]byte(`{"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["▁a", -1.5]]}, "pre_tokenizer": `+
		`{"type": "Metaspace", "replacement": "▁"}}`), []byte{}, "a b")
	f.Add([]byte(`{"model": {"vocab": {"a": 4000000}}, "pre_tokenizer": {"type": "ByteLevel"}}`),
		[]byte(`{"add_bos_token": true}`), "")
	f.Add([]byte(`{"added_tokens": [{"id": 3, "content": "<|x|>", "lstrip": true}], "model": {"vocab": {"a": 0, "b": `+
		`1, "ab": 2}, "merges": ["a b"]}, "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel"}}`),
		[]byte(`{}`), "ab <|x|> ba")
	// which a refusal would quote
	for _, field := range []string{`"added_tokens": [{"id": `, `"model": {"dropout": `, `"model": {"unk_id": `} {
		f.Add([]byte(`{`+field+`1`+strings.Repeat("0", 3000)+`}]}`), []byte{}, "")
		f.Add([]byte(`{`+field+`1`+strings.Repeat("0", 3000)+`}}`), []byte{}, "")
	}
	f.Fuzz(func(t *testing.T, data, config []byte, text string) {
		var kv []gguf.KV
		var err error
		fuzztest.Bound(t, len(data)+len(config), func() { kv, err = MetadataFromJSON("tokenizer.json", data, config) })
		if err != nil {
			checkJSONError(t, err)
			return
		}
		tokens := value(kv, keyTokens).([]string)
		if len(tokens) > 2048+2*len(data) {
			t.Fatalf("%d tokens of %d bytes", len(tokens), len(data))
		}
		b, err := gguf.Bytes(kv, nil)
		if err != nil {
			t.Fatalf("cannot be written: %v", err)
		}
		file, err := gguf.Open(files.FromBytes("converted.gguf", b))
		if err != nil {
			t.Fatal(err)
		}
		var tok *Tokenizer
		fuzztest.Bound(t, len(b), func() { tok, err = New(file) })
		if err != nil {
			fuzztest.Refusal(t, err, "tokenizer: ")
			return
		}
		checkTaken(t, tok, len(b), text)
	})
}
