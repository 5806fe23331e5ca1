package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
)

const (
	keyModel  = "tokenizer.ggml.model"
	keyPre    = "tokenizer.ggml.pre"
	keyTokens = "tokenizer.ggml.tokens"
	keyScores = "tokenizer.ggml.scores"
	keyTypes  = "tokenizer.ggml.token_type"
	keyMerges = "tokenizer.ggml.merges"
	keyBOS    = "tokenizer.ggml.bos_token_id"
	keyEOS    = "tokenizer.ggml.eos_token_id"
	keyUNK    = "tokenizer.ggml.unknown_token_id"
	keyAddBOS = "tokenizer.ggml.add_bos_token"
	keyAddEOS = "tokenizer.ggml.add_eos_token"
	keyPrefix = "tokenizer.ggml.add_space_prefix"
	keyEndIDs = "tokenizer.ggml.eos_token_ids"
	keyNever  = "tokenizer.ggml.suppress_tokens"
)

// maxTokens is several times the largest published vocabulary.
const maxTokens = 1 << 22

// MaxEnds bounds the tokens that a file lists as ends of a text. Published files list five.
const MaxEnds = 64

// maxSuppressed bounds the tokens that a file rules out. Published files rule out a dozen.
const maxSuppressed = 256

// endTexts are the tokens that end generation in published models, whose files name at most one of them as EOS.
var endTexts = []string{
	"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<|return|>", "<|call|>",
	"<end_of_turn>", "<end_of_utterance>", "</s>", "<eos>", "[EOS]", "<EOT>", "_<EOT>", "[EOT]", "<|EOT|>",
	"<｜end▁of▁sentence｜>", "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
	"<reponame>", "<|file_sep|>", "<turn|>", "<|tool_response>", "<|flush|>", "<|calls|>", "[e~[",
}

// notEnds are texts of endTexts that end no text in vocabularies with all of some others: gpt-oss's and Solar Open's
// <|end|> ends one of several messages, and Gemma 4 writes HTML's </s>.
var notEnds = []struct {
	text   string
	beside []string
}{
	{"<|end|>", []string{"<|return|>", "<|call|>"}},
	{"<|end|>", []string{"<|flush|>", "<|calls|>"}},
	{"</s>", []string{"<|tool_response>"}},
}

// middleTexts are the tokens that begin a prompt to fill in the middle, in published models.
var middleTexts = []string{"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<｜fim▁begin｜>", "▁<PRE>", "[PREFIX]"}

// endKeys name further ids that end generation. A code model that writes a
// fill-in-the-middle separator has begun another file.
var endKeys = []string{
	"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id", "tokenizer.ggml.fim_pad_token_id",
	"tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id",
}

// Count returns the number of tokens that a file lists, without reading them.
func Count(f *gguf.File) uint64 { return f.Count(keyTokens) }

// New builds the tokenizer that the metadata of a file describes. It is an error if the kind of tokenizer is not
// known, a field that it needs is missing or of another type, or the fields contradict each other.
func New(f *gguf.File) (*Tokenizer, error) {
	t := &Tokenizer{name: f.Name()}
	name, err := f.String(keyModel)
	if err != nil {
		return nil, t.wrap(err)
	}
	if err := t.readTokens(f); err != nil {
		return nil, err
	}
	switch name {
	case "gpt2", "whitespace":
		var pre string
		if pre, err = f.StringOr(keyPre, ""); err != nil {
			return nil, t.wrap(err)
		}
		err = t.loadBPE(f, pre, name == "whitespace")
	case "gemma4":
		err = t.loadBPE(f, "gemma4", false)
	case "llama":
		err = t.loadSPM(f)
	case "t5":
		err = t.loadUnigram(f)
	case "bert":
		err = t.loadWordPiece(f)
	default:
		err = t.bad(keyModel, "%s is not supported: want gpt2, gemma4, llama, t5 or bert", quote.Text(name))
	}
	if err != nil {
		return nil, err
	}
	if err := t.readSpecial(f); err != nil {
		return nil, err
	}
	t.makePieces()
	strip, err := t.readStrip(f)
	if err != nil {
		return nil, err
	}
	for id, s := range t.texts {
		if k := t.kinds[id]; len(s) > maxSpecial && (k == userDefined || k == control || k == unknown) {
			return nil, t.bad(keyTokens, "token %d %s is a special token of %d bytes, at most %d are looked for", id,
				quote.Text(s), len(s), maxSpecial)
		}
	}
	t.special = newPartition(t, strip)
	if t.guard = t.newGuard(); len(t.guard.marks) < 2 {
		return nil, t.bad(keyTokens, "the tokens contain the noncharacters from U+FDD0 to U+FDEF")
	}
	return t, nil
}

