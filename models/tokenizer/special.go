package tokenizer

import (
	"slices"
	"strings"
)

// fragment is either a special token or, with id none, text to be split.
type fragment struct {
	id   int32
	text string
}

// partition finds special tokens in text: user-defined ones always, control and unknown ones when asked to. Longer
// tokens are found first, as llama.cpp and Hugging Face's tokenizers do.
type partition struct {
	lengths []specialLength // longest first
}

type specialLength struct {
	bytes  int
	starts [256]bool // first bytes, to pass over most of a text quickly
	tokens map[string]specialToken
}

type specialToken struct {
	id    int32
	asked bool // only found when special tokens are to be parsed
	strip stripSides
}

func newPartition(t *Tokenizer, strip map[int32]stripSides) partition {
	byLength := map[int]int{}
	var p partition
	for id, s := range t.texts {
		k := t.kinds[id]
		if s == "" || k != userDefined && k != control && k != unknown {
			continue
		}
		i, ok := byLength[len(s)]
		if !ok {
			i = len(p.lengths)
			byLength[len(s)] = i
			p.lengths = append(p.lengths, specialLength{bytes: len(s), tokens: map[string]specialToken{}})
		}
		l := &p.lengths[i]
		l.starts[s[0]] = true
		l.tokens[s] = specialToken{int32(id), k != userDefined, strip[int32(id)]}
	}
	slices.SortFunc(p.lengths, func(a, b specialLength) int { return b.bytes - a.bytes })
	return p
}

const whiteSpace = " \t\n\v\f\r"

// split cuts text into special tokens and what is between them, in order.
func (p *partition) split(text string, parse bool) []fragment {
	if text == "" {
		return nil
	}
	parts := []fragment{{none, text}}
	for i := range p.lengths {
		parts = p.lengths[i].split(parts, parse)
	}
	return parts
}

func (l *specialLength) split(parts []fragment, parse bool) []fragment {
	var out []fragment // stays nil as long as nothing is found
	for i, f := range parts {
		if f.id != none {
			if out != nil {
				out = append(out, f)
			}
			continue
		}
		rest := f.text
		for {
			at, tok := l.find(rest, parse)
			if at < 0 {
				break
			}
			if out == nil {
				out = append(make([]fragment, 0, len(parts)+2), parts[:i]...)
			}
			before := rest[:at]
			if tok.strip.left {
				before = strings.TrimRight(before, whiteSpace)
			}
			if before != "" {
				out = append(out, fragment{none, before})
			}
			out = append(out, fragment{id: tok.id})
			rest = rest[at+l.bytes:]
			if tok.strip.right {
				rest = strings.TrimLeft(rest, whiteSpace)
			}
		}
		if out != nil && rest != "" {
			out = append(out, fragment{none, rest})
		}
	}
	if out == nil {
		return parts
	}
	return out
}

func (l *specialLength) find(s string, parse bool) (int, specialToken) {
	for i := 0; i+l.bytes <= len(s); i++ {
		if l.starts[s[i]] {
			if tok, ok := l.tokens[s[i:i+l.bytes]]; ok && (parse || !tok.asked) {
				return i, tok
			}
		}
	}
	return -1, specialToken{}
}
