package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
	"foretoken/models/modeltest"
)

// vocabPath is a vocabulary of llama.cpp's own tests; .inp and .out files beside it have texts and their ids. They are
// third-party data, so they are not in the repository.
func vocabPath(t testing.TB, name string) string {
	t.Helper()
	if file := bundled(name); len(bundledNames(file)) == 1 {
		return file
	}
	return modeltest.Shared(t, "testdata", "vocab", "ggml-vocab-"+name+".gguf")
}

var vocabNames = []string{"deepseek-coder", "falcon", "gpt-2", "llama-spm", "phi-3", "starcoder"}

// bundled is a vocabulary that comes with llama.cpp, where scripts/tokenizers.mjs puts all of them.
func bundled(name string) string {
	return filepath.Join("..", "..", "build", "llama", "vocab", "ggml-vocab-"+name+".gguf")
}

// bundledNames lists the vocabularies of a pattern.
func bundledNames(pattern string) (names []string) {
	all, _ := filepath.Glob(pattern) // the only error is a bad pattern
	for _, file := range all {
		name := strings.TrimPrefix(filepath.Base(file), "ggml-vocab-")
		names = append(names, strings.TrimSuffix(name, ".gguf"))
	}
	return names
}

// TestBundledVocabularies reads every vocabulary that comes with llama.cpp: none exceeds a bound.
func TestBundledVocabularies(t *testing.T) {
	names := bundledNames(bundled("*"))
	if len(names) == 0 {
		t.Skip("build/llama/vocab is missing: make report REPORT=tokenizers fills it")
	}
	texts := 0
	for _, name := range names {
		if slices.Contains(vocabNames, name) {
			continue // TestVocabularyFiles
		}
		t.Run(name, func(t *testing.T) {
			tok := readVocab(t, name)
			if _, err := os.Stat(bundled(name) + ".inp"); err == nil {
				texts += checkVocab(t, name, tok)
			}
		})
	}
	t.Logf("%d texts give the expected ids", texts)
}

var vocabs = map[string]*Tokenizer{}

func loadVocab(t testing.TB, name string) *Tokenizer {
	t.Helper()
	if vocabs[name] == nil {
		vocabs[name] = readVocab(t, name)
	}
	return vocabs[name]
}

func readVocab(t testing.TB, name string) *Tokenizer {
	t.Helper()
	src, err := files.Open(vocabPath(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	f, err := gguf.Open(src)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// vocabCases reads the texts and the ids that llama.cpp gives for them.
func vocabCases(t testing.TB, name string) (texts []string, ids [][]int32) {
	t.Helper()
	base := vocabPath(t, name)
	in, err := os.ReadFile(base + ".inp")
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(base + ".out")
	if err != nil {
		t.Fatal(err)
	}
	texts = strings.Split(strings.TrimSuffix(string(in), "\n__ggml_vocab_test__\n"), "\n__ggml_vocab_test__\n")
	for line := range strings.Lines(string(out)) {
		var row []int32
		for _, w := range strings.Fields(line) {
			id, err := strconv.Atoi(w)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, int32(id))
		}
		ids = append(ids, row)
	}
	if len(texts) != len(ids) {
		t.Fatalf("%d texts, %d lines of ids", len(texts), len(ids))
	}
	return texts, ids
}

func TestVocabularyFiles(t *testing.T) {
	for _, name := range vocabNames {
		t.Run(name, func(t *testing.T) {
			t.Logf("%d texts give the expected ids", checkVocab(t, name, loadVocab(t, name)))
		})
	}
}

// checkVocab encodes the texts that come with a vocabulary, and decodes their ids.
func checkVocab(t *testing.T, name string, tok *Tokenizer) int {
	t.Helper()
	texts, want := vocabCases(t, name)
	for i, text := range texts {
		got := tok.Encode(text, false)
		if !slices.Equal(got, want[i]) {
			t.Errorf("%q:\n got %v\nwant %v", text, got, want[i])
		}
		if tok.spell == plainWords { // white space and capitals are lost
			continue
		}
		if back := tok.Decode(got); back != text {
			t.Errorf("%q decodes to %q", text, back)
		}
		if back := streamed(tok, got); back != text {
			t.Errorf("%q streams as %q", text, back)
		}
	}
	return len(texts)
}

func streamed(tok *Tokenizer, ids []int32) string {
	var b strings.Builder
	s := tok.newStream(nil)
	for _, id := range ids {
		b.WriteString(s.push(id))
	}
	return b.String() + s.flush()
}

func TestSpecialIDs(t *testing.T) {
	for name, want := range map[string]string{
		"deepseek-coder": "bos 32013 eos 32014 add true eog [32014 32021] middle true",
		"falcon":         "bos 11 eos 11 add false eog [11] middle false",
		"gpt-2":          "bos 50256 eos 50256 add false eog [50256] middle false",
		"llama-spm":      "bos 1 eos 2 add true eog [2] middle false",
		"phi-3":          "bos 1 eos 32000 add true eog [2 32000 32007] middle false",
		"starcoder":      "bos 0 eos 0 add false eog [0 4] middle true",
	} {
		t.Run(name, func(t *testing.T) {
			tok := loadVocab(t, name)
			bos, _ := tok.BOS()
			eos, _ := tok.EOS()
			var eog []int32
			for id := range int32(tok.VocabSize()) {
				if tok.EOG(id) {
					eog = append(eog, id)
				}
			}
			got := fmt.Sprintf("bos %d eos %d add %t eog %v middle %t", bos, eos, tok.AddBOS(), eog, tok.FillsMiddle())
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestPhi3Specials has ids of llama.cpp for texts that spell Phi-3's special tokens, most of which take the white space
// behind them.
func TestPhi3Specials(t *testing.T) {
	tok := loadVocab(t, "phi-3")
	for text, want := range map[string][]int32{
		"<|user|>\n Hi <|end|>\n<|assistant|>\n\n Yes": {32010, 6324, 29871, 32007, 32001, 3869},
		"<s> a<|endoftext|>\n b <unk> c</s>  d": {1, 29871, 263, 32000, 29871, 13,
			289, 29871, 0, 29871, 274, 2, 270},
	} {
		if got := tok.EncodeSpecial(text, false); !slices.Equal(got, want) {
			t.Errorf("%q:\n got %v\nwant %v", text, got, want)
		}
	}
}
