package spec

import (
	"context"
	"errors"
	"runtime"
	"testing"
)

// brisk is a pair of models that allocate nothing once they are warm: what follows a token depends on the
// token and its position alone, and the draft is mostly right.
type brisk struct {
	limits  Limits
	len     int
	out     []NodeOutput
	levels  []Level
	passed  []int32 // positions of each level's proposals
	drawn   []Drawn
	gaps    []Divergence
	chain   []ChainVerdict
	tree    []TreeVerdict
	order   []int32
	k       int
	request SampleRequest
}

func (m *brisk) Limits() Limits            { return m.limits }
func (m *brisk) Reset()                    { m.len = 0 }
func (m *brisk) Len() int                  { return m.len }
func (m *brisk) Commit(path []int32) error { m.len += len(path); return nil }
func (m *brisk) follows(token int32, at int) int32 {
	return int32(mix(uint64(token)<<8+uint64(at%5)) % uint64(m.limits.Vocab))
}
func (m *brisk) right(token int32, at int) bool { return mix(uint64(token)<<16+uint64(at))%10 < 7 }
func (m *brisk) Prefill(_ context.Context, tokens []int32, _ func(int)) error {
	m.len += len(tokens)
	return nil
}

func reuse[T any](s []T, n int) []T {
	for cap(s) < n {
		s = append(s[:cap(s)], *new(T))
	}
	return s[:n]
}

func (m *brisk) Verify(_ context.Context, tree *Tree, _ Sampling) ([]NodeOutput, error) {
	m.out = reuse(m.out, tree.Len())
	for i := range m.out {
		o := &m.out[i]
		o.Token = m.follows(tree.Tokens[i], m.len+int(tree.Depths[i]))
		o.TopIDs, o.TopLogits = append(o.TopIDs[:0], o.Token, (o.Token+1)%int32(m.limits.Vocab)), append(o.TopLogits[:0], 2, 1.9)
	}
	return m.out, nil
}

func (m *brisk) VerifyChain(ctx context.Context, chain *Tree, _ SamplingDraft, s Sampling) ([]ChainVerdict, error) {
	out, _ := m.Verify(ctx, chain, s)
	m.chain = reuse(m.chain, len(out))
	for i := range out {
		m.chain[i] = ChainVerdict{Token: out[i].Token, Accepted: i+1 < len(out) && chain.Tokens[i+1] == out[i].Token}
	}
	return m.chain, nil
}

func (m *brisk) VerifyDivergence(ctx context.Context, chain *Tree, _ SamplingDraft, s Sampling) ([]NodeOutput, []Divergence, error) {
	out, err := m.Verify(ctx, chain, s)
	m.gaps = reuse(m.gaps, len(out)-1)
	for i := range m.gaps {
		m.gaps[i] = Divergence{Distance: 0.3, Possible: true}
	}
	return out, m.gaps, err
}

func (m *brisk) VerifySampled(ctx context.Context, tree *Tree, _ []int32, _ TreeSampler, s Sampling) ([]TreeVerdict, error) {
	out, err := m.Verify(ctx, tree, s)
	m.tree = reuse(m.tree, len(out))
	for i := range out {
		m.tree[i] = TreeVerdict{Child: tree.Child(int32(i), out[i].Token), Token: out[i].Token}
	}
	return m.tree, err
}

// propose fills a level: k candidates of each of n beams, the first of which is mostly right.
func (m *brisk) propose(n int) {
	at := len(m.levels)
	m.levels = reuse(m.levels, at+1)
	l := &m.levels[at]
	l.Candidates, l.Entropies, l.Beams, l.Accepts = l.Candidates[:0], l.Entropies[:0], l.Beams[:0], l.Accepts[:0]
	for beam := range n {
		token := m.passed[0]
		if at > 0 {
			above := &m.levels[at-1]
			token = above.Candidates[above.Beams[beam]].Token
		}
		next, position := m.follows(token, m.len-1+at), m.len+at
		for i := range m.k {
			id := (next + int32(i)) % int32(m.limits.Vocab)
			if !m.right(token, position) {
				id = (id + 1) % int32(m.limits.Vocab)
			}
			l.Candidates = append(l.Candidates, Candidate{Token: id, LogQ: -0.2 - float32(i), Beam: int32(beam)})
		}
		l.Entropies, l.Accepts = append(l.Entropies, 0.5), append(l.Accepts, 0.9)
	}
}

func (m *brisk) DraftTree(_ context.Context, r DraftRequest) ([]Level, error) {
	m.len += len(r.Pending)
	m.passed = append(m.passed[:0], r.Pending[len(r.Pending)-1])
	m.k, m.levels = r.K, m.levels[:0]
	m.propose(1)
	return m.Grow(nil, r.Depth)
}