func (t *Tokenizer) bad(key, format string, args ...any) error {
	return fmt.Errorf("tokenizer: %s: %s: %s", t.name, key, fmt.Sprintf(format, args...))
}

// wrap keeps an error of package gguf, which names the file and the key.
func (t *Tokenizer) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tokenizer: %w", err)
}

func (t *Tokenizer) readTokens(f *gguf.File) (err error) {
	if t.texts, err = f.Strings(keyTokens); err != nil {
		return t.wrap(err)
	}
	n := len(t.texts)
	if n == 0 || n > maxTokens {
		return t.bad(keyTokens, "%d tokens, want 1 to %d", n, maxTokens)
	}
	t.kinds = slices.Repeat([]kind{normal}, n)
	if f.Has(keyTypes) {
		types, err := f.Int32s(keyTypes)
		if err != nil {
			return t.wrap(err)
		}
		if len(types) != n {
			return t.bad(keyTypes, "%d elements for %d tokens", len(types), n)
		}
		for id, k := range types {
			if k < int32(normal) || k > int32(byteToken) {
				return t.bad(keyTypes, "token %d %s is of unknown type %d", id, quote.Text(t.texts[id]), k)
			}
			t.kinds[id] = kind(k)
		}
	}
	t.ids = newIndex(t.texts)
	for id, s := range t.texts {
		if s == "" { // such a token is never written and never matched
			t.kinds[id] = unused
			continue
		}
		if first, dup := t.ids.add(int32(id)); dup {
			return t.bad(keyTokens, "tokens %d and %d are both %s", first, id, quote.Text(s))
		}
	}
	if !slices.ContainsFunc(t.kinds, func(k kind) bool { return k != unused }) {
		return t.bad(keyTokens, "all %d tokens are empty or unused", n)
	}
	return nil
}

// readID reads an optional special id.
func (t *Tokenizer) readID(f *gguf.File, key string) (int32, error) {
	if !f.Has(key) {
		return none, nil
	}
	id, err := f.Uint32(key)
	if err != nil {
		return none, t.wrap(err)
	}
	if int64(id) >= int64(len(t.texts)) {
		return none, t.bad(key, "id %d, but there are %d tokens", id, len(t.texts))
	}
	return int32(id), nil
}

// readSpecial reads the special ids and flags. The loader of the kind of tokenizer has set the flags' defaults.
func (t *Tokenizer) readSpecial(f *gguf.File) (err error) {
	t.eog = make([]bool, len(t.texts))
	for _, key := range endKeys {
		id, err := t.readID(f, key)
		if err != nil {
			return err
		}
		if id != none {
			t.eog[id] = true
		}
	}
	ids, err := f.Int32sOr(keyEndIDs, nil) // some converters write all of generation_config.json's
	if err != nil {
		return t.wrap(err)
	}
	if len(ids) > MaxEnds {
		return t.bad(keyEndIDs, "%d tokens end a text, at most %d are read", len(ids), MaxEnds)
	}
	for _, id := range ids {
		if !t.has(id) {
			return t.bad(keyEndIDs, "id %d, but there are %d tokens", id, len(t.texts))
		}
		t.eog[id] = true
	}
	if t.never, err = f.Int32sOr(keyNever, nil); err != nil {
		return t.wrap(err)
	}
	if len(t.never) > maxSuppressed {
		return t.bad(keyNever, "%d tokens are ruled out, at most %d are read", len(t.never), maxSuppressed)
	}
	for _, id := range t.never {
		if !t.has(id) {
			return t.bad(keyNever, "id %d, but there are %d tokens", id, len(t.texts))
		}
	}
	list, merges := t.model.(*bpe) // in the other kinds a token's type alone says whether it is text
	for _, s := range endTexts {
		// Converters sometimes leave these as plain or user-defined tokens. One
		// that text is merged into, such as HTML's </s>, is a plain one.
		id, ok := t.ids.id(s)
		if ok && !t.goesOn(s) && !(merges && t.kinds[id] == normal && list.joins(id)) {
			t.eog[id] = true
			t.kinds[id] = control
		}
	}
	for _, s := range []struct {
		key string
		id  *int32
	}{{keyBOS, &t.bos}, {keyEOS, &t.eos}, {keyUNK, &t.unk}} {
		if *s.id, err = t.readID(f, s.key); err != nil {
			return err
		}
	}
	if _, ok := t.model.(*wordPiece); ok {
		if err = t.readEnds(f); err != nil {
			return err
		}
	}
	if t.eos != none {
		t.eog[t.eos] = true
	}
	for _, s := range []struct {
		key  string
		flag *bool
	}{{keyAddBOS, &t.addBOS}, {keyAddEOS, &t.addEOS}, {keyPrefix, &t.prefix}} {
		if *s.flag, err = f.BoolOr(s.key, *s.flag); err != nil {
			return t.wrap(err)
		}
	}
	switch m := t.model.(type) {
	case *bpe: // files may say so, to no effect
		t.prefix = false
	case *unigram:
		t.prefix = m.prefix || m.merge
	}
	if t.addBOS && t.bos == none {
		return t.bad(keyBOS, "missing, but a BOS token is to be added")
	}
	if t.addEOS && t.eos == none {
		return t.bad(keyEOS, "missing, but an EOS token is to be added")
	}
	return nil
}

