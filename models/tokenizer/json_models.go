package tokenizer

import (
	"cmp"
	"slices"
	"strings"

	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
	"foretoken/models/gguf"
)

// maxPiece bounds the tokens of vocabularies over characters, whose every way to
// be cut in two is looked up. The longest published ones have 93 bytes.
const maxPiece = 256

// preName finds the pre-tokenizer that cuts as tokenizer.json says.
func (c *converter) preName() (string, error) {
	const field = "pre_tokenizer"
	var exprs []string
	bytes := false
	for _, p := range flat(c.j.Pre, func(p component) []component { return p.Pres }) {
		if bytes {
			return "", c.fail(field, "%s after ByteLevel is not supported", quote.Text(p.Type))
		}
		switch p.Type {
		case "Split":
			switch {
			case p.Pattern.Regex == nil:
				return "", c.fail(field, "a Split without a Regex is not supported")
			case p.Behavior == "Isolated" && !p.Invert, p.Behavior == "Removed" && p.Invert:
				exprs = append(exprs, plainRegex(*p.Pattern.Regex))
			default:
				return "", c.fail(field, "a Split of behaviour %s, inverted: %t, is not supported",
					quote.Text(p.Behavior), p.Invert)
			}
		case "Digits":
			if !p.Individual {
				return "", c.fail(field, "Digits in runs are not supported")
			}
			exprs = append(exprs, `\p{N}`)
		case "ByteLevel":
			if p.AddPrefix {
				return "", c.fail(field, "ByteLevel with add_prefix_space is not supported")
			}
			if bytes = true; p.UseRegex == nil || *p.UseRegex {
				exprs = append(exprs, gpt2Words)
			}
		default:
			return "", c.fail(field, "%s is not supported: want Split, Digits and ByteLevel", quote.Text(p.Type))
		}
	}
	if !bytes {
		return "", c.fail(field, "ByteLevel is missing, but the decoder is byte-level")
	}
	other := ""
	for _, p := range preTokenizers {
		switch {
		case !slices.Equal(p.exprs, exprs):
		case p.wholeWords == c.m.IgnoreMerges || p.anyMerges:
			return p.names[0], nil
		default:
			other = p.names[0]
		}
	}
	if other != "" {
		return "", c.fail("model.ignore_merges", "%t is not what the pre-tokenizer %s goes with",
			c.m.IgnoreMerges, other)
	}
	all := quote.Escape(strings.Join(exprs, " and then "), 600) // as long as any known one, to be looked up
	return "", c.fail(field, "no known pre-tokenizer cuts by %s", cmp.Or(all, "nothing but bytes"))
}

// plainRegex writes an expression as this package's are: line ends as escapes,
// and contractions letter by letter, because Unicode folds ſ to s.
func plainRegex(s string) string {
	s = strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(s)
	return strings.ReplaceAll(s, `(?i:'s|'t|'re|'ve|'m|'ll|'d)`, contracted)
}

// spaces reads how spaces are written: it wants them as ▁, and reports whether one is put before a text.
func (c *converter) spaces() (prefix bool, err error) {
	replaced := false
	for _, n := range flat(c.j.Norm, func(p component) []component { return p.Norms }) {
		var content string
		_ = strictjson.DecodeForeign(n.Content, &content)
		switch {
		case n.Type == "Prepend" && n.Prepend == "▁" && !replaced:
			prefix = true
		case n.Type == "Replace" && n.Pattern.String != nil && *n.Pattern.String == " " && content == "▁":
			replaced = true
		default:
			return false, c.fail("normalizer", "%s is not supported here: want Prepend and Replace of spaces by ▁",
				quote.Text(n.Type))
		}
	}
	for _, p := range flat(c.j.Pre, func(p component) []component { return p.Pres }) {
		if p.Type != "Metaspace" || replaced || p.Replacement != "▁" {
			return false, c.fail("pre_tokenizer", "%s is not supported here: want Metaspace with ▁", quote.Text(p.Type))
		}
		replaced = true
		// Without a scheme, as older files are, add_prefix_space says it.
		prefix = p.Scheme == "first" || p.Scheme == "always" || p.Scheme == "" && p.AddPrefix
		if p.Split != nil && !*p.Split {
			continue
		}
		for id, text := range c.tokens {
			if i := strings.LastIndex(text, "▁"); i > 0 && c.kinds[id] == int32(normal) {
				return false, c.fail("pre_tokenizer",
					"Metaspace cuts before every ▁, but the token %s goes over one: not supported", quote.Text(text))
			}
		}
	}
	if !replaced {
		return false, c.fail("normalizer", "nothing writes spaces as ▁: not supported")
	}
	return prefix, nil
}

