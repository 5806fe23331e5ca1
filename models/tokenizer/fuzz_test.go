package tokenizer

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"foretoken/models/fuzztest"
)

// longTexts are inputs of n bytes that tempt a tokenizer into quadratic time.
func longTexts(n int) map[string]string {
	fill := func(s string) string { return strings.Repeat(s, n/len(s)+1)[:n] }
	r := rand.New(rand.NewSource(1))
	noise := make([]byte, n)
	r.Read(noise)
	letters := make([]byte, n)
	for i := range letters {
		letters[i] = "ehllowrda "[r.Intn(9)]
	}
	return map[string]string{
		"letter": fill("a"), "letters": string(letters), "spaces": fill(" "), "newlines": fill("\n"), "mixed space": fill(" \n\t "),
		"space, no newline": fill(" ")[:n-1] + "x", "digits": fill("1"), "quotes": fill("'"), "punctuation": fill("!?"),
		"specials": fill("<|im_end|"), "words": fill("hello world "), "emoji": fill("🚀"), "han": fill("世界"), "noise": string(noise),
	}
}

// TestLongTextsInTime bounds the time for a megabyte of each kind: a quadratic method takes quarters of an hour, this
// one a second or two, ten of them on a machine that is busy with other things.
func TestLongTextsInTime(t *testing.T) {
	const limit = 2 * time.Minute
	n := 1 << 20
	if testing.Short() {
		n = 1 << 16
	}
	encode := func(name string, tok *Tokenizer, text string) {
		begin := time.Now()
		ids := tok.EncodeSpecial(text, true)
		took := time.Since(begin)
		if took > limit {
			t.Errorf("%s: %d bytes took %v", name, len(text), took)
		}
		if testing.Verbose() {
			t.Logf("%s: %d ids, %v", name, len(ids), took.Round(time.Millisecond))
		}
	}
	bpe, spm := smallBPE().tokenizer(t), smallSPM().tokenizer(t)
	for name, text := range longTexts(n) {
		switch name {
		case "letter", "spaces", "newlines", "noise", "specials":
			encode("bpe, "+name, bpe, text)
			encode("spm, "+name, spm, text)
		}
	}
	// Every text with every set of expressions, on less.
	for _, pre := range preTokenizers {
		tok := smallBPE().with(keyPre, pre.names[0]).tokenizer(t)
		for name, text := range longTexts(n / 32) {
			encode(pre.names[0]+", "+name, tok, text)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := smallBPE().tokenizer(t)
	want := tok.Encode("hello world, hello", false)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				tok.Encode(fmt.Sprint("word", g*i), true)
				if got := tok.Encode("hello world, hello", false); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			}
		})
	}
	wg.Wait()
}

func TestCacheStaysBounded(t *testing.T) {
	tok := smallBPE().tokenizer(t)
	for i := range 3 * cacheWords {
		tok.Encode(fmt.Sprintf("%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)+string(rune(0x4e00+i%5000)), false)
	}
	if n := len(tok.model.(*bpe).cache); n > cacheWords {
		t.Errorf("%d words are cached", n)
	}
}

// checkText holds for every tokenizer and text.
func checkText(t *testing.T, tok *Tokenizer, text string) []int32 {
	t.Helper()
	ids := tok.Encode(text, false)
	for _, id := range ids {
		if id < 0 || int(id) >= tok.VocabSize() {
			t.Fatalf("id %d of %d", id, tok.VocabSize())
		}
		if tok.Special(id) {
			t.Fatalf("%q becomes the control token %q", text, tok.TokenText(id))
		}
	}
	want := string([]rune(text))
	if tok.spm {
		want = strings.ReplaceAll(want, "▁", " ")
	}
	got := tok.Decode(ids)
	if tok.spm && strings.Contains(text, "<mark>") {
		// A space is put after the user-defined token and taken away again,
		// so only one that the text spells with ▁ could be lost.
		got, want = strings.ReplaceAll(got, " ", ""), strings.ReplaceAll(want, " ", "")
	}
	if got != want {
		t.Fatalf("%q decodes to %q", want, got)
	}
	if s := streamed(tok, ids); !utf8.ValidString(s) {
		t.Fatalf("%q streams as %q", text, s)
	}
	for _, id := range tok.EncodeSpecial(text, true) {
		if id < 0 || int(id) >= tok.VocabSize() {
			t.Fatalf("id %d of %d", id, tok.VocabSize())
		}
	}
	// Near-linear: a long repetition must not take more than its share. That
	// is slow under the fuzzer, so not every text is repeated.
	if n := len(text); n%64 == 3 {
		long := strings.Repeat(text, 1+(16<<10)/n)
		fuzztest.Bound(t, len(long), func() { tok.EncodeSpecial(long, true) })
	}
	return ids
}

func FuzzBPE(f *testing.F) {
	var tokenizers []*Tokenizer
	var naive []*naiveBPE
	for _, pre := range []string{"gpt-2", "qwen2", "smollm"} {
		m := smallBPE().with(keyPre, pre)
		tokenizers = append(tokenizers, m.tokenizer(f))
		naive = append(naive, newNaiveBPE(f, m.file(f, "small.gguf"), scanners[pre]))
	}
	for i, s := range append(awkward, "hello world", "aaaaaaaaaaaaaaa", "<think>hello</s>", "<|im_end|>", "\xf0\x9f", "\xff") {
		f.Add(s, uint8(i))
	}
	f.Fuzz(func(t *testing.T, text string, which uint8) {
		k := int(which) % len(tokenizers)
		ids := checkText(t, tokenizers[k], text)
		if len(text) > 500 || strings.Contains(text, "<think") || !utf8.ValidString(text) {
			return
		}
		clear(naive[k].known)
		if want := naive[k].encode(text); !slices.Equal(ids, want) {
			t.Fatalf("%q:\n got %v\nwant %v", text, ids, want)
		}
	})
}

func FuzzSPM(f *testing.F) {
	m := smallSPM()
	tok := m.tokenizer(f)
	scores := m[keyScores].([]float32)
	for _, s := range append(awkward, "the hello world", "aaaaaaaaaaaaaaa", "<mark> the", "<s></s>", "▁▁ ▁", "\xf0\x9f", "\xff") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids := checkText(t, tok, text)
		if len(text) > 500 || strings.Contains(text, "<mark>") || !utf8.ValidString(text) {
			return
		}
		if want := naiveSPM(tok, scores, text); !slices.Equal(ids, want) {
			t.Fatalf("%q:\n got %v\nwant %v", text, ids, want)
		}
	})
}

