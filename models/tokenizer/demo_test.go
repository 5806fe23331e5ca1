//go:build !js

package tokenizer

import (
	"slices"
	"testing"

	"foretoken/models/demo"
	"foretoken/models/gguf"
	"foretoken/models/modeltest"
)

func demoFile(t testing.TB) *gguf.File {
	t.Helper()
	f, err := gguf.Open(demo.Target())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func demoTokenizer(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := New(demoFile(t))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestDemoVocabulary compares with the encoder that the pair was trained with:
// GPT-2's words, then the pair of lowest rank until there is none.
func TestDemoVocabulary(t *testing.T) {
	f := demoFile(t)
	tok, naive := demoTokenizer(t), newNaiveBPE(t, f, scanGPT2)
	texts := append([]string{
		"package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfmt.Println(\"hello, 世界\")\n}\n",
		"// Reader implements buffering for an io.Reader object.\ntype Reader struct {\n\tbuf          []byte\n" +
			"\tr, w         int\n}\n",
		"\tif err != nil {\n\t\treturn nil, fmt.Errorf(\"open %s: %w\", name, err)\n\t}\n",
		"for i := 0; i < 1<<20; i++ { x ^= 0xdeadbeef }",
	}, awkward...)
	for _, p := range modeltest.Prompts(t) {
		texts = append(texts, p.Prompt)
	}
	for _, text := range texts {
		got := tok.Encode(text, false)
		if want := naive.encode(text); !slices.Equal(got, want) {
			t.Errorf("%q:\n got %v\nwant %v", text, got, want)
		}
		if back := tok.Decode(got); back != text {
			t.Errorf("%q decodes to %q", text, back)
		}
		if ids := tok.Encode(text, true); ids[0] != 0 || !slices.Equal(ids[1:], got) {
			t.Errorf("%q does not begin with the end-of-text token", text)
		}
	}
	t.Logf("%d texts", len(texts))
}
