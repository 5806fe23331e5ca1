package tokenizer

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// fragment is either a special token or, with id none, text to be split.
type fragment struct {
	id   int32
	text string
}

// maxSpecial bounds the bytes of a special token, so that looking for one costs little at each byte of a text.
const maxSpecial = 256

// partition finds special tokens in text: user-defined ones always, control and unknown ones when asked to. Longer
// tokens are found first, as llama.cpp and Hugging Face's tokenizers do, and the leftmost of equally long ones.
//
// The tokens lie in the order of their bytes. Those that a text begins with are then the last one that does not come
// after the text, or tokens which that one begins with.
type partition struct {
	tokens []specialToken
	first  [257]int32 // of the tokens that begin with a byte: first[b] to first[b+1]

	longest int     // bytes of the longest token
	asked   []int32 // how many of the tokens before each are asked

	strip, stripAsked bool // a token drops white space around it: one that is always found, one that is asked
}

type specialToken struct {
	text    string
	id      int32
	shorter int32 // the longest other token that this one begins with; none without one
	asked   bool  // only found when special tokens are to be parsed
	guarded bool  // this one, or one that it begins with, is asked
	strip   stripSides
}

func newPartition(t *Tokenizer, strip map[int32]stripSides) partition {
	var p partition
	for id, s := range t.texts {
		if k := t.kinds[id]; s != "" && (k == userDefined || k == control || k == unknown) {
			p.tokens = append(p.tokens, specialToken{text: s, id: int32(id), asked: k != userDefined,
				strip: strip[int32(id)]})
		}
	}
	slices.SortStableFunc(p.tokens, func(a, b specialToken) int { return cmp.Compare(a.text, b.text) })
	p.asked = make([]int32, 1, len(p.tokens)+1)
	for i := range p.tokens {
		s := &p.tokens[i]
		s.shorter = int32(i - 1)
		for s.shorter != none && !strings.HasPrefix(s.text, p.tokens[s.shorter].text) {
			s.shorter = p.tokens[s.shorter].shorter
		}
		s.guarded = s.asked || s.shorter != none && p.tokens[s.shorter].guarded
		p.asked = append(p.asked, p.asked[i])
		if s.asked {
			p.asked[i+1]++
		}
		p.first[int(s.text[0])+1]++
		p.longest = max(p.longest, len(s.text))
		if s.strip != (stripSides{}) {
			p.strip = p.strip || !s.asked
			p.stripAsked = p.stripAsked || s.asked
		}
	}
	for b := range 256 {
		p.first[b+1] += p.first[b]
	}
	return p
}

// strips reports whether a token that is looked for drops white space around it.
func (p *partition) strips(parse bool) bool { return p.strip || parse && p.stripAsked }

// at returns the longest token that a text begins with, or none.
func (p *partition) at(text string) int32 {
	low, high := p.first[text[0]], p.first[int(text[0])+1]
	if low == high {
		return none
	}
	text = text[:min(len(text), maxSpecial)]
	from := low
	for low < high { // the first token that comes after the text
		if mid := (low + high) / 2; p.tokens[mid].text <= text {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == from {
		return none
	}
	e := low - 1
	same := 0
	for last := p.tokens[e].text; same < min(len(last), len(text)) && last[same] == text[same]; {
		same++
	}
	for e != none && len(p.tokens[e].text) > same {
		e = p.tokens[e].shorter
	}
	return e
}

// begins reports whether a token that is asked begins with the text and goes on.
func (p *partition) begins(text string) bool {
	if p.first[text[0]] == p.first[int(text[0])+1] || len(text) >= p.longest {
		return false
	}
	from := sort.Search(len(p.tokens), func(i int) bool { return p.tokens[i].text > text })
	to := sort.Search(len(p.tokens), func(i int) bool {
		s := p.tokens[i].text
		return s[:min(len(s), len(text))] > text
	})
	return p.asked[to] > p.asked[from]
}

// place is a token that may be at a place of a text.
type place struct{ at, token int32 }

const whiteSpace = " \t\n\v\f\r"

// split cuts text into special tokens and what is between them, in order. Control tokens before a mark are text; the
// mark may be empty. Its time is proportional to the text.
func (p *partition) split(text string, parse bool, mark string, m *meter) []fragment {
	if text == "" {
		return nil
	}
	// usable returns a token, or the longest one that it begins with, that is looked for and whose end is free.
	var taken []bool
	usable := func(at, e int32) int32 {
		for ; e != none; e = p.tokens[e].shorter {
			s := &p.tokens[e]
			if taken != nil && taken[int(at)+len(s.text)-1] || s.asked && (!parse || mark != "" &&
				strings.HasPrefix(text[int(at)+len(s.text):], mark) && utf8.RuneCountInString(s.text) == 1) {
				continue
			}
			break
		}
		return e
	}
	var found [maxSpecial + 1][]place // by the bytes of the token
	some := false
	for i := range len(text) {
		if i%slice == 0 && !m.spend(slice/10) {
			return nil
		}
		if p.first[text[i]] == p.first[int(text[i])+1] {
			continue
		}
		if e := usable(int32(i), p.at(text[i:])); e != none {
			n := len(p.tokens[e].text)
			found[n], some = append(found[n], place{int32(i), e}), true
		}
	}
	if !some {
		return []fragment{{none, text}}
	}
	taken = make([]bool, len(text))
	var all []place
	for n := maxSpecial; n > 0; n-- {
		// Tokens that others left no room for have become shorter ones.
		slices.SortStableFunc(found[n], func(a, b place) int { return int(a.at - b.at) })
		for i, c := range found[n] {
			if i%slice == 0 && !m.spend(slice/10) {
				return nil
			}
			at, s := int(c.at), &p.tokens[c.token]
			// What is taken is as long at least, so it covers the first byte or the last one.
			if taken[at] {
				continue
			}
			if taken[at+n-1] {
				if e := usable(c.at, s.shorter); e != none {
					k := len(p.tokens[e].text)
					found[k] = append(found[k], place{c.at, e})
				}
				continue
			}
			from, to := at, at+n
			for s.strip.left && from > 0 && !taken[from-1] && strings.IndexByte(whiteSpace, text[from-1]) >= 0 {
				from--
			}
			for s.strip.right && to < len(text) && !taken[to] && strings.IndexByte(whiteSpace, text[to]) >= 0 {
				to++
			}
			for i := from; i < to; i++ {
				taken[i] = true
			}
			all = append(all, c)
		}
		found[n] = nil
	}
	slices.SortStableFunc(all, func(a, b place) int { return int(a.at - b.at) })
	parts := make([]fragment, 0, 2*len(all)+1)
	free := func(from, to int) { // what is taken there is white space
		for from < to && taken[from] {
			from++
		}
		for from < to && taken[to-1] {
			to--
		}
		if from < to {
			parts = append(parts, fragment{none, text[from:to]})
		}
	}
	from := 0
	for _, c := range all {
		free(from, int(c.at))
		parts = append(parts, fragment{id: p.tokens[c.token].id})
		from = int(c.at) + len(p.tokens[c.token].text)
	}
	free(from, len(text))
	return parts
}
