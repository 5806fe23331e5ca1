package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
)

// fields are the metadata of a vocabulary, changed by the tests.
type fields map[string]any

func (m fields) with(key string, value any) fields {
	c := fields{}
	for k, v := range m {
		c[k] = v
	}
	if value == nil {
		delete(c, key)
	} else {
		c[key] = value
	}
	return c
}

func (m fields) file(t testing.TB, name string) *gguf.File {
	t.Helper()
	var kv []gguf.KV
	for k, v := range m {
		kv = append(kv, gguf.KV{Key: k, Value: v})
	}
	b, err := gguf.Bytes(kv, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(files.FromBytes(name, b))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (m fields) tokenizer(t testing.TB) *Tokenizer {
	t.Helper()
	tok, err := New(m.file(t, "small.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// smallBPE has the 256 bytes, a few merges, and special tokens of every type.
func smallBPE() fields {
	var tokens, merges []string
	for _, r := range alphabet {
		tokens = append(tokens, string(r))
	}
	for _, m := range []string{"h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "1 2", "a a",
		"aa aa", "aaaa aaaa", "Ġ Ġ", "ĠĠ ĠĠ", "Ċ Ċ", "' s", "ð Ł", "< /", "</ s", "</s >"} {
		merges = append(merges, m)
		tokens = append(tokens, strings.Replace(m, " ", "", 1))
	}
	types := make([]int32, len(tokens))
	for i := range types {
		types[i] = int32(normal)
	}
	for _, s := range []struct {
		text string
		kind kind
	}{{"<|endoftext|>", control}, {"<|im_start|>", control}, {"<|im_end|>", control}, {"<think>", userDefined},
		{"<thinking>", userDefined}, {"[PAD]", unused}} {
		tokens = append(tokens, s.text)
		types = append(types, int32(s.kind))
	}
	bos := uint32(len(tokens) - 6)
	return fields{
		keyModel: "gpt2", keyPre: "qwen2", keyTokens: tokens, keyTypes: types, keyMerges: merges,
		keyBOS: bos, keyEOS: bos + 2, keyAddBOS: false,
	}
}

// smallSPM has the 256 bytes, letters, a few words, and special tokens.
func smallSPM() fields {
	tokens := []string{"<unk>", "<s>", "</s>"}
	scores := []float32{0, 0, 0}
	types := []int32{int32(unknown), int32(control), int32(control)}
	add := func(text string, score float32, k kind) {
		tokens, scores, types = append(tokens, text), append(scores, score), append(types, int32(k))
	}
	for b := range 256 {
		add(fmt.Sprintf("<0x%02X>", b), 0, byteToken)
	}
	for i, s := range []string{"▁t", "he", "▁the", "in", "▁a", "er", "▁w", "or", "ld", "▁wor", "▁world", "aa", "aaaa",
		"▁▁", "▁▁▁▁", "hel", "lo", "hello", "▁hello", "é", "🚀"} {
		add(s, -float32(i), normal)
	}
	for i := range 26 {
		add(string(rune('a'+i)), -100-float32(i), normal)
	}
	add("▁", -200, normal)
	add("<mark>", 0, userDefined)
	return fields{
		keyModel: "llama", keyTokens: tokens, keyScores: scores, keyTypes: types,
		keyBOS: uint32(1), keyEOS: uint32(2), keyUNK: uint32(0), keyAddBOS: true, keyAddEOS: false, keyPrefix: true,
	}
}

func TestMetadataErrors(t *testing.T) {
	bpe, spm := smallBPE(), smallSPM()
	tokens := func(m fields) []string { return append([]string(nil), m[keyTokens].([]string)...) }
	twice := tokens(bpe)
	twice[7] = twice[9]
	oddByte := tokens(spm)
	oddByte[13] = "byte"
	noByte := tokens(spm)
	noByte[3+65] = "x65"
	types := append([]int32(nil), bpe[keyTypes].([]int32)...)
	types[3] = 7
	scores := append([]float32(nil), spm[keyScores].([]float32)...)
	zero := float32(0)
	scores[5] = zero / zero
	for name, c := range map[string]struct {
		m    fields
		want []string
	}{
		"no model": {bpe.with(keyModel, nil), []string{keyModel, "missing"}},
		"model": {bpe.with(keyModel, "rwkv"),
			[]string{keyModel, `"rwkv" is not supported`, "gpt2, gemma4, llama, t5 or bert"}},
		"model type":   {bpe.with(keyModel, uint32(1)), []string{keyModel, "want string"}},
		"no tokens":    {bpe.with(keyTokens, nil), []string{keyTokens, "missing"}},
		"empty tokens": {bpe.with(keyTokens, []string{}), []string{keyTokens, "0 tokens"}},
		"tokens type":  {bpe.with(keyTokens, []int32{1}), []string{keyTokens, "want array of string"}},
		"two equal":    {bpe.with(keyTokens, twice), []string{keyTokens, "tokens 7 and 9"}},
		"types length": {bpe.with(keyTypes, []int32{1, 1}), []string{keyTypes, "2 elements for"}},
		"type":         {bpe.with(keyTypes, types), []string{keyTypes, "token 3", "unknown type 7"}},
		"pre type":     {bpe.with(keyPre, uint32(1)), []string{keyPre, "want string"}},
		"pre": {bpe.with(keyPre, "qwen-2"),
			[]string{keyPre, `"qwen-2" is not supported; the nearest names are qwen2, `}},
		"no merges":    {bpe.with(keyMerges, nil), []string{keyMerges, "missing"}},
		"merge of one": {bpe.with(keyMerges, []string{"h e", "he"}), []string{keyMerges, `merge 1 "he"`}},
		"empty merge":  {bpe.with(keyMerges, []string{""}), []string{keyMerges, `merge 0 ""`}},
		"merge twice": {bpe.with(keyMerges, []string{"h e", "h e"}),
			[]string{keyMerges, `merges 0 and 1 are both "h e"`}},
		"open merge":      {bpe.with(keyMerges, []string{"h "}), []string{keyMerges, `merge 0 "h "`}},
		"merge to none":   {bpe.with(keyMerges, []string{"q z"}), []string{keyMerges, `needs the token "qz"`}},
		"merge from none": {bpe.with(keyMerges, []string{"ab c"}), []string{keyMerges, `needs the token "ab"`}},
		"bos":             {bpe.with(keyBOS, uint32(1e6)), []string{keyBOS, "id 1000000"}},
		"eos type":        {bpe.with(keyEOS, "two"), []string{keyEOS, "want uint32"}},
		"eot": {bpe.with("tokenizer.ggml.eot_token_id", ^uint32(0)),
			[]string{"eot_token_id", "4294967295"}},
		"add without bos": {bpe.with(keyBOS, nil).with(keyAddBOS, true), []string{keyBOS, "missing"}},
		"add without eos": {bpe.with(keyEOS, nil).with(keyAddEOS, true), []string{keyEOS, "missing"}},
		"flag type":       {bpe.with(keyAddBOS, uint32(1)), []string{keyAddBOS, "want bool"}},
		"no scores":       {spm.with(keyScores, nil), []string{keyScores, "missing"}},
		"scores length":   {spm.with(keyScores, []float32{1}), []string{keyScores, "1 elements"}},
		"score":           {spm.with(keyScores, scores), []string{keyScores, "token 5", "not a number"}},
		"byte spelling":   {spm.with(keyTokens, oddByte), []string{keyTokens, "token 13", "byte"}},
		"no byte, no unk": {spm.with(keyTokens, noByte).with(keyUNK, nil).with(keyTypes, nil),
			[]string{keyTokens, "<0x41>", keyUNK}},
		"no bos": {spm.with(keyBOS, nil), []string{keyBOS, "missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.m.file(t, "small.gguf"))
			if err == nil {
				t.Fatal("no error")
			}
			msg := err.Error()
			if !strings.HasPrefix(msg, "tokenizer: ") || strings.Contains(msg, "\n") || len(msg) > 600 {
				t.Errorf("error %q", msg)
			}
			for _, w := range append(c.want, "small.gguf") {
				if !strings.Contains(msg, w) {
					t.Errorf("error %q does not mention %q", msg, w)
				}
			}
		})
	}
}

func TestAccessors(t *testing.T) {
	tok := smallBPE().tokenizer(t)
	end := idOf(tok, "<|im_end|>")
	if eos, ok := tok.EOS(); !ok || eos != end || !tok.EOG(end) || !tok.Special(end) ||
		tok.TokenText(end) != "<|im_end|>" {
		t.Error("end of text")
	}
	if tok.Piece(end) != nil || string(tok.Piece(idOf(tok, "Ġworld"))) != " world" ||
		string(tok.Piece(idOf(tok, "<think>"))) != "<think>" {
		t.Error("pieces")
	}
	// Html's </s> is merged from text here: it must not end generation.
	if id := idOf(tok, "</s>"); tok.EOG(id) || tok.Special(id) || string(tok.Piece(id)) != "</s>" {
		t.Error("a plain </s> is taken for the end")
	}
	for _, id := range []int32{-1, int32(tok.VocabSize()), 1 << 30} {
		if tok.EOG(id) || tok.Special(id) || tok.Piece(id) != nil || tok.TokenText(id) != "" {
			t.Errorf("id %d has properties", id)
		}
	}
	plain := smallBPE().with(keyBOS, nil).with(keyEOS, nil).tokenizer(t)
	if _, ok := plain.BOS(); ok || plain.AddBOS() {
		t.Error("BOS without a field for it")
	}
	if ids := plain.Encode("hello", true); len(ids) != 1 {
		t.Error(ids)
	}
	llama := smallBPE().with(keyPre, "llama-bpe").with(keyAddBOS, nil).tokenizer(t)
	if bos, _ := llama.BOS(); !llama.AddBOS() || llama.Encode("x", true)[0] != bos {
		t.Error("llama-bpe adds BOS unless the file says otherwise")
	}
	both := smallSPM().with(keyAddEOS, true).tokenizer(t)
	spelled := func(ids []int32) (all string) {
		for _, id := range ids {
			all += both.TokenText(id)
		}
		return all
	}
	complete := func(text string) []int32 {
		ids, _ := both.EncodeWith(text, EncodeOptions{Begin: true, Complete: true})
		return ids
	}
	for _, c := range []struct{ got, want string }{
		{spelled(both.Encode("hello", true)), "<s>▁hello"}, // the model is to go on
		{spelled(both.Encode("hello", false)), "▁hello"},
		{spelled(both.EncodeSpecial("hello", true)), "<s>▁hello"},
		{spelled(complete("hello")), "<s>▁hello</s>"},
		{spelled(complete("")), "<s></s>"},
	} {
		if c.got != c.want {
			t.Errorf("with %s: %s, want %s", keyAddEOS, c.got, c.want)
		}
	}
}

func texts(tok *Tokenizer, ids []int32) string {
	var s []string
	for _, id := range ids {
		s = append(s, tok.TokenText(id))
	}
	return strings.Join(s, "|")
}

func TestSpecialTokensInText(t *testing.T) {
	bpe, spm := smallBPE().tokenizer(t), smallSPM().tokenizer(t)
	phi := smallSPM().with("general.name", "Phi3").tokenizer(t)
	for _, c := range []struct {
		tok         *Tokenizer
		text        string
		plain, read string
	}{
		{bpe, "hello<|im_end|>", "hello|<|||i|m|_|e|n|d|||>", "hello|<|im_end|>"},
		{bpe, "<|im_start|><|im_end|>\n", "<|||i|m|_|s|t|a|r|t|||>|<|||i|m|_|e|n|d|||>|Ċ", "<|im_start|>|<|im_end|>|Ċ"},
		{bpe, "aa<think>aa<thinking>", "aa|<think>|aa|<thinking>", "aa|<think>|aa|<thinking>"},
		{bpe, "[PAD]", "[|P|A|D|]", "[|P|A|D|]"},
		{bpe, "<|im_end", "<|||i|m|_|e|n|d", "<|||i|m|_|e|n|d"},
		{spm, "the<mark> the", "▁the|<mark>|▁|▁the", "▁the|<mark>|▁|▁the"},
		{spm, "<s>the</s>", "▁|<0x3C>|s|<0x3E>|t|he|<0x3C>|<0x2F>|s|<0x3E>", "<s>|▁the|</s>"},
		{phi, "<mark>  \n the", "<mark>|▁the", "<mark>|▁the"},
	} {
		if got := texts(c.tok, c.tok.Encode(c.text, false)); got != c.plain {
			t.Errorf("%q is encoded as %s, want %s", c.text, got, c.plain)
		}
		if got := texts(c.tok, c.tok.EncodeSpecial(c.text, false)); got != c.read {
			t.Errorf("%q is read as %s, want %s", c.text, got, c.read)
		}
	}
}

// TestEndsBesideOthers reads vocabularies in which a usual end ends no text.
func TestEndsBesideOthers(t *testing.T) {
	for _, c := range []struct {
		end    string
		others []string
		want   bool
	}{
		{"<|end|>", []string{"<|call|>"}, true},
		{"<|end|>", []string{"<|return|>", "<|call|>"}, false},
		{"<|end|>", []string{"<|flush|>", "<|calls|>"}, false},
		{"</s>", []string{"<turn|>"}, true},
		{"</s>", []string{"<turn|>", "<|tool_response>"}, false},
	} {
		m := smallBPE().with(keyMerges, []string{"h e"})
		tokens, types := slices.Clone(m[keyTokens].([]string)), slices.Clone(m[keyTypes].([]int32))
		for _, s := range append(c.others, c.end) {
			if !slices.Contains(tokens, s) {
				tokens, types = append(tokens, s), append(types, int32(userDefined))
			}
		}
		tok := m.with(keyTokens, tokens).with(keyTypes, types).tokenizer(t)
		if got := tok.EOG(idOf(tok, c.end)); got != c.want {
			t.Errorf("%s beside %q ends a text: %t", c.end, c.others, got)
		}
		for _, s := range c.others {
			if !tok.EOG(idOf(tok, s)) {
				t.Errorf("%s ends no text", s)
			}
		}
	}
}

func TestWholeWordsFirst(t *testing.T) {
	// Without the merges that build it, llama-bpe still finds a complete word.
	m := smallBPE().with(keyMerges, []string{"h e"})
	if got := texts(m.with(keyPre, "llama-bpe").tokenizer(t),
		m.with(keyPre, "llama-bpe").tokenizer(t).Encode("hello", false)); got != "hello" {
		t.Error(got)
	}
	if got := texts(m.tokenizer(t), m.tokenizer(t).Encode("hello", false)); got != "he|l|l|o" {
		t.Error(got)
	}
}

func TestUnknownCharacters(t *testing.T) {
	m := smallSPM()
	tokens := append([]string(nil), m[keyTokens].([]string)...)
	for b := range 256 {
		tokens[3+b] = fmt.Sprint("gone", b)
	}
	types := append([]int32(nil), m[keyTypes].([]int32)...)
	for b := range 256 {
		types[3+b] = int32(unused)
	}
	tok := m.with(keyTokens, tokens).with(keyTypes, types).tokenizer(t)
	ids := tok.Encode("a?", false)
	if got := texts(tok, ids); got != "▁a|<unk>" {
		t.Error(got)
	}
	if got := tok.Decode(ids); got != "a\uFFFD" {
		t.Errorf("%q", got)
	}
}

func TestCompatible(t *testing.T) {
	base := smallBPE()
	tokens := base[keyTokens].([]string)
	n := len(tokens)
	changed := append([]string(nil), tokens...)
	changed[300-40] = "other"
	longer := func(text string, k kind) fields {
		return base.with(keyTokens, append(append([]string(nil), tokens...), text)).
			with(keyTypes, append(append([]int32(nil), base[keyTypes].([]int32)...), int32(k)))
	}
	open := func(m fields, name string) *Tokenizer {
		tok, err := New(m.file(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	target := open(base, "target.gguf")
	for name, c := range map[string]struct {
		draft fields
		want  string // "" if the two fit
	}{
		"equal":   {base, ""},
		"padding": {longer("[PAD999]", normal), ""},
		"unused":  {longer("spare", unused), ""},
		"another": {longer("extra", normal), fmt.Sprintf("token %d is \"extra\" in the second", n)},
		"text": {base.with(keyMerges, []string{}).with(keyTokens, changed),
			fmt.Sprintf("token 260 is %q in the first and \"other\" in the second", tokens[260])},
		"unused bos":  {base.with(keyBOS, uint32(5)), ""},
		"no eos":      {base.with(keyEOS, nil), "not set in the second"},
		"added bos":   {base.with(keyAddBOS, true), keyAddBOS},
		"another way": {smallSPM(), "token 0 is"},
	} {
		draft := open(c.draft, "draft.gguf")
		for _, pair := range [][2]*Tokenizer{{target, draft}, {draft, target}} {
			err := Compatible(pair[0], pair[1])
			if c.want == "" {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if err == nil {
				t.Errorf("%s: no error", name)
				continue
			}
			msg := err.Error()
			if !strings.Contains(msg, "target.gguf") || !strings.Contains(msg, "draft.gguf") ||
				strings.Contains(msg, "\n") {
				t.Errorf("%s: %s", name, msg)
			}
			if pair[0] == target && !strings.Contains(msg, c.want) {
				t.Errorf("%s: %s does not mention %s", name, msg, c.want)
			}
		}
	}
}

func TestStreamHoldsBackCharacters(t *testing.T) {
	tok := smallBPE().tokenizer(t)
	b := func(bytes string) (ids []int32) {
		for i := range len(bytes) {
			ids = append(ids, idOf(tok, string(alphabet[bytes[i]])))
		}
		return ids
	}
	for _, c := range []struct {
		bytes string
		want  string // strings given out, by token, and the rest
	}{
		{"ab", "a|b|"},
		{"é!", "|é|!|"},
		{"🚀", "|||🚀|"},
		{"\xf0\x9f\x9a", "|||\uFFFD\uFFFD\uFFFD"},
		{"\xf0\x9fa", "||\uFFFD\uFFFDa|"},
		{"\xf0é", "|\uFFFD|é|"},
		{"\x80a", "\uFFFD|a|"},
		{"\xff\xfe", "\uFFFD|\uFFFD|"},
		{"\xc0\x80", "\uFFFD|\uFFFD|"},
		{"\xed\xa0\x80", "|\uFFFD\uFFFD|\uFFFD|"}, // a surrogate
		{"\xe4\xb8", "||\uFFFD\uFFFD"},
	} {
		s := tok.newStream(nil)
		var got []string
		for _, id := range b(c.bytes) {
			got = append(got, s.push(id))
		}
		got = append(got, s.flush())
		if g := strings.Join(got, "|"); g != c.want {
			t.Errorf("%q streams as %q, want %q", c.bytes, g, c.want)
		}
		if got, want := tok.Decode(b(c.bytes)), string([]rune(c.bytes)); got != want {
			t.Errorf("%q decodes to %q, want %q", c.bytes, got, want)
		}
		if s.flush() != "" {
			t.Error("the rest comes twice")
		}
	}
}

func TestStreamLeadingSpace(t *testing.T) {
	tok := smallSPM().tokenizer(t)
	the, world, bos := idOf(tok, "▁the"), idOf(tok, "▁world"), tok.bos
	for _, c := range []struct {
		prompt, ids []int32
		want        string
	}{
		{nil, []int32{the, world}, "the world"},
		{[]int32{bos}, []int32{the, world}, "the world"},
		{[]int32{bos, the}, []int32{world}, " world"},
		{nil, []int32{bos, the, world}, "the world"},
		{nil, []int32{idOf(tok, "he"), the}, "he the"},
		{nil, []int32{the, bos, the}, "thethe"},
	} {
		s, got := tok.newStream(c.prompt), ""
		for _, id := range c.ids {
			got += s.push(id)
		}
		if got += s.flush(); got != c.want {
			t.Errorf("after %v, %v streams as %q, want %q", c.prompt, c.ids, got, c.want)
		}
	}
	plain := smallSPM().with(keyPrefix, false).tokenizer(t)
	if got := texts(plain, plain.Encode("the", false)); got != "t|he" {
		t.Error(got)
	}
	if got := plain.Decode([]int32{the}); got != " the" {
		t.Errorf("%q", got)
	}
}

// idOf returns the id of a text, 0 where it has none.
func idOf(tok *Tokenizer, text string) int32 {
	id, _ := tok.ids.id(text)
	return id
}

// TestIndexIsAMap adds texts at random and compares with a map, from empty to full.
func TestIndexIsAMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 12, 13, 1000} {
		texts := make([]string, n)
		for i := range texts {
			texts[i] = strconv.Itoa(rng.IntN(2 * n))
		}
		x, want := newIndex(texts), map[string]int32{}
		for i, text := range texts {
			first, known := want[text]
			if got, dup := x.add(int32(i)); dup != known || dup && got != first {
				t.Fatalf("%d of %d: %d, %t, want %d, %t", i, n, got, dup, first, known)
			}
			if !known {
				want[text] = int32(i)
			}
			probe := strconv.Itoa(rng.IntN(2 * n))
			id, ok := x.id(probe)
			if first, known := want[probe]; ok != known || ok && id != first {
				t.Fatalf("%s is %d, %t, want %d, %t", probe, id, ok, first, known)
			}
		}
	}
}
