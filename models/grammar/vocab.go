package grammar

import (
	"bytes"
	"slices"
)

// Vocab is the bytes of a vocabulary's tokens as a trie, so that tokens that begin alike are tried together.
type Vocab struct {
	words  int // of a mask
	pieces [][]byte
	ending []bool // of each token: it ends a text
	nodes  []trieNode
	tokens []int32 // in the order of the nodes that they end at
	deep   int
}

// trieNode is a byte of the trie; nodes are in depth-first order.
type trieNode struct {
	after  int32 // the node after those below this one
	tokens int32 // where the tokens that end here begin; they go on to the next node's
	depth  uint16
	b      byte
}

// longestPiece is the most bytes of a token that a grammar is asked about: longer ones are not allowed anywhere.
const longestPiece = 1 << 10

// NewVocab makes the trie of n tokens. piece gives a token's bytes, none where it is no text,
// such as a control token; ends reports whether a token ends the text.
func NewVocab(n int, piece func(token int32) []byte, ends func(token int32) bool) *Vocab {
	v := &Vocab{words: (n + 31) / 32, pieces: make([][]byte, n), ending: make([]bool, n)}
	var order []int32
	for id := range int32(n) {
		if v.ending[id] = ends(id); v.ending[id] {
			continue
		}
		if p := piece(id); len(p) > 0 && len(p) <= longestPiece {
			v.pieces[id] = p
			order = append(order, id)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return bytes.Compare(v.pieces[a], v.pieces[b]) })
	var open []int32 // the nodes that spell the last token
	var last []byte
	for _, id := range order {
		p := v.pieces[id]
		same := 0
		for same < len(p) && same < len(last) && p[same] == last[same] {
			same++
		}
		for _, node := range open[same:] {
			v.nodes[node].after = int32(len(v.nodes))
		}
		open = open[:same]
		for depth := same; depth < len(p); depth++ {
			open = append(open, int32(len(v.nodes)))
			v.nodes = append(v.nodes, trieNode{tokens: int32(len(v.tokens)), depth: uint16(depth), b: p[depth]})
		}
		v.tokens, last, v.deep = append(v.tokens, id), p, max(v.deep, len(p))
	}
	for _, node := range open {
		v.nodes[node].after = int32(len(v.nodes))
	}
	return v
}

func (v *Vocab) ends(token int32) bool {
	return token >= 0 && int(token) < len(v.ending) && v.ending[token]
}

func (v *Vocab) piece(token int32) []byte {
	if token < 0 || int(token) >= len(v.pieces) {
		return nil
	}
	return v.pieces[token]
}

// Words returns the number of words of a mask: a bit a token, the lowest first.
func (v *Vocab) Words() int { return v.words }

// Mask returns the tokens that may come next, one bit each, end tokens included where the text is complete. Callers
// must not change it; it is valid until the next call. It lacks tokens where Err is set.
func (m *Matcher) Mask(s *State) []uint32 {
	if s.mask != nil {
		return s.mask
	}
	v := m.vocab
	mask := make([]uint32, v.words)
	if s.end {
		for id, ends := range v.ending {
			if ends {
				mask[id/32] |= 1 << (id % 32)
			}
		}
	}
	m.path = slices.Grow(m.path[:0], v.deep+1)[:v.deep+1]
	path := m.path // the states along the trie
	path[0] = s
	for i := 0; i < len(v.nodes); {
		n := &v.nodes[i]
		to := m.step(path[n.depth], n.b)
		if m.err != nil {
			break
		}
		if to == dead {
			i = int(n.after)
			continue
		}
		path[n.depth+1] = to
		i++
		until := int32(len(v.tokens))
		if i < len(v.nodes) {
			until = v.nodes[i].tokens
		}
		for _, id := range v.tokens[n.tokens:until] {
			mask[id/32] |= 1 << (id % 32)
		}
	}
	if m.err == nil {
		s.mask = mask
		m.bytes += 4 * len(mask)
	}
	return mask
}
