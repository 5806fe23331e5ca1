package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"runtime"
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
		"letter": fill("a"), "letters": string(letters), "spaces": fill(" "), "newlines": fill("\n"),
		"mixed space":       fill(" \n\t "),
		"space, no newline": fill(" ")[:n-1] + "x", "digits": fill("1"), "quotes": fill("'"), "punctuation": fill("!?"),
		"specials": fill("<|im_end|"), "words": fill("hello world "), "emoji": fill("🚀"), "han": fill("世界"),
		"noise": string(noise), "digits, letter": fill("1")[:n-1] + "a", "spaces, han": fill(" ")[:n-3] + "世",
		"lines": fill("a\n"), "marks": fill("e\u0301"),
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
	piece := smallWordPiece().tokenizer(t)
	rules := smallUnigram().with(keyCharsMap, doubleArray(map[string]string{"aa": "b", "hello ": ""})).tokenizer(t)
	for name, text := range longTexts(n / 4) {
		encode("wordpiece, "+name, piece, text)
		encode("unigram, "+name, rules, text)
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

// TestWordsOfAText encodes more words than the cache of a text holds, each twice.
func TestWordsOfAText(t *testing.T) {
	tok := smallBPE().tokenizer(t)
	var text strings.Builder
	var want []int32
	for i := range 4 * cacheWords {
		word := fmt.Sprintf(" %c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26) + string(rune(0x4e00+i/2%cacheWords))
		text.WriteString(word)
		want = append(want, tok.Encode(word, false)...)
	}
	if got := tok.Encode(text.String(), false); !slices.Equal(got, want) {
		t.Errorf("%d tokens, want the %d of the words", len(got), len(want))
	}
}

// TestTextsLeaveNothing encodes a text twice: the second time takes as much work, so it does not tell whether somebody
// encoded its words before.
func TestTextsLeaveNothing(t *testing.T) {
	t.Attr("attack", "a text whose words others may have sent, which the time to encode it would tell")
	t.Attr("bound", "each text is encoded with a cache of its own")
	tok := smallBPE().tokenizer(t)
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, " word%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676)
	}
	work := func() uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tok.Encode(text.String(), false)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	first, again := work(), work()
	if first > again+100 {
		t.Errorf("%d allocations, and %d once the words are known", first, again)
	}
	t.Attr("measured", fmt.Sprintf("%d allocations, then %d", first, again))
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
	if tok.spell == plainSpaces {
		want = strings.ReplaceAll(want, "▁", " ")
	}
	got := tok.Decode(ids)
	if tok.spell == plainSpaces && strings.Contains(text, "<mark>") {
		// A user-defined token gets a space behind it that decoding removes, so only a space that the text spells
		// with ▁ can be lost.
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
	for i, s := range append(awkward, "hello world", "aaaaaaaaaaaaaaa", "<think>hello</s>", "<|im_end|>",
		"\xf0\x9f", "\xff") {
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
	for _, s := range append(awkward, "the hello world", "aaaaaaaaaaaaaaa", "<mark> the", "<s></s>", "▁▁ ▁",
		"\xf0\x9f", "\xff") {
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

// Fields of one id, of lists of ids and of truth that FuzzMetadata sets.
var (
	idKeys   = append([]string{keyBOS, keyEOS, keyUNK}, endKeys...)
	listKeys = []string{keyEndIDs, keyNever, keyLeft, keyRight}
	flagKeys = []string{keyAddBOS, keyAddEOS, keyPrefix, keyExtraSpace}
)

// damaged builds metadata whose parts may contradict each other. Tokens and merges are one per line; types has a
// byte for each token, and so has scores; set holds pairs of a field and a value, some of the wrong type.
func damaged(model, pre, tokens, merges string, types, scores, set []byte) fields {
	m := fields{keyModel: model, keyPre: pre, keyTokens: strings.Split(tokens, "\n")}
	if merges != "" {
		m[keyMerges] = strings.Split(merges, "\n")
	}
	if len(types) > 0 {
		all := make([]int32, len(types))
		for i, b := range types {
			all[i] = int32(int8(b))
		}
		m[keyTypes] = all
	}
	if len(scores) > 0 {
		all := make([]float32, len(scores))
		for i, b := range scores {
			if all[i] = float32(int8(b)); b == 0x80 {
				all[i] = float32(math.NaN())
			}
		}
		m[keyScores] = all
	}
	for i := 0; i+1 < len(set); i += 2 {
		which, value := int(set[i]), set[i+1]
		switch which -= len(idKeys); {
		case which < 0:
			m[idKeys[which+len(idKeys)]] = uint32(value)
		case which < len(listKeys):
			list, _ := m[listKeys[which]].([]int32)
			m[listKeys[which]] = append(list, int32(int8(value)))
		case which < len(listKeys)+len(flagKeys):
			m[flagKeys[which-len(listKeys)]] = value&1 == 1
		case which == len(listKeys)+len(flagKeys):
			m["general.name"] = "Phi-3 mini"
		default:
			wrong := slices.Concat(idKeys, listKeys, flagKeys,
				[]string{keyTokens, keyTypes, keyScores, keyMerges, keyPre, keyModel, keyCharsMap, keyLower})
			m[wrong[int(value)%len(wrong)]] = []any{"x", int32(1), []float32{1}}[which%3]
		}
	}
	return m
}

// checkTaken holds for every vocabulary that is taken, whatever its size in bytes, and every text.
func checkTaken(t *testing.T, tok *Tokenizer, size int, text string) {
	t.Helper()
	if id, ok := tok.EOS(); ok && !tok.EOG(id) {
		t.Fatalf("the end of text, %d, does not end it", id)
	}
	if err := Compatible(tok, tok); err != nil {
		t.Fatal(err)
	}
	var ids []int32
	fuzztest.Bound(t, size+len(text), func() { ids = tok.Encode(text, false) })
	for _, id := range ids {
		if !tok.has(id) || tok.Special(id) && id != tok.unk { // a file may call its unknown token one
			t.Fatalf("%q becomes %v with %d among them", text, ids, id)
		}
	}
	all := tok.EncodeSpecial(text, true)
	for _, id := range all {
		if !tok.has(id) {
			t.Fatalf("id %d of %d", id, tok.VocabSize())
		}
	}
	if got := streamed(tok, all); got != tok.Decode(all) || !utf8.ValidString(got) {
		t.Fatalf("%v streams as %q", all, got)
	}
}

// FuzzMetadata opens vocabularies with damaged fields. An accepted one encodes any text in its own tokens, without
// control tokens, and decodes it the same way streamed and at once.
func FuzzMetadata(f *testing.F) {
	const bos, eos, unk, ends, left, right, addBOS, addEOS, prefix = 0, 1, 2, 8, 9, 10, 11, 12, 13 // in set
	kinds := func(k ...kind) (b []byte) {
		for _, k := range k {
			b = append(b, byte(k))
		}
		return b
	}
	f.Add("gpt2", "qwen2", "a\nb\nab\n<s>\n</s>\n \n",
		"a b", kinds(normal, normal, normal, control, control, userDefined, unused), []byte{},
		[]byte{bos, 3, eos, 4, ends, 4, left, 5, right, 3, addBOS, 1, addEOS, 1}, "ab <s>\xff")
	f.Add("gpt2", "llama-bpe", "a\nb\nc\nab\nabc\n<|eot_id|>", "a b\nab c", []byte{}, []byte{},
		[]byte{unk, 0, addBOS, 0, 15, 0}, "abc <|eot_id|>")
	f.Add("gpt2", "default", "a\na", "a", []byte{1, 9}, []byte{1}, []byte{200, 3}, "")
	f.Add("gpt2", "gpt-2", "x\ny", "x \n y\nx y", []byte{1, 1}, []byte{}, []byte{bos, 9, 16, 7}, "xy")
	f.Add("llama", "", "<unk>\n<s>\n</s>\n▁a\nb\n▁\na\nab\n<x>", "", kinds(unknown,
		control, control, normal, normal, normal, normal, normal, userDefined), []byte{0, 0, 0, 1, 2, 3, 4, 5, 6},
		[]byte{bos, 1, eos, 2, unk, 0, left, 8, right, 8, prefix, 1}, "ab a  <x> é</s>")
	f.Add("llama", "", "<unk>\n<0x41>\n<0x4>", "", kinds(unknown, byteToken, byteToken), []byte{0, 0, 0x80},
		[]byte{unk, 0, addBOS, 0}, "A")
	f.Add("llama", "", "<\ns\n>\ns>\n<s>", "", kinds(normal, normal, normal, normal, control), []byte{0, 1, 2, 3, 4},
		[]byte{unk, 0, addBOS, 0, 15, 0}, "<s>")
	f.Add("t5", "", "<unk>\n▁a\nb\n▁\na\n<0x42>", "", kinds(unknown, normal, normal, normal, userDefined, byteToken),
		[]byte{0, 0xff, 0xfe, 0xfd, 0xfc, 0}, []byte{unk, 0, eos, 2, addEOS, 1, prefix, 1}, "a bé b")
	f.Add("t5", "", "a", "", []byte{1, 1}, []byte{1}, []byte{14, 1}, "a")
	f.Add("t5", "", "a\nb", "", []byte{1, 1}, []byte{1, 1}, []byte{unk, 0, left, 9}, "a")
	f.Add("gemma4", "", "a\nb\nab\n▁\n<0x0A>\n<s>\n</s>", "a b", kinds(normal, normal, normal, normal, byteToken,
		control, control), []byte{}, []byte{bos, 5, eos, 6}, "ab a\n\nc <s>")
	f.Add("bert", "", "[UNK]\n▁a\nb\n▁[\n[CLS]\n[SEP]\n▁[CLS]", "", kinds(unknown, normal, normal, normal, control,
		control, control), []byte{}, []byte{bos, 4, eos, 5, unk, 0}, "Ab áb [CLS] [b")
	for i := range 24 { // a field of each wrong type, of each kind of tokenizer
		for k, model := range []string{"gpt2", "llama", "t5", "bert"} {
			f.Add(model, "gpt-2", "a\nb\nab", "a b", []byte{1, 1, 1}, []byte{1, 2, 3},
				[]byte{unk, 0, bos, 1, addEOS, 0, byte(16 + k), byte(i)}, "ab")
		}
	}
	for _, m := range []fields{smallBPE(), smallSPM()} { // with all the bytes
		var types []byte
		for _, k := range m[keyTypes].([]int32) {
			types = append(types, byte(k))
		}
		merges, _ := m[keyMerges].([]string)
		pre, _ := m[keyPre].(string)
		f.Add(m[keyModel].(string), pre, strings.Join(m[keyTokens].([]string), "\n"), strings.Join(merges, "\n"), types,
			make([]byte, len(types)), []byte{bos, 2, eos, 2, ends, 1}, "hello <think> world")
	}
	f.Fuzz(func(t *testing.T, model, pre, tokens, merges string, types, scores, set []byte, text string) {
		file := damaged(model, pre, tokens, merges, types, scores, set).file(t, "small.gguf")
		var tok *Tokenizer
		var err error
		size := len(tokens) + len(merges) + len(types) + len(scores)
		fuzztest.Bound(t, size, func() { tok, err = New(file) })
		if err != nil {
			if fuzztest.Refusal(t, err, "tokenizer: "); !strings.Contains(err.Error(), "small.gguf: ") {
				t.Fatalf("%q does not name its file", err)
			}
			return
		}
		checkTaken(t, tok, size, text)
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
		s := tok.newStream(nil)
		for _, id := range ids {
			piece := s.push(id)
			if !utf8.ValidString(piece) {
				t.Fatalf("token %d gives %q", id, piece)
			}
			if len(s.pending) >= utf8.UTFMax || utf8.FullRune(s.pending) && len(s.pending) > 0 {
				t.Fatalf("%q is held back", s.pending)
			}
			out.WriteString(piece)
		}
		rest := s.flush()
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

// TestEncodingYields: whatever a text is, a caller is asked every few thousand bytes whether the work is to go on, and
// an error ends it.
func TestEncodingYields(t *testing.T) {
	t.Attr("attack", "a text whose tokenising keeps all others waiting, or goes on for a client that left")
	t.Attr("bound", "a text yields every 4 KiB, and ends with an error of it")
	const n = 1 << 15
	stop := errors.New("stop")
	toks := map[string]*Tokenizer{"bpe": smallBPE().tokenizer(t), "spm": smallSPM().tokenizer(t)}
	for _, pre := range preTokenizers {
		toks[pre.names[0]] = smallBPE().with(keyPre, pre.names[0]).tokenizer(t)
	}
	least := n
	for name, tok := range toks {
		for kind, text := range longTexts(n) {
			if !slices.Contains([]string{"letter", "spaces", "words", "noise", "specials", "digits"}, kind) {
				continue
			}
			calls := 0
			ids, err := tok.EncodeWith(text, EncodeOptions{Special: true, Yield: func() error { calls++; return nil }})
			if calls < n/slice/2 || err != nil || !slices.Equal(ids, tok.EncodeSpecial(text, false)) {
				t.Errorf("%s, %s: %d calls, %v", name, kind, calls, err)
			}
			least = min(least, calls)
			for _, after := range []int{1, calls} {
				left := after
				if _, err := tok.EncodeWith(text, EncodeOptions{Special: true, Yield: func() error {
					if left--; left <= 0 {
						return stop
					}
					return nil
				}}); err != stop || left < 0 {
					t.Errorf("%s, %s: after %d calls: %v, and %d calls more", name, kind, after, err, -left)
				}
			}
		}
	}
	t.Attr("measured", fmt.Sprintf("%d calls at least for %d bytes", least, n))
}
