package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/models/gguf"
)

// Keys that only this file and New's callers write.
const (
	keyPAD       = "tokenizer.ggml.padding_token_id"
	keyTemplate  = "tokenizer.chat_template"
	keyTemplates = "tokenizer.chat_templates"
	// Ids of added tokens that take the white space on their left or right with them. GGUF has no fields for it.
	keyLeft  = "foretoken.tokenizer.lstrip"
	keyRight = "foretoken.tokenizer.rstrip"
)

// maxJSON is several times the largest published tokenizer.json.
const maxJSON = 64 << 20

// The parts of tokenizer.json that decide ids.
type (
	jsonTokenizer struct {
		Added  []addedToken `json:"added_tokens"`
		Norm   *component   `json:"normalizer"`
		Pre    *component   `json:"pre_tokenizer"`
		Post   *component   `json:"post_processor"`
		Decode *component   `json:"decoder"`
		Model  *jsonModel   `json:"model"`
	}
	addedToken struct {
		ID         int64  `json:"id"`
		Content    string `json:"content"`
		SingleWord bool   `json:"single_word"`
		Left       bool   `json:"lstrip"`
		Right      bool   `json:"rstrip"`
		Special    bool   `json:"special"`
	}
	jsonModel struct {
		Type         string     `json:"type"`
		Vocab        jsonVocab  `json:"vocab"`
		Merges       jsonMerges `json:"merges"`
		Unknown      *string    `json:"unk_token"`
		UnknownID    *int64     `json:"unk_id"`
		Dropout      *float64   `json:"dropout"`
		Prefix       *string    `json:"continuing_subword_prefix"`
		Suffix       *string    `json:"end_of_word_suffix"`
		ByteFallback bool       `json:"byte_fallback"`
		IgnoreMerges bool       `json:"ignore_merges"`
	}
	// component is a part of a pipeline, with the fields of every kind.
	component struct {
		Type       string `json:"type"`
		Norms      parts  `json:"normalizers"`
		Pres       parts  `json:"pretokenizers"`
		Processors parts  `json:"processors"`
		Pattern    struct {
			Regex  *string
			String *string
		} `json:"pattern"`
		Content     json.RawMessage `json:"content"`
		Behavior    string          `json:"behavior"`
		Invert      bool            `json:"invert"`
		Individual  bool            `json:"individual_digits"`
		AddPrefix   bool            `json:"add_prefix_space"`
		UseRegex    *bool           `json:"use_regex"`
		Prepend     string          `json:"prepend"`
		Replacement string          `json:"replacement"`
		Scheme      string          `json:"prepend_scheme"`
		Split       *bool           `json:"split"`
		Single      pieces          `json:"single"`
	}
	// piece is one of what a post-processor puts around a text, or the text.
	piece struct {
		Special *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
		Sequence *struct{} `json:"Sequence"`
	}
)

// converter collects the metadata of one tokenizer.json.
type converter struct {
	name   string
	j      jsonTokenizer
	m      jsonModel
	config tokenizerConfig
	tokens []string
	kinds  []int32
	ids    *index
	first  string // text that the post-processor puts before the input
	last   string
}

func (c *converter) fail(field, format string, args ...any) error {
	return fmt.Errorf("tokenizer: %s: %s: %s", c.name, field, fmt.Sprintf(format, args...))
}

// MetadataFromJSON converts tokenizer.json and, if not empty, tokenizer_config.json to the tokenizer keys of a GGUF
// file, as llama.cpp's converter writes them, with the chat templates. Byte-level BPE becomes "gpt2", BPE over
// characters with byte fallback "llama" with scores, Unigram "t5". A tokenizer without an exact equivalent is
// refused with the reason. The texts of the result share the memory of the two files, which must not change.
//
// New reads the result. Like llama.cpp it does not normalise text to NFC, which Qwen's tokenizer.json asks for:
// decomposed characters (e and a combining accent) get other ids than from Transformers.
func MetadataFromJSON(name string, tokenizerJSON, tokenizerConfig []byte) ([]gguf.KV, error) {
	c := &converter{name: name}
	if len(tokenizerJSON) > maxJSON || len(tokenizerConfig) > maxJSON {
		return nil, c.fail("size", "more than %d MiB", maxJSON>>20)
	}
	if err := strictjson.DecodeForeign(tokenizerJSON, &c.j); err != nil {
		return nil, c.fail("JSON", "%v: download the file again", quote.Error(err))
	}
	if c.j.Model == nil {
		return nil, c.fail("model", "missing: this is no tokenizer.json")
	}
	c.m = *c.j.Model
	if len(tokenizerConfig) > 0 {
		if err := strictjson.DecodeForeign(tokenizerConfig, &c.config); err != nil {
			return nil, c.fail("tokenizer_config.json", "%v", quote.Error(err))
		}
	}
	if c.m.Dropout != nil && *c.m.Dropout != 0 {
		return nil, c.fail("model.dropout", "%v makes ids random: set it to null", *c.m.Dropout)
	}
	if c.m.Prefix != nil && *c.m.Prefix != "" || c.m.Suffix != nil && *c.m.Suffix != "" {
		return nil, c.fail("model", "marks of continued or ended words are not supported")
	}
	if err := c.postProcessor(c.j.Post); err != nil {
		return nil, err
	}
	var kv []gguf.KV
	var err error
	switch {
	case c.m.Type == "Unigram":
		kv, err = c.unigram()
	case c.m.Type != "BPE" && c.m.Type != "":
		return nil, c.fail("model.type", "%s is not supported: want BPE or Unigram", quote.Text(c.m.Type))
	case c.byteLevel(c.j.Pre) || c.byteLevel(c.j.Decode):
		kv, err = c.bytes()
	case c.m.ByteFallback:
		kv, err = c.characters()
	default:
		return nil, c.fail("model",
			"BPE over characters without byte_fallback cannot write every text and is not supported")
	}
	if err != nil {
		return nil, err
	}
	return c.finish(kv)
}