// FuzzMetadata opens vocabularies with damaged fields.
func FuzzMetadata(f *testing.F) {
	f.Add("gpt2", "qwen2", "a b ab", "a b", uint32(1), true)
	f.Add("llama", "", "<unk> <s> </s> a b ab", "", uint32(0), false)
	f.Add("gpt2", "default", "a a", "a", uint32(9), true)
	f.Fuzz(func(t *testing.T, model, pre, tokens, merges string, id uint32, flag bool) {
		list := strings.Fields(tokens)
		m := fields{keyModel: model, keyPre: pre, keyTokens: list, keyMerges: strings.Split(merges, "\n"),
			keyScores: make([]float32, len(list)), keyBOS: id, keyEOS: id, keyUNK: id, keyAddBOS: flag}
		tok, err := New(m.file(t, "small.gguf"))
		if err != nil {
			fuzztest.Refusal(t, err, "tokenizer: ")
			return
		}
		tok.Decode(tok.EncodeSpecial(tokens+"\xff"+merges, true))
	})
}

// FuzzStream pushes any ids: what is given out is UTF-8 at every step, is the
// decoded text in the end, and holds back less than one character.
func FuzzStream(f *testing.F) {
	bpe, spm := smallBPE().tokenizer(f), smallSPM().tokenizer(f)
	f.Add([]byte("\x00\xe4\x00\xb8\x00\x96"), true)
	f.Add([]byte("\x00\xf0\x00\x9f\x01\x20\x00\x80"), false)
	f.Add([]byte{0, 1, 1, 5, 0, 3 + 0xe4, 0, 3 + 0xb8}, false)
	f.Fuzz(func(t *testing.T, data []byte, first bool) {
		tok := spm
		if first {
			tok = bpe
		}
		var ids []int32
		for i := 0; i+1 < len(data); i += 2 {
			ids = append(ids, (int32(data[i])<<8|int32(data[i+1]))%int32(tok.VocabSize()+3))
		}
		var out strings.Builder
		s := tok.NewStream(nil)
		for _, id := range ids {
			piece := s.Push(id)
			if !utf8.ValidString(piece) {
				t.Fatalf("token %d gives %q", id, piece)
			}
			if len(s.pending) >= utf8.UTFMax || utf8.FullRune(s.pending) && len(s.pending) > 0 {
				t.Fatalf("%q is held back", s.pending)
			}
			out.WriteString(piece)
		}
		rest := s.Flush()
		if !utf8.ValidString(rest) {
			t.Fatalf("the rest is %q", rest)
		}
		if got, want := out.String()+rest, tok.Decode(ids); got != want {
			t.Fatalf("%v streams as %q and decodes to %q", ids, got, want)
		}
		var bytes []byte // the pieces themselves, where no space is taken away
		for _, id := range ids {
			bytes = append(bytes, tok.Piece(id)...)
		}
		if first && out.String()+rest != string([]rune(string(bytes))) {
			t.Fatalf("%v streams as %q, its bytes are %q", ids, out.String()+rest, bytes)
		}
	})
}
