package grammar

import (
	"bytes"
	"slices"
	"sync"
)

// Vocab is the bytes of a vocabulary's tokens as tries, so that tokens that begin alike are tried together.
type Vocab struct {
	words    int // of a mask
	pieces   [][]byte
	ending   []int32 // the tokens that end a text, in their order
	deep     int
	all      trie
	ordinary []ordinaryToken // in the order of their nodes
	long     trie            // of tokens of more than longestRun characters
	others   trie            // of the tokens that are not ordinary
	inAll    []int32         // of each node of others, the same one of all
	large    bool            // ordinary tokens are worth to be allowed together
	making   sync.Mutex
	short    [endless + 1][]uint32 // of the ordinary tokens of at most so many characters, once they are needed
}

// trie holds bytes of tokens as nodes in depth-first order.
type trie struct {
	nodes  []trieNode
	tokens []int32 // in the order of the nodes that they end at
	open   []int32 // the nodes that spell the last token
}

// trieNode is a byte of the trie.
type trieNode struct {
	after  int32 // the node after those below this one
	tokens int32 // where the tokens that end here begin; they go on to the next node's
	depth  uint16
	b      byte
}

// at returns the tokens that end at a node.
func (t *trie) at(node int) []int32 {
	from, to := t.nodes[node].tokens, int32(len(t.tokens))
	if node+1 < len(t.nodes) {
		to = t.nodes[node+1].tokens
	}
	return t.tokens[from:to]
}

// largeVocab is the number of nodes from which on trying all takes longer than asking for ordinary characters.
const largeVocab = 1 << 13

// longestPiece is the most bytes of a token that a grammar is asked about: longer ones are not allowed anywhere.
const longestPiece = 1 << 10

// NewVocab makes the trie of n tokens. piece gives a token's bytes, none where it is no text,
// such as a control token; ends reports whether a token ends the text.
func NewVocab(n int, piece func(token int32) []byte, ends func(token int32) bool) *Vocab {
	v := &Vocab{words: (n + 31) / 32, pieces: make([][]byte, n)}
	var order []int32
	for id := range int32(n) {
		if ends(id) {
			v.ending = append(v.ending, id)
			continue
		}
		if p := piece(id); len(p) > 0 && len(p) <= longestPiece {
			v.pieces[id] = p
			order = append(order, id)
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return bytes.Compare(v.pieces[a], v.pieces[b]) })
	for _, id := range order {
		v.deep = max(v.deep, len(v.pieces[id]))
	}
	for _, id := range order {
		v.all.add(id, v.pieces[id])
	}
	v.all.end(0)
	if v.large = len(v.all.nodes) >= largeVocab; v.large {
		v.separate()
	}
	return v
}

// add puts in a token, behind those before it in the order of their bytes. It returns the depth of the first node made.
func (t *trie) add(id int32, piece []byte) (same int) {
	for same < len(piece) && same < len(t.open) && piece[same] == t.nodes[t.open[same]].b {
		same++
	}
	t.end(same)
	for depth := same; depth < len(piece); depth++ {
		t.open = append(t.open, int32(len(t.nodes)))
		t.nodes = append(t.nodes, trieNode{tokens: int32(len(t.tokens)), depth: uint16(depth), b: piece[depth]})
	}
	t.tokens = append(t.tokens, id)
	return same
}

// end closes the nodes of the last token from a depth on.
func (t *trie) end(depth int) {
	for _, node := range t.open[depth:] {
		t.nodes[node].after = int32(len(t.nodes))
	}
	t.open = t.open[:depth]
}

func (v *Vocab) ends(token int32) bool {
	_, found := slices.BinarySearch(v.ending, token)
	return found
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
		for _, id := range v.ending {
			mask[id/32] |= 1 << (id % 32)
		}
	}
	m.path = slices.Grow(m.path[:0], v.deep+1)[:v.deep+1]
	m.path[0] = s
	if v.large {
		m.maskLarge(s, mask)
	} else {
		m.walk(&v.all, 0, len(v.all.nodes), mask)
	}
	if m.err == nil {
		s.mask = mask
		m.bytes += 4 * len(mask)
	}
	return mask
}

// walk sets the bits of the tokens of a part of a trie. The states before the part are in m.path.
func (m *Matcher) walk(t *trie, from, to int, mask []uint32) {
	path := m.path
	for i := from; i < to; {
		n := &t.nodes[i]
		state := path[n.depth].next[m.g.class[n.b]]
		if state == nil {
			if state = m.read(path[n.depth], n.b); m.err != nil {
				return
			}
		}
		if state == dead {
			i = int(n.after)
			continue
		}
		path[n.depth+1] = state
		for _, id := range t.at(i) {
			mask[id/32] |= 1 << (id % 32)
		}
		i++
	}
}
