package convert

import (
	"bytes"
	"fmt"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/fuzztest"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
	"foretoken/models/tokenizer"
	"foretoken/spec/adapt"
)

// readers are the readers of files, by the kind of file. Each reads a file as a program does before it takes weights.
var readers = []struct {
	name string
	read func(name string, data []byte) error
}{
	{"config.json", func(name string, data []byte) error { _, _, err := readConfig(name, data); return err }},
	{"tokenizer.json", func(name string, data []byte) error {
		kv, err := tokenizer.MetadataFromJSON(name, data, nil)
		if err == nil {
			var b []byte
			if b, err = gguf.Bytes(kv, nil); err == nil {
				err = readVocabulary(name, b)
			}
		}
		return err
	}},
	{"tokenizer_config.json", func(name string, data []byte) error {
		const least = `{"model":{"type":"BPE","vocab":{"a":0},"byte_fallback":true}}`
		_, err := tokenizer.MetadataFromJSON(name, []byte(least), data)
		return err
	}},
	{"model.gguf", readVocabulary},
	{"model.safetensors", func(name string, data []byte) error {
		_, err := safetensors.Open(files.FromBytes(name, data))
		return err
	}},
	{"model.safetensors.index.json", func(name string, data []byte) error {
		_, err := safetensors.OpenSharded(files.FromBytes(name, data),
			func(string) (files.Source, error) { return nil, fmt.Errorf("none") })
		return err
	}},
	{"eagle3.json", func(name string, data []byte) error {
		_, err := readHead(name, data)
		return err
	}},
	{"calibration.json", func(name string, data []byte) error {
		_, err := adapt.ParseC2T(name, data)
		return err
	}},
}

func readVocabulary(name string, data []byte) error {
	f, err := gguf.Open(files.FromBytes(name, data))
	if err == nil {
		_, err = tokenizer.New(f)
	}
	return err
}

// amplified is the size to which FuzzReaders repeats the middle of its input: large enough that a reader which takes
// a multiple of a file shows beside fuzztest.Overhead.
const amplified = 4 << 20

// amplify writes head, then piece until the file has its size, then tail. A % in piece is replaced by a number, so that
// names and texts differ. A GGUF file or the header of safetensors gets counts that fit: the bytes of count in head.
func amplify(kind string, head, piece, tail []byte) []byte {
	size, n := amplified-len(head)-len(tail), 0
	var middle []byte
	if len(piece) > 0 && !bytes.Contains(piece, []byte("%")) {
		n = size/len(piece) + 1
		middle = bytes.Repeat(piece, n)
	}
	for ; len(piece) > 0 && len(middle) < size; n++ {
		middle = append(middle, bytes.ReplaceAll(piece, []byte("%"), fmt.Appendf(nil, "%07x", n))...)
	}
	count := []byte("\xff\xff\xff\xff\xff\xff\xff\x7f") // stands for the number of pieces
	var le [8]byte
	for i := range le {
		le[i] = byte(n >> (8 * i))
	}
	head = bytes.ReplaceAll(head, count, le[:])
	all := append(append(append([]byte{}, head...), middle...), tail...)
	if kind == "model.safetensors" {
		for i := range le {
			le[i] = byte(len(all) >> (8 * i))
		}
		all = append(append([]byte{}, le[:]...), all...)
	}
	return all
}

