package spec

import (
	"context"
	"encoding/binary"
	"slices"
)

// PromptLookup drafts what followed the last tokens when they occurred before:
// n-grams of Max tokens down to Min are looked for from the start, and the
// first one found is continued. This is prompt lookup decoding as in Hugging Face's
// transformers (Saxena, "Prompt Lookup Decoding", 2023).
type PromptLookup struct {
	Max, Min int
}

var _ Drafter = PromptLookup{}

// Begin implements Drafter.
func (p PromptLookup) Begin(context.Context, []int32, Sampling, func(int)) (DraftSession, error) {
	return &lookupSession{find: p.find}, nil
}

// find gives up to n tokens that may follow seq.
func (p PromptLookup) find(seq []int32, n int) []int32 {
	for size := min(p.Max, len(seq)-1); size >= max(p.Min, 1); size-- {
		last := seq[len(seq)-size:]
		for i := 0; i+size < len(seq); i++ {
			if slices.Equal(seq[i:i+size], last) {
				return seq[i+size : min(i+size+n, len(seq))]
			}
		}
	}
	return nil
}

// RecentLookup drafts what followed the most recent earlier occurrence of the last
// Size tokens, as llama.cpp's ngram-simple does. Unlike there, a short
// history or a short continuation is drafted too: verification is what decides.
type RecentLookup struct {
	Size int
}

var _ Drafter = RecentLookup{}

// Begin implements Drafter.
func (r RecentLookup) Begin(context.Context, []int32, Sampling, func(int)) (DraftSession, error) {
	return &lookupSession{find: r.find}, nil
}

func (r RecentLookup) find(seq []int32, n int) []int32 {
	if r.Size < 1 || len(seq) <= r.Size {
		return nil
	}
	last := seq[len(seq)-r.Size:]
	for i := len(seq) - r.Size - 1; i >= 0; i-- {
		if slices.Equal(seq[i:i+r.Size], last) {
			return seq[i+r.Size : min(i+r.Size+n, len(seq))]
		}
	}
	return nil
}

// MapLookup drafts what followed the most recent earlier occurrence of the last Size
// tokens, the key, and keeps a map of keys as llama.cpp's ngram-map-k does: a key
// whose draft was last accepted for so many tokens drafts that many the next time. A draft
// of which nothing was accepted changes nothing. Unlike there, a short history
// or continuation is drafted too: verification is what decides.
type MapLookup struct {
	Size int
}

var _ Drafter = MapLookup{}

// Begin implements Drafter.
func (m MapLookup) Begin(context.Context, []int32, Sampling, func(int)) (DraftSession, error) {
	session := &mapSession{size: m.Size, keys: map[string]*mapKey{}}
	session.find = session.look
	return session, nil
}

// mapKey is what is known of an n-gram.
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
	tree  Tree
	draft Draft
}

func (l *lookupSession) Propose(_ context.Context, seq []int32, b Budget) (*Draft, error) {
	l.tree.Reset(seq[len(seq)-1])
	if n := min(b.Levels, b.Nodes-1); n > 0 {
		for i, token := range l.find(seq, n) {
			l.tree.Add(int32(i), token, 0)
		}
	}
	l.draft = Draft{Tree: &l.tree}
	return &l.draft, nil
}

func (l *lookupSession) Commit([]int32) error { return nil }