// byteLevel reports whether a component turns text into the byte alphabet.
func (c *converter) byteLevel(p *component) bool {
	if p == nil {
		return false
	}
	return p.Type == "ByteLevel" || slices.ContainsFunc(p.Pres, func(p component) bool { return p.Type == "ByteLevel" })
}

// addTokens puts the vocabulary and the added tokens in order of id. Ids that
// neither has are filled as llama.cpp's converter does.
func (c *converter) addTokens(vocab []vocabToken) error {
	most := int64(-1)
	for _, v := range vocab {
		if v.id < 0 || v.id >= maxTokens {
			return c.fail("model.vocab", "the id of %s is %d, want 0 to %d", quote.Text(v.text), v.id, maxTokens-1)
		}
		most = max(most, v.id)
	}
	for _, a := range c.j.Added {
		if a.ID < 0 || a.ID >= maxTokens || a.Content == "" {
			return c.fail("added_tokens", "the id of %s is %d, want 0 to %d and a text", quote.Text(a.Content),
				a.ID, maxTokens-1)
		}
		most = max(most, a.ID)
	}
	if known := int64(len(vocab) + len(c.j.Added)); most >= 2*known+1024 {
		return c.fail("model.vocab", "there is an id %d, but only %d tokens", most, known)
	}
	if most < 0 {
		return c.fail("model.vocab", "no tokens")
	}
	c.tokens = make([]string, most+1)
	c.kinds = make([]int32, most+1)
	c.ids = newIndex(c.tokens)
	for _, v := range vocab {
		if c.kinds[v.id] != 0 {
			return c.fail("model.vocab", "%s and %s both have the id %d", quote.Text(min(v.text, c.tokens[v.id])),
				quote.Text(max(v.text, c.tokens[v.id])), v.id)
		}
		c.tokens[v.id], c.kinds[v.id] = v.text, int32(normal)
		if first, dup := c.ids.add(int32(v.id)); dup {
			return c.fail("model.vocab", "tokens %d and %d are both %s", first, v.id, quote.Text(v.text))
		}
	}
	for _, a := range c.j.Added {
		if id, ok := c.ids.id(a.Content); ok && int64(id) != a.ID {
			return c.fail("added_tokens", "%s has the id %d here and %d in the vocabulary",
				quote.Text(a.Content), a.ID, id)
		}
		if c.kinds[a.ID] != 0 && c.tokens[a.ID] != a.Content {
			return c.fail("added_tokens", "the id %d is of %s here and of %s in the vocabulary", a.ID,
				quote.Text(a.Content), quote.Text(c.tokens[a.ID]))
		}
		if a.SingleWord {
			return c.fail("added_tokens", "%s is only found as a single word, which is not supported",
				quote.Text(a.Content))
		}
		c.tokens[a.ID], c.kinds[a.ID] = a.Content, int32(userDefined)
		if a.Special || looksSpecial(a.Content) {
			c.kinds[a.ID] = int32(control)
		}
		c.ids.add(int32(a.ID))
	}
	for id := range c.tokens {
		if c.kinds[id] == 0 {
			c.tokens[id], c.kinds[id] = fmt.Sprintf("[PAD%d]", id), int32(unused)
			if _, taken := c.ids.id(c.tokens[id]); taken {
				return c.fail("model.vocab", "no token has the id %d", id)
			}
		}
	}
	return nil
}

// looksSpecial reports whether a token's text is a control token's by its form, because some published files do not
// mark theirs as special.
func looksSpecial(s string) bool {
	for _, ends := range [][2]string{{"<|", "|>"}, {"<｜", "｜>"}, {"<unused", ">"}} {
		if strings.HasPrefix(s, ends[0]) && strings.HasSuffix(s, ends[1]) {
			return true
		}
	}
	return s == "<pad>" || s == "<mask>"
}

