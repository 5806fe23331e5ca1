package tokenizer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"foretoken/internal/strictjson"
	"foretoken/models/gguf"
)

// A tokenizer.json is large because of two lists, which reflection takes seconds for in a browser. They are read by
// hand: encoding/json has checked that they are JSON before it hands them over.

// jsonVocab is an object of ids by token, or Unigram's list, left as it is.
type jsonVocab struct {
	ids  map[string]int64
	list json.RawMessage
}

// jsonMerges are pairs of tokens, each written as "a b" or as ["a", "b"].
type jsonMerges []jsonMerge

type jsonMerge struct{ left, right string }

func (v *jsonVocab) UnmarshalJSON(b []byte) error {
	s := jsonScanner{b: b}
	switch s.peek() {
	case '[':
		v.list = append(json.RawMessage(nil), b...)
		return nil
	case '{':
	default:
		return fmt.Errorf("vocab: want an object of ids by token")
	}
	v.ids = make(map[string]int64, len(b)/20)
	for s.i++; s.peek() == '"'; {
		text, err := s.text()
		if err != nil {
			return err
		}
		s.peek() // the colon
		s.i++
		id, ok := s.integer()
		if !ok {
			return fmt.Errorf("vocab: the id of %s is no integer", gguf.Quote(text))
		}
		if first, dup := v.ids[text]; dup {
			return fmt.Errorf("vocab: %s has the ids %d and %d", gguf.Quote(text), first, id)
		}
		v.ids[text] = id
		if s.peek() == ',' {
			s.i++
		}
	}
	return nil
}

func (m *jsonMerges) UnmarshalJSON(b []byte) error {
	s := jsonScanner{b: b}
	if string(b) == "null" {
		return nil
	}
	if s.peek() != '[' {
		return fmt.Errorf("merges: want a list")
	}
	*m = make(jsonMerges, 0, len(b)/24)
	for s.i++; ; {
		switch s.peek() {
		case '"':
			line, err := s.text()
			if err != nil {
				return err
			}
			left, right, ok := strings.Cut(line, " ")
			if !ok || strings.Contains(right, " ") {
				return fmt.Errorf("merges: %s is not two tokens with a space between", gguf.Quote(line))
			}
			*m = append(*m, jsonMerge{left, right})
		case '[':
			var two [2]string
			n := 0
			for s.i++; s.peek() == '"'; n++ {
				text, err := s.text()
				if err != nil {
					return err
				}
				two[min(n, 1)] = text
				if s.peek() == ',' {
					s.i++
				}
			}
			if n != 2 || s.peek() != ']' {
				return fmt.Errorf("merges: merge %d is not two tokens", len(*m))
			}
			s.i++
			*m = append(*m, jsonMerge{two[0], two[1]})
		case ']':
			return nil
		default:
			return fmt.Errorf("merges: merge %d is neither a text nor a list of two", len(*m))
		}
		if s.peek() == ',' {
			s.i++
		}
	}
}

// jsonScanner goes over valid JSON.
type jsonScanner struct {
	b []byte
	i int
}

// peek skips white space and gives the byte after it, 0 at the end.
func (s *jsonScanner) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		if c := s.b[s.i]; c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
	}
	return 0
}

// text reads the string that begins here. What is not UTF-8 becomes U+FFFD, as in encoding/json.
func (s *jsonScanner) text() (text string, err error) {
	from, escaped := s.i, false
	for s.i++; s.i < len(s.b) && s.b[s.i] != '"'; s.i++ {
		if s.b[s.i] == '\\' {
			escaped = true
			s.i++
		}
	}
	s.i = min(s.i+1, len(s.b))
	raw := s.b[from:s.i]
	if !escaped && len(raw) >= 2 {
		return strings.ToValidUTF8(string(raw[1:len(raw)-1]), "\uFFFD"), nil
	}
	err = strictjson.DecodeForeign(raw, &text)
	return text, err
}

func (s *jsonScanner) integer() (int64, bool) {
	s.peek()
	from := s.i
	for s.i < len(s.b) && (s.b[s.i] == '-' || s.b[s.i] >= '0' && s.b[s.i] <= '9') {
		s.i++
	}
	n, err := strconv.ParseInt(string(s.b[from:s.i]), 10, 64)
	if c := s.peek(); err != nil || c != ',' && c != '}' {
		return 0, false
	}
	return n, true
}
