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

func (m *brisk) Verify(_ context.Context, tree *spec.Tree, _ spec.Sampling) ([]spec.NodeOutput, error) {
	m.out = resize(m.out, tree.Len())
	for i := range m.out {
		o := &m.out[i]
		o.Token = m.nextToken(tree.Tokens[i], m.len+int(tree.Depths[i]))
		o.TopIDs, o.TopLogits = append(o.TopIDs[:0], o.Token, (o.Token+1)%int32(m.limits.Vocab)),
			append(o.TopLogits[:0], 2, 1.9)
	}
	return m.out, nil
}

func (m *brisk) VerifyChain(
	ctx context.Context, chain *spec.Tree, _ spec.DraftModel, s spec.Sampling,
) ([]spec.ChainVerdict, error) {
	out, _ := m.Verify(ctx, chain, s)
	m.chain = resize(m.chain, len(out))
	for i := range out {
		accepted := i+1 < len(out) && chain.Tokens[i+1] == out[i].Token
		m.chain[i] = spec.ChainVerdict{Token: out[i].Token, Accepted: accepted}
	}
	return m.chain, nil
}

func (m *brisk) VerifyDivergence(
	ctx context.Context, chain *spec.Tree, _ spec.DraftModel, s spec.Sampling,
) ([]spec.NodeOutput, []spec.Divergence, error) {
	out, err := m.Verify(ctx, chain, s)
	m.divergences = resize(m.divergences, len(out)-1)
	for i := range m.divergences {
		m.divergences[i] = spec.Divergence{Distance: 0.3, Possible: true}
	}
	return out, m.divergences, err
}

func (m *brisk) VerifySampled(
	ctx context.Context, tree *spec.Tree, _ []int32, _ spec.DraftModel, s spec.Sampling,
) ([]spec.TreeVerdict, error) {
	out, err := m.Verify(ctx, tree, s)
	m.tree = resize(m.tree, len(out))
	for i := range out {
		m.tree[i] = spec.TreeVerdict{Child: tree.Child(int32(i), out[i].Token), Token: out[i].Token}
	}
	return m.tree, err
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

func (m *brisk) DraftTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	m.len += len(r.Pending)
	m.roots = append(m.roots[:0], r.Pending[len(r.Pending)-1])
	m.k, m.levels = r.K, m.levels[:0]
	m.propose(1)
	return m.Grow(ctx, r.Depth)
}

func (m *brisk) Grow(ctx context.Context, passes int) ([]spec.Level, error) {
	for range passes {
		m.order = m.order[:0]
		for i := range m.k { // any choice is as good
			m.order = append(m.order, int32(i))
		}
		if _, err := m.Expand(ctx, m.order); err != nil {
			return nil, err
		}
	}
	return m.levels, nil
}

func (m *brisk) Expand(_ context.Context, beams []int32) ([]spec.Level, error) {
	l := &m.levels[len(m.levels)-1]
	l.Beams = append(l.Beams[:0], beams...)
	m.propose(len(beams))
	return m.levels, nil
}

func (m *brisk) SampleTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	r.Depth = 0
	return m.DraftTree(ctx, r)
}

func (m *brisk) DraftSampled(ctx context.Context, r spec.SampleRequest) ([]spec.Drawn, error) {
	m.len += len(r.Pending)
	m.roots, m.drawn = append(m.roots[:0], r.Pending[len(r.Pending)-1]), m.drawn[:0]
	return m.DrawMore(ctx, r.Count)
}

func (m *brisk) DrawMore(_ context.Context, count int) ([]spec.Drawn, error) {
	for range count {
		token := m.roots[0]
		if n := len(m.drawn); n > 0 {
			token = m.drawn[n-1].Token
		}
		m.drawn = append(m.drawn, spec.Drawn{Token: m.nextToken(token, m.len-1+len(m.drawn)), Prob: 0.8, Entropy: 0.5})
	}
	return m.drawn, nil
}

// newBrisk returns a model with room for context tokens.
func newBrisk(context int) *brisk {
	return &brisk{limits: spec.Limits{Context: context, MaxRows: 64, Vocab: 16, TopK: 8, Spare: 64}}
}