// markPieces sets the types of byte tokens and of the unknown token.
func (c *converter) markPieces() error {
	for id, text := range c.tokens {
		if len(text) > maxPiece && c.kinds[id] == int32(normal) {
			return c.fail("model.vocab", "token %d has %d bytes, at most %d are allowed", id, len(text), maxPiece)
		}
		if _, ok := parseByte(text); ok && c.kinds[id] == int32(normal) {
			c.kinds[id] = int32(byteToken)
		}
	}
	unk := c.config.UNK.text
	if c.m.Unknown != nil {
		unk = *c.m.Unknown
	}
	if id, ok := c.ids.id(unk); ok && unk != "" {
		c.kinds[id] = int32(unknown)
	}
	return nil
}

// characters converts BPE over characters to SentencePiece's, which has a score for each token instead of a list of
// merges. One can stand for the other if the merges that give a token follow each other and every way to put a
// token together is listed, as in files that were made from SentencePiece's: a score has no order among those ways,
// and leaves none out. Where places with different ways to the same token touch, the leftmost is merged first, as
// SentencePiece does.
func (c *converter) characters() ([]gguf.KV, error) {
	const field = "model.merges"
	if err := c.vocabulary(); err != nil {
		return nil, err
	}
	if err := c.markPieces(); err != nil {
		return nil, err
	}
	prefix, err := c.spaces()
	if err != nil {
		return nil, err
	}
	rank := make([]int32, len(c.tokens)) // from 1, in order of the merges
	seen := make(map[pair]struct{}, len(c.m.Merges))
	last, ranks := none, int32(0)
	for i, line := range c.m.Merges {
		first, second := mergeOf(line)
		left, ok1 := c.ids.id(first)
		right, ok2 := c.ids.id(second)
		id, ok3 := c.ids.id(first + second)
		if !ok1 || !ok2 || !ok3 {
			return nil, c.fail(field, "merge %d of %s and %s needs tokens that the vocabulary does not have", i,
				quote.Text(first), quote.Text(second))
		}
		if id != last {
			if rank[id] != 0 {
				return nil, c.fail(field, "merge %d gives %s, which merges before the last gave too: "+
					"scores cannot say that", i, quote.Text(c.tokens[id]))
			}
			ranks++
			rank[id], last = ranks, id
		}
		seen[pair{left, right}] = struct{}{}
	}
	scores := make([]float32, len(c.tokens))
	for id, text := range c.tokens {
		if c.kinds[id] != int32(normal) {
			continue
		}
		if rank[id] != 0 {
			scores[id] = float32(1 - rank[id])
		} else {
			scores[id] = -float32(ranks)
			ranks++
		}
		for at := range text {
			if at == 0 {
				continue
			}
			left, ok1 := c.ids.id(text[:at])
			right, ok2 := c.ids.id(text[at:])
			if _, listed := seen[pair{left, right}]; ok1 && ok2 && !listed {
				return nil, c.fail(field, "%s can be put together from %s and %s, which is not listed: "+
					"scores would allow it", quote.Text(text), quote.Text(text[:at]), quote.Text(text[at:]))
			}
		}
	}
	c.m.Merges = nil
	return []gguf.KV{{Key: keyModel, Value: "llama"}, {Key: keyPre, Value: "default"}, {Key: keyScores, Value: scores},
		{Key: keyPrefix, Value: prefix}}, nil
}

// unigram converts a Unigram vocabulary: texts with log probabilities.
func (c *converter) unigram() ([]gguf.KV, error) {
	const field = "model.vocab"
	if c.m.Vocab.scores == nil {
		return nil, c.fail(field, "want a list of texts with scores")
	}
	if err := c.addTokens(c.m.Vocab.tokens); err != nil {
		return nil, err
	}
	scores := make([]float32, len(c.tokens))
	for id, x := range c.m.Vocab.scores {
		scores[id] = float32(x)
	}
	if id := c.m.UnknownID; id != nil && *id >= 0 && *id < int64(len(c.tokens)) {
		c.config.UNK.text = c.tokens[*id]
	} else if !c.m.ByteFallback {
		return nil, c.fail("model.unk_id", "missing, so not every text can be written")
	}
	if err := c.markPieces(); err != nil {
		return nil, err
	}
	if !c.m.ByteFallback { // then bytes are texts like others
		for id, k := range c.kinds {
			if k == int32(byteToken) {
				c.kinds[id] = int32(normal)
			}
		}
	}
	prefix, err := c.spaces()
	if err != nil {
		return nil, err
	}
	return []gguf.KV{{Key: keyModel, Value: "t5"}, {Key: keyPre, Value: "default"},
		{Key: keyScores, Value: scores}, {Key: keyPrefix, Value: prefix},
		{Key: keyExtraSpace, Value: false}}, nil
}