// vocabulary takes BPE's.
func (c *converter) vocabulary() error {
	if c.m.Vocab.tokens == nil || c.m.Vocab.scores != nil {
		return c.fail("model.vocab", "want an object of ids by token")
	}
	return c.addTokens(c.m.Vocab.tokens)
}

// bytes converts byte-level BPE.
func (c *converter) bytes() ([]gguf.KV, error) {
	for _, n := range flat(c.j.Norm, func(p component) []component { return p.Norms }) {
		if n.Type != "NFC" {
			return nil, c.fail("normalizer", "%s is not supported before byte-level BPE", quote.Text(n.Type))
		}
	}
	pre, err := c.preName()
	if err != nil {
		return nil, err
	}
	if err := c.vocabulary(); err != nil {
		return nil, err
	}
	for i, line := range c.m.Merges {
		if strings.Contains(line, wideSpace) {
			first, second := mergeOf(line)
			return nil, c.fail("model.merges", "merge %d of %s and %s has a token with a space", i, quote.Text(first),
				quote.Text(second))
		}
	}
	return []gguf.KV{{Key: keyModel, Value: "gpt2"}, {Key: keyPre, Value: pre},
		{Key: keyMerges, Value: []string(c.m.Merges)}}, nil
}

// flat lists a component, or its parts if it is a sequence of them.
func flat(p *component, parts func(component) []component) []component {
	switch {
	case p == nil:
		return nil
	case p.Type == "Sequence":
		return parts(*p)
	}
	return []component{*p}
}

// postProcessor reads what is put around a text.
func (c *converter) postProcessor(p *component) error {
	for _, p := range flat(p, func(p component) []component { return p.Processors }) {
		switch p.Type {
		case "ByteLevel": // only moves offsets
		case "TemplateProcessing":
			text := false
			for _, s := range p.Single {
				switch {
				case s.Sequence != nil:
					text = true
				case s.Special == nil:
					return c.fail("post_processor", "a part is neither a token nor the text")
				case !text && c.first == "":
					c.first = s.Special.ID
				case text && c.last == "":
					c.last = s.Special.ID
				default:
					return c.fail("post_processor", "more than one token before or after a text is not supported")
				}
			}
		default:
			return c.fail("post_processor", "%s is not supported: want TemplateProcessing", quote.Text(p.Type))
		}
	}
	return nil
}

// finish adds the keys common to all kinds of tokenizers.
func (c *converter) finish(kv []gguf.KV) ([]gguf.KV, error) {
	kv = append(kv, gguf.KV{Key: keyTokens, Value: c.tokens}, gguf.KV{Key: keyTypes, Value: c.kinds})
	special := map[string]int32{}
	for _, s := range []struct{ key, text string }{
		{keyBOS, c.config.BOS.text}, {keyEOS, c.config.EOS.text}, {keyUNK, c.config.UNK.text},
		{keyPAD, c.config.PAD.text},
	} {
		switch {
		case s.text == "" && s.key == keyBOS:
			s.text = c.first
		case s.text == "" && s.key == keyEOS:
			s.text = c.last
		case s.text == "" && s.key == keyUNK && c.m.Unknown != nil:
			s.text = *c.m.Unknown
		case s.text == "" && s.key == keyUNK && c.m.UnknownID != nil && *c.m.UnknownID >= 0 &&
			*c.m.UnknownID < int64(len(c.tokens)):
			s.text = c.tokens[*c.m.UnknownID]
		}
		if s.text == "" {
			continue
		}
		id, ok := c.ids.id(s.text)
		if !ok && (s.key == keyPAD || s.key == keyUNK) {
			continue // named by habit; nothing is padded, and bytes have no unknown ones
		}
		if !ok {
			return nil, c.fail(s.key, "the token %s is not in the vocabulary", quote.Text(s.text))
		}
		special[s.key] = id
		kv = append(kv, gguf.KV{Key: s.key, Value: uint32(id)})
	}
	for _, s := range []struct {
		key, of, text string
		flag          *bool
	}{{keyAddBOS, keyBOS, c.first, c.config.AddBOS}, {keyAddEOS, keyEOS, c.last, c.config.AddEOS}} {
		of, set := special[s.of]
		if id, ok := c.ids.id(s.text); s.text != "" && (!ok || !set || id != of) {
			return nil, c.fail("post_processor", "%s is put around a text and is not the token of %s",
				quote.Text(s.text), s.of)
		}
		kv = append(kv, gguf.KV{Key: s.key, Value: set && (s.text != "" || s.flag != nil && *s.flag)})
	}
	var left, right []int32
	for _, a := range c.j.Added {
		if a.Left {
			left = append(left, int32(a.ID))
		}
		if a.Right {
			right = append(right, int32(a.ID))
		}
	}
	for _, s := range []struct {
		key string
		ids []int32
	}{{keyLeft, left}, {keyRight, right}} {
		if len(s.ids) > 0 {
			kv = append(kv, gguf.KV{Key: s.key, Value: s.ids})
		}
	}
	return append(kv, c.config.templates()...), nil
}
