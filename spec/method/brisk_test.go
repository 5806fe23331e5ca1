package method

import (
	"context"
	"slices"

	"foretoken/spec"
	"foretoken/spec/spectest"
)

// brisk is a target and a draft in one that allocate nothing after warmup. The next token depends on the last token
// and its position alone, and the draft is mostly right.
type brisk struct {
	spectest.PartialDraft
	partialTarget
	limits      spec.Limits
	len         int
	out         []spec.NodeOutput
	levels      []spec.Level
	roots       []int32 // the root token of the draft
	drawn       []spec.Drawn
	divergences []spec.Divergence
	chain       []spec.ChainVerdict
	tree        []spec.TreeVerdict
	pass        spec.Pass
	order       []int32
	k           int
}

func (m *brisk) Limits() spec.Limits { return m.limits }

// partialTarget is a level deeper than PartialDraft, whose methods win.
type partialTarget struct{ spectest.PartialTarget }

func (m *brisk) ReusePrefix([]int32) int { m.len = 0; return 0 }

func (m *brisk) Reset() { m.len = 0 }

func (m *brisk) Len() int { return m.len }

func (m *brisk) Commit(path []int32) error { m.len += len(path); return nil }

func (m *brisk) nextToken(token int32, at int) int32 {
	return int32(spectest.Mix(uint64(token)<<8+uint64(at%5)) % uint64(m.limits.Vocab))
}

func (m *brisk) agrees(token int32, at int) bool {
	return spectest.Mix(uint64(token)<<16+uint64(at))%10 < 7
}

func (m *brisk) Prefill(_ context.Context, tokens []int32) error {
	m.len += len(tokens)
	return nil
}

// resize returns s with n elements, which keep their memory.
func resize[T any](s []T, n int) []T { return slices.Grow(s[:cap(s)], max(n-cap(s), 0))[:n] }

func (m *brisk) Verify(_ context.Context, r spec.PassRequest) (*spec.Pass, error) {
	n := r.Tree.Len()
	m.out, m.divergences = resize(m.out, n), resize(m.divergences, n-1)
	m.chain, m.tree = resize(m.chain, n), resize(m.tree, n)
	for i := range m.out {
		o := &m.out[i]
		o.Token = m.nextToken(r.Tree.Tokens[i], m.len+int(r.Tree.Depths[i]))
		o.TopIDs, o.TopLogits = append(o.TopIDs[:0], o.Token, (o.Token+1)%int32(m.limits.Vocab)),
			append(o.TopLogits[:0], 2, 1.9)
		accepted := i+1 < n && r.Tree.Tokens[i+1] == o.Token
		m.chain[i] = spec.ChainVerdict{Token: o.Token, Accepted: accepted}
		m.tree[i] = spec.TreeVerdict{Child: r.Tree.Child(int32(i), o.Token), Token: o.Token}
	}
	for i := range m.divergences {
		m.divergences[i] = spec.Divergence{Distance: 0.3, Possible: true}
	}
	switch m.pass = (spec.Pass{Outputs: m.out}); r.Kind {
	case spec.PassChain:
		m.pass = spec.Pass{Chain: m.chain}
	case spec.PassSampled:
		m.pass = spec.Pass{Children: m.tree}
	case spec.PassDivergence:
		m.pass.Divergences = m.divergences
	}
	return &m.pass, nil
}

// propose fills a level with k candidates of each of n beams. The first candidate is mostly right.
func (m *brisk) propose(n int) {
	at := len(m.levels)
	m.levels = resize(m.levels, at+1)
	l := &m.levels[at]
	l.Candidates, l.Entropies, l.Beams, l.Accepts = l.Candidates[:0], l.Entropies[:0], l.Beams[:0], l.Accepts[:0]
	for beam := range n {
		token := m.roots[0]
		if at > 0 {
			above := &m.levels[at-1]
			token = above.Candidates[above.Beams[beam]].Token
		}
		next, position := m.nextToken(token, m.len-1+at), m.len+at
		for i := range m.k {
			id := (next + int32(i)) % int32(m.limits.Vocab)
			if !m.agrees(token, position) {
				id = (id + 1) % int32(m.limits.Vocab)
			}
			l.Candidates = append(l.Candidates, spec.Candidate{Token: id, LogQ: -0.2 - float32(i), Beam: int32(beam)})
		}
		l.Entropies, l.Accepts = append(l.Entropies, 0.5), append(l.Accepts, 0.9)
	}
}

func (m *brisk) Draft(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	if r.Classifier != nil {
		return nil, nil
	}
	m.len += len(r.Pending)
	m.roots = append(m.roots[:0], r.Pending[len(r.Pending)-1])
	m.k, m.levels = r.K, m.levels[:0]
	m.propose(1)
	if r.Layout == nil {
		return m.Extend(ctx, spec.Extension{Passes: r.Depth})
	}
	for _, beams := range r.Layout.Beams {
		m.expand(beams)
	}
	return m.levels, nil
}

func (m *brisk) Extend(_ context.Context, e spec.Extension) ([]spec.Level, error) {
	if e.Beams != nil {
		m.expand(e.Beams)
	}
	for range e.Passes {
		m.order = m.order[:0]
		for i := range m.k { // any choice is as good
			m.order = append(m.order, int32(i))
		}
		m.expand(m.order)
	}
	return m.levels, nil
}

func (m *brisk) expand(beams []int32) {
	l := &m.levels[len(m.levels)-1]
	l.Beams = append(l.Beams[:0], beams...)
	m.propose(len(beams))
}

func (m *brisk) Sample(_ context.Context, r spec.SampleRequest) ([]spec.Drawn, error) {
	if n := len(r.Pending); n > 0 {
		m.len += n
		m.roots, m.drawn = append(m.roots[:0], r.Pending[n-1]), m.drawn[:0]
	}
	for range r.Count {
		token := m.roots[0]
		if n := len(m.drawn); n > 0 {
			token = m.drawn[n-1].Token
		}
		m.drawn = append(m.drawn, spec.Drawn{Token: m.nextToken(token, m.len-1+len(m.drawn)), Prob: 0.8, Entropy: 0.5})
	}
	return m.drawn, nil
}

func (m *brisk) Prepare(spec.Programs) error { return nil }

// newBrisk returns a model with room for context tokens.
func newBrisk(context int) *brisk {
	return &brisk{limits: spec.Limits{Context: context, MaxRows: 64, Vocab: 16, TopK: 8, Spare: 64}}
}
