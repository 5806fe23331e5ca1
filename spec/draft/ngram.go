package draft

import (
	"context"
	"encoding/binary"
	"slices"

	"foretoken/spec"
)

// PromptLookup drafts what followed the last tokens when they occurred before: n-grams of Max tokens down to Min are
// looked for from the start, and the first one found is continued. This is prompt lookup decoding as in Hugging Face's
// transformers (Saxena, "Prompt Lookup Decoding", 2023). With Recent they are looked for from the end, as llama.cpp's
// ngram-simple does with n-grams of one size. Unlike llama.cpp, it also drafts from a short history or a short
// continuation; verification rejects bad drafts.
type PromptLookup struct {
	Max, Min int
	Recent   bool
}

var _ spec.Drafter = PromptLookup{}

func (p PromptLookup) Begin(context.Context, spec.SessionOptions) (spec.DraftSession, error) {
	return &lookupSession{find: p.find}, nil
}

// find gives up to n tokens that may follow seq.
func (p PromptLookup) find(seq []int32, n int) []int32 {
	for size := min(p.Max, len(seq)-1); size >= max(p.Min, 1); size-- {
		last := seq[len(seq)-size:]
		for i := range len(seq) - size {
			if p.Recent {
				i = len(seq) - size - 1 - i
			}
			if slices.Equal(seq[i:i+size], last) {
				return seq[i+size : min(i+size+n, len(seq))]
			}
		}
	}
	return nil
}

// MapLookup drafts the continuation of the most recent earlier occurrence of the last Size tokens, the key. It
// keeps a map of keys as llama.cpp's ngram-map-k does: a key drafts as many tokens as were accepted of its last
// draft. A draft without an accepted token changes nothing. Unlike llama.cpp it also drafts from a short history or
// continuation, because verification decides anyway.
type MapLookup struct {
	Size int
}

var _ spec.Drafter = MapLookup{}

func (m MapLookup) Begin(context.Context, spec.SessionOptions) (spec.DraftSession, error) {
	session := &mapSession{size: m.Size, keys: map[string]*mapKey{}}
	session.find = session.look
	return session, nil
}

// mapKey is the state of one n-gram.
type mapKey struct {
	end      int // where its most recent occurrence ends in the sequence
	accepted int // tokens accepted of the last draft after it that was accepted at all; 0: none yet
}

type mapSession struct {
	lookupSession
	size int
	keys map[string]*mapKey
	seen int     // keys that end before here are in the map
	last *mapKey // whose continuation was proposed last
	name []byte
}

// key writes an n-gram as a map key.
func (m *mapSession) key(tokens []int32) []byte {
	m.name = m.name[:0]
	for _, t := range tokens {
		m.name = binary.LittleEndian.AppendUint32(m.name, uint32(t))
	}
	return m.name
}

func (m *mapSession) look(seq []int32, n int) []int32 {
	m.last = nil
	if m.size < 1 {
		return nil
	}
	for end := max(m.seen, m.size); end < len(seq); end++ {
		name := m.key(seq[end-m.size : end])
		k := m.keys[string(name)]
		if k == nil {
			k = &mapKey{}
			m.keys[string(name)] = k
		}
		k.end = end
	}
	m.seen = max(m.seen, len(seq))
	if len(seq) <= m.size {
		return nil
	}
	k := m.keys[string(m.key(seq[len(seq)-m.size:]))]
	if k == nil {
		return nil
	}
	m.last = k
	if k.accepted > 0 {
		n = min(n, k.accepted)
	}
	return seq[k.end:min(k.end+n, len(seq))]
}

func (m *mapSession) Commit(path []int32) error {
	if accepted := len(path) - 1; m.last != nil && accepted > 0 {
		m.last.accepted = accepted
	}
	m.last = nil
	return nil
}

// lookupSession needs no state: all it drafts is in the sequence.
type lookupSession struct {
	find  func(seq []int32, n int) []int32
	tree  spec.Tree
	draft spec.Draft
}

func (l *lookupSession) Propose(_ context.Context, seq []int32, b spec.Budget) (*spec.Draft, error) {
	l.tree.Reset(seq[len(seq)-1])
	if n := min(b.Levels, b.Nodes-1); n > 0 {
		for i, token := range l.find(seq, n) {
			l.tree.Add(int32(i), token, 0)
		}
	}
	l.draft = spec.Draft{Tree: &l.tree}
	return &l.draft, nil
}

func (l *lookupSession) Commit([]int32) error { return nil }

func (l *lookupSession) Observe(*spec.Event) {}