// FuzzReaders: reading a file takes no more memory than three times its size and fuzztest.Overhead, whatever is
// repeated in it. The worst ratio of an input is logged.
func FuzzReaders(f *testing.F) {
	text := func(s string) string { return fmt.Sprintf("%c\x00\x00\x00\x00\x00\x00\x00%s", len(s), s) }
	key := func(name string, kind byte) string { return text(name) + string([]byte{kind, 0, 0, 0}) }
	const many = "\xff\xff\xff\xff\xff\xff\xff\x7f"
	ggufHead := func(keys byte) string {
		return "GGUF\x03\x00\x00\x00" + text("")[:8] + string([]byte{keys, 0, 0, 0, 0, 0, 0, 0})
	}
	list := func(name string, kind byte) string { return key(name, 9) + string([]byte{kind, 0, 0, 0}) + many }
	spm := ggufHead(3) + key("tokenizer.ggml.model", 8) + text("llama") + list("tokenizer.ggml.tokens", 8)
	bpe := `{"model":{"type":"BPE","byte_fallback":true,"vocab":{`
	for _, seed := range []struct {
		kind              int
		head, piece, tail string
	}{
		{0, `{"a":[`, `[],`, `0]}`}, {0, `{"model_type":"llama"`, `,"x%":1`, `}`}, {0, `{"a":"`, `a`, `"}`},
		{1, bpe + `"a":0`, `,"%":1`, `}}}`}, {1, bpe + `"a":0},"merges":["a a"`, `,"a a"`, `]}}`},
		{1, bpe + `"a":0},"merges":["a a"`, `,"% a"`, `]}}`},
		{1, bpe + `"a":0},"merges":[["a","a"]`, `,["%","a"]`, `]}}`},
		{1, `{"model":{"type":"Unigram","unk_id":0,"vocab":[["a",0]`, `,["%",-1]`, `]}}`},
		{1, `{"model":{"vocab":{"a":0}},"added_tokens":[{"id":0,"content":"a"}`, `,{"id":1,"content":"%"}`, `]}`},
		{1, `{"model":{"vocab":{"a":0}},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{}`, `,{}`, `]}}`},
		{1, `{"model":{"vocab":{"a":0}},"post_processor":{"type":"TemplateProcessing","single":[{}`, `,{}`, `]}}`},
		{2, `{"chat_template":[{"name":"a","template":"b"}`, `,{"name":"%","template":"b"}`, `]}`},
		{2, `{"chat_template":"`, `a`, `"}`}, {2, `{"a":[0`, `,[]`, `]}`},
		{3, spm, text("a%bcdef"), key("a", 0) + "\x00"}, {3, spm, text(""), key("a", 0) + "\x00"},
		{3, ggufHead(1) + list("a", 0), "\x00", ""}, {3, ggufHead(1) + list("a", 4), "\x00\x00\x00\x00", ""},
		{3, "GGUF\x03\x00\x00\x00" + text("")[:8] + many, text("a%") + "\x00\x00\x00\x00\x01", ""},
		{4, `{"__metadata__":{"a":"b"`, `,"%":""`, `}}`}, {4, `{"__metadata__":{"a":"`, `a`, `"}}`},
		{4, `{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`,
			`,"%":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`, `}`},
		{4, `{"a":{"dtype":"F32","data_offsets":[0,0],"shape":[0`, `,1`, `]}}`},
		{5, `{"weight_map":{"a":"a"`, `,"%":"%"`, `}}`}, {5, `{"weight_map":{"a":"a"`, `,"%":"a"`, `}}`},
		{6, `{"architectures":["a"`, `,"a"`, `]}`}, {7, `{"kind":"c2t","version":1,"mean":[0`, `,0`, `]}`},
		{7, `{"kind":"c2t","version":1,"hidden":[[0]`, `,[0]`, `]}`}, {7, `{"a":[0`, `,{}`, `]}`},
	} {
		f.Add(seed.kind, []byte(seed.head), []byte(seed.piece), []byte(seed.tail))
	}
	f.Fuzz(func(t *testing.T, kind int, head, piece, tail []byte) {
		if kind < 0 || kind >= len(readers) || len(head)+len(piece)+len(tail) > 4000 {
			return
		}
		r := readers[kind]
		data := amplify(r.name, head, piece, tail)
		fuzztest.BoundTimes(t, 3, len(data), func() {
			if err := r.read(r.name, data); err != nil {
				fuzztest.Refusal(t, err, "")
			}
		})
	})
}