func (m *brisk) Grow(_ context.Context, passes int) ([]Level, error) {
	for range passes {
		m.order = m.order[:0]
		for i := range m.k { // as good as any choice
			m.order = append(m.order, int32(i))
		}
		if _, err := m.Expand(nil, m.order); err != nil {
			return nil, err
		}
	}
	return m.levels, nil
}

func (m *brisk) Expand(_ context.Context, beams []int32) ([]Level, error) {
	l := &m.levels[len(m.levels)-1]
	l.Beams = append(l.Beams[:0], beams...)
	m.propose(len(beams))
	return m.levels, nil
}

func (m *brisk) SampleTree(ctx context.Context, r DraftRequest) ([]Level, error) {
	r.Depth = 0
	return m.DraftTree(ctx, r)
}

func (m *brisk) DraftSampled(ctx context.Context, r SampleRequest) ([]Drawn, error) {
	m.len += len(r.Pending)
	m.passed, m.drawn = append(m.passed[:0], r.Pending[len(r.Pending)-1]), m.drawn[:0]
	return m.DrawMore(ctx, r.Count)
}

func (m *brisk) DrawMore(_ context.Context, count int) ([]Drawn, error) {
	for range count {
		token := m.passed[0]
		if n := len(m.drawn); n > 0 {
			token = m.drawn[n-1].Token
		}
		m.drawn = append(m.drawn, Drawn{Token: m.follows(token, m.len-1+len(m.drawn)), Prob: 0.8, Entropy: 0.5})
	}
	return m.drawn, nil
}

// roundConfigs are ways to decode whose rounds are to allocate nothing.
var roundConfigs = map[string]Config{
	"plain":     {Drafter: DrafterNone},
	"chain":     {Drafter: DrafterChain, Depth: 4},
	"eagle2":    {Drafter: DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12},
	"static":    {Drafter: DrafterStatic, Shape: DefaultShape()},
	"sampled":   {Drafter: DrafterSampled, Shape: DefaultShape(), Verifier: VerifierWithoutReplacement},
	"rejection": {Drafter: DrafterChain, Depth: 4, Verifier: VerifierRejection},
	"ngram":     {Drafter: DrafterNgram, Depth: 6, NgramMax: 2, NgramMin: 1},
	"simple":    {Drafter: DrafterNgramSimple, Depth: 6, NgramMax: 3},
	"adaedl":    {Drafter: DrafterChain, Depth: 6, Adapt: AdaptAdaEDL},
	"assisted":  {Drafter: DrafterChain, Depth: 4, Adapt: AdaptAssisted, Knobs: Knobs{Schedule: ScheduleConstant}},
	"adasd":     {Drafter: DrafterChain, Depth: 4, Adapt: AdaptAdaSD, Verifier: VerifierAdaSD},
	"mars":      {Drafter: DrafterEAGLE2, Depth: 3, TopK: 4, Nodes: 12, Verifier: VerifierMARS},
}

// enough ends a generation.
var enough = errors.New("enough rounds")

// generateBrisk makes tokens with a config until each, called after every round, says that it is enough.
func generateBrisk(t testing.TB, c Config, tokens int, each func(round int) (done bool)) {
	limits := Limits{Context: tokens + 64, MaxRows: 64, Vocab: 16, TopK: 8, Spare: 64}
	g, err := New(&brisk{limits: limits}, &brisk{limits: limits}, c)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Sampling: Sampling{Temperature: 0.8, Seed: 1}, MaxTokens: tokens, EOS: []int32{-1}}
	if _, err := g.Generate(context.Background(), []int32{1, 2, 3}, o, func(e *Event) error {
		if each(e.Round) {
			return enough
		}
		return nil
	}); err != enough {
		t.Fatal(err)
	}
}

// TestRoundsAllocateNothing: after some rounds every array has the size that it needs.
func TestRoundsAllocateNothing(t *testing.T) {
	for name, c := range roundConfigs {
		const warm, last = 40, 140
		var before, after runtime.MemStats
		generateBrisk(t, c, 2000, func(round int) bool {
			switch round {
			case warm:
				runtime.ReadMemStats(&before)
			case last:
				runtime.ReadMemStats(&after)
			}
			return round == last
		})
		if n := after.Mallocs - before.Mallocs; n > 3 { // the runtime's own, now and then
			t.Errorf("%s: %d allocations in %d rounds", name, n, last-warm)
		}
	}
}

// BenchmarkRounds times the round loop alone, with models that take no time; an operation is a round.
func BenchmarkRounds(b *testing.B) {
	for name, c := range roundConfigs {
		b.Run(name, func(b *testing.B) {
			const warm = 40
			b.ReportAllocs()
			generateBrisk(b, c, 16*(b.N+warm), func(round int) bool {
				if round == warm {
					b.ResetTimer()
				}
				return round == warm+b.N
			})
		})
	}
}
