package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
)

// A tokenizer.json is large because of two lists, for which reflection takes seconds in a browser and many times their
// size in memory. They are read in place, after strictjson has checked the file: texts share the file's memory.

// jsonVocab is a vocabulary: an object of ids by token, or Unigram's list of texts with scores.
type jsonVocab struct {
	tokens []vocabToken
	scores []float64 // of Unigram's list, whose ids are its places; nil for an object
}

type vocabToken struct {
	text string
	id   int64
}

// jsonMerges are pairs of tokens, each written as "a b" or as ["a", "b"]. They are kept as texts with a space between,
// or with wideSpace where a token of the list contains a space itself.
type jsonMerges []string

// wideSpace is a byte that no text of JSON contains.
const wideSpace = "\xff"

// mergeOf returns the two tokens of a merge.
func mergeOf(line string) (left, right string) {
	left, right, wide := strings.Cut(line, wideSpace)
	if !wide {
		left, right, _ = strings.Cut(line, " ")
	}
	return left, right
}

// maxParts bounds the components of a pipeline, several times as many as published pipelines have.
const maxParts = 64

// parts are the components of a sequence, pieces the parts of a template. Both are counted before they are decoded.
type (
	parts  []component
	pieces []piece
)

func (p *parts) UnmarshalJSON(b []byte) error { return few(b, (*[]component)(p)) }

func (p *pieces) UnmarshalJSON(b []byte) error { return few(b, (*[]piece)(p)) }

func few[E any](b []byte, into *[]E) error {
	n := 0
	for range strictjson.Elements(b) {
		if n++; n > maxParts {
			return fmt.Errorf("more than %d parts in a sequence", maxParts)
		}
	}
	return strictjson.DecodeForeign(b, into)
}

// counted returns the number of values, at most maxTokens.
func counted[V any](each func(func(V) bool), what string) (n int, err error) {
	for range each {
		if n++; n > maxTokens {
			return 0, fmt.Errorf("%s: more than %d", what, maxTokens)
		}
	}
	return n, nil
}

func (v *jsonVocab) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '[':
		return v.list(b)
	case '{':
	default:
		return errors.New("model.vocab: want an object of ids by token")
	}
	n, err := counted(func(yield func(string) bool) {
		for name := range strictjson.Members(b) {
			if !yield(name) {
				return
			}
		}
	}, "model.vocab")
	if err != nil {
		return err
	}
	v.tokens = make([]vocabToken, 0, n)
	for text, raw := range strictjson.Members(b) {
		id, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil {
			return fmt.Errorf("model.vocab: the id of %s is no integer", quote.Text(text))
		}
		v.tokens = append(v.tokens, vocabToken{text, id})
	}
	return nil
}

// list reads Unigram's vocabulary.
func (v *jsonVocab) list(b []byte) error {
	n, err := counted(strictjson.Elements(b), "model.vocab")
	if err != nil {
		return err
	}
	v.tokens, v.scores = make([]vocabToken, 0, n), make([]float64, 0, n)
	for e := range strictjson.Elements(b) {
		id := len(v.tokens)
		if e[0] != '[' {
			return fmt.Errorf("model.vocab: token %d is no text with a score", id)
		}
		part := 0
		for raw := range strictjson.Elements(e) {
			switch part {
			case 0:
				if raw[0] != '"' {
					return fmt.Errorf("model.vocab: the text of token %d is no text", id)
				}
				v.tokens = append(v.tokens, vocabToken{strictjson.Text(raw), int64(id)})
			case 1:
				score, err := strconv.ParseFloat(string(raw), 32)
				if err != nil {
					return fmt.Errorf("model.vocab: the score of token %d %s is no number", id,
						quote.Text(v.tokens[id].text))
				}
				v.scores = append(v.scores, score)
			}
			part++
		}
		if part != 2 {
			return fmt.Errorf("model.vocab: token %d is no text with a score", id)
		}
	}
	return nil
}

func (m *jsonMerges) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	if b[0] != '[' {
		return errors.New("model.merges: want a list")
	}
	n, err := counted(strictjson.Elements(b), "model.merges")
	if err != nil {
		return err
	}
	*m = make(jsonMerges, 0, n)
	known := newIndex((*m)[:n])
	for raw := range strictjson.Elements(b) {
		line := ""
		switch raw[0] {
		case '"':
			line = strictjson.Text(raw)
			if strings.Count(line, " ") != 1 {
				return fmt.Errorf("model.merges: merge %d %s is not two tokens with a space between", len(*m),
					quote.Text(line))
			}
		case '[':
			var two [2]string
			n := 0
			for text := range strictjson.Elements(raw) {
				if n++; n > 2 || text[0] != '"' {
					return fmt.Errorf("model.merges: merge %d is not two tokens", len(*m))
				}
				two[n-1] = strictjson.Text(text)
			}
			if n != 2 {
				return fmt.Errorf("model.merges: merge %d is not two tokens", len(*m))
			}
			between := " "
			if strings.Contains(two[0], " ") || strings.Contains(two[1], " ") {
				between = wideSpace
			}
			line = two[0] + between + two[1]
		default:
			return fmt.Errorf("model.merges: merge %d is neither a text nor a list of two", len(*m))
		}
		if left, right := mergeOf(line); left == "" || right == "" {
			return fmt.Errorf("model.merges: merge %d %s has an empty token", len(*m), quote.Text(line))
		}
		*m = append(*m, line)
		if first, dup := known.add(int32(len(*m) - 1)); dup {
			return fmt.Errorf("model.merges: merges %d and %d are both %s", first, len(*m)-1, quote.Text(line))
		}
	}
	return nil
}