// goesOn reports whether a text of endTexts ends no text in this vocabulary.
func (t *Tokenizer) goesOn(end string) bool {
	for _, n := range notEnds {
		missing := func(s string) bool { return !t.spells(s) }
		if n.text == end && !slices.ContainsFunc(n.beside, missing) { // bound: two
			return true
		}
	}
	return false
}

// makePieces works out what every token adds to a text. They lie one behind the
// other: a vocabulary has too many for an allocation each.
func (t *Tokenizer) makePieces() {
	size := 0
	for _, s := range t.texts {
		size += max(len(s), len("\uFFFD"))
	}
	all := make([]byte, 0, size)
	t.ends = make([]uint32, len(t.texts))
	for id, s := range t.texts {
		from := len(all)
		switch t.kinds[id] {
		case control, unused:
		case userDefined:
			all = append(all, s...)
		case unknown:
			all = append(all, "\uFFFD"...)
		case byteToken:
			if b, ok := parseByte(s); ok {
				all = append(all, b)
			}
		default:
			switch t.spell {
			case plainSpaces, plainWords:
				all = append(all, strings.ReplaceAll(s, "▁", " ")...)
			case plainText:
				all = append(all, s...)
			default:
				all = spelledBytes(all, s)
			}
		}
		t.longest = max(t.longest, len(all)-from)
		// Some are found by their texts, and a text may spell ▁ itself.
		if k := t.kinds[id]; k == unused || k == unknown || k == byteToken || t.spell != byteAlphabet && k != control {
			t.longest = max(t.longest, len(s))
		}
		t.ends[id] = uint32(len(all))
	}
	t.pieces = all
}

// stripSides says on which sides of a token white space is dropped.
type stripSides struct{ left, right bool }

// readStrip reads which tokens strip spaces around them. GGUF has no field for it: files made from tokenizer.json carry
// two keys of this package, and of the other supported architectures only Phi-3's need it.
func (t *Tokenizer) readStrip(f *gguf.File) (map[int32]stripSides, error) {
	strip := map[int32]stripSides{}
	for _, key := range []string{keyLeft, keyRight} {
		ids, err := f.Int32sOr(key, nil)
		if err != nil {
			return nil, t.wrap(err)
		}
		for _, id := range ids {
			if !t.has(id) {
				return nil, t.bad(key, "id %d, but there are %d tokens", id, len(t.texts))
			}
			s := strip[id]
			s.left, s.right = s.left || key == keyLeft, s.right || key == keyRight
			strip[id] = s
		}
	}
	name, _ := f.StringOr("general.name", "")
	name = strings.ToLower(name)
	if len(strip) > 0 || !strings.Contains(name, "phi-3") && !strings.Contains(name, "phi3") {
		return strip, nil
	}
	for id, k := range t.kinds {
		if text := t.texts[id]; k != normal && text != "<unk>" && text != "<s>" && text != "<|endoftext|>" {
			strip[int32(id)] = stripSides{right: true}
		}
	}
	return strip, nil
}
