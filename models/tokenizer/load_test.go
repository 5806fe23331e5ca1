package tokenizer

import (
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"foretoken/internal/files"
	"foretoken/models/gguf"
)

// largeBPE is a byte-level vocabulary of n tokens, each but the bytes made by a merge of two before it.
func largeBPE(n int) fields {
	r := rand.New(rand.NewSource(1))
	var tokens, merges []string
	known := map[string]bool{}
	for _, c := range alphabet {
		tokens = append(tokens, string(c))
		known[string(c)] = true
	}
	for len(tokens) < n-3 {
		a, b := tokens[r.Intn(len(tokens))], tokens[r.Intn(min(len(tokens), 2000))]
		if len(a)+len(b) > 24 || known[a+b] {
			continue
		}
		known[a+b] = true
		tokens, merges = append(tokens, a+b), append(merges, a+" "+b)
	}
	types := slices.Repeat([]int32{int32(normal)}, len(tokens))
	for _, s := range []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"} {
		tokens, types = append(tokens, s), append(types, int32(control))
	}
	return fields{keyModel: "gpt2", keyPre: "qwen2", keyTokens: tokens, keyTypes: types, keyMerges: merges,
		keyEOS: uint32(n - 1)}
}

func largeFile(t testing.TB, n int) ([]byte, *gguf.File) {
	t.Helper()
	m := largeBPE(n)
	var kv []gguf.KV
	for k, v := range m {
		kv = append(kv, gguf.KV{Key: k, Value: v})
	}
	b, err := gguf.Bytes(kv, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes("large.gguf", b))
	if err != nil {
		t.Fatal(err)
	}
	return b, f
}

// TestLargeVocabulary bounds the time to load a vocabulary of Qwen2.5's size
// by what a quadratic method would exceed a hundredfold.
func TestLargeVocabulary(t *testing.T) {
	n := 151_936
	if testing.Short() {
		n /= 16
	}
	b, f := largeFile(t, n)
	begin := time.Now()
	tok, err := New(f)
	took := time.Since(begin)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("New for %d tokens and as many merges: %v", n, took)
	if took > 5*time.Minute {
		t.Errorf("New took %v", took)
	}
	begin = time.Now()
	if _, err := gguf.Open(files.FromBytes("large.gguf", b)); err != nil {
		t.Fatal(err)
	}
	t.Logf("gguf.Open: %v", time.Since(begin))
	begin = time.Now()
	if err := Compatible(tok, tok); err != nil {
		t.Error(err)
	}
	t.Logf("Compatible: %v", time.Since(begin))
	text := strings.Repeat("some words of a text, 123! ", 400)
	begin = time.Now()
	ids := tok.Encode(text, false)
	t.Logf("Encode of %d bytes: %v", len(text), time.Since(begin))
	if tok.Decode(ids) != text {
		t.Error("the text does not come back")
	}
	data := byteLevelJSON(t, f, byteLevel(true), false, true)
	begin = time.Now()
	kv, err := MetadataFromJSON("tokenizer.json", data, nil)
	took = time.Since(begin)
	if err != nil || len(value(kv, keyTokens).([]string)) != n {
		t.Fatal(err)
	}
	t.Logf("MetadataFromJSON of %d MB: %v", len(data)>>20, took)
	if took > 5*time.Minute {
		t.Errorf("MetadataFromJSON took %v", took)
	}
}

func BenchmarkNew151k(b *testing.B) {
	_, f := largeFile(b, 151_936)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New(f); err != nil {
			b.Fatal(err)
		}
	}
}
