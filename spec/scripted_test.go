package spec

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// script is a language over a small vocabulary whose logits are a hash of the whole
// prefix: a token too many, too few, out of order or at a wrong place anywhere
// changes everything after it.
type script struct {
	vocab int
	steps float64 // logits are multiples of 1/steps, so that small values give ties
	// eos, from length eosAt of the sequence on, is what follows; nowhere else.
	// Off when eosAt is 0.
	eos   int32
	eosAt int
}

// prefix is a hash of a sequence and its length.
type prefix struct {
	hash uint64
	len  int
}

func (p prefix) then(token int32) prefix {
	return prefix{mix(p.hash*0x9E3779B97F4A7C15 + uint64(token) + 1), p.len + 1}
}

func of(tokens []int32) prefix {
	p := prefix{hash: 1}
	for _, t := range tokens {
		p = p.then(t)
	}
	return p
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// logits are in [-2, 2]; differ in [0, 1] replaces that share of them by those of another
// model, the draft.
func (s *script) logits(p prefix, differ float64) []float32 {
	z := make([]float32, s.vocab)
	for i := range z {
		same := unit(mix(p.hash + uint64(i)*0xD1B54A32D192ED03))
		other := unit(mix(^p.hash + uint64(i)*0xA24BAED4963EE407))
		v := 4*((1-differ)*same+differ*other) - 2
		z[i] = float32(math.Round(v*s.steps) / s.steps)
	}
	if s.eosAt > 0 {
		z[s.eos] = -50
		if p.len >= s.eosAt {
			z[s.eos] = 50
		}
	}
	return z
}

func unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// model is what the scripted target and draft share: the sequence and the limits.
// A broken rule of the contract panics, which fails the test with the place.
type model struct {
	script *script
	limits Limits
	cells  []int32
}

func (m *model) Limits() Limits { return m.limits }
func (m *model) Len() int       { return len(m.cells) }

func (m *model) Prefill(ctx context.Context, tokens []int32, progress func(int)) error {
	if len(tokens) == 0 {
		panic("Prefill of nothing")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.append(tokens...)
	if progress != nil {
		progress(len(tokens))
	}
	return nil
}

func (m *model) append(tokens ...int32) {
	for _, t := range tokens {
		if t < 0 || int(t) >= m.limits.Vocab {
			panic(fmt.Sprintf("token %d of %d", t, m.limits.Vocab))
		}
	}
	m.cells = append(m.cells, tokens...)
	if len(m.cells) > m.limits.Context {
		panic(fmt.Sprintf("%d tokens in a cache of %d", len(m.cells), m.limits.Context))
	}
}

type scriptedTarget struct {
	model
	tree  *Tree // verified and not yet committed
	calls int
	rows  int
	chain int // of the calls, those by rejection
}

var _ RejectionTarget = (*scriptedTarget)(nil)

func newTarget(s *script, context, rows int) *scriptedTarget {
	return &scriptedTarget{model: model{script: s, limits: Limits{Context: context, MaxRows: rows, Vocab: s.vocab, TopK: 8}}}
}

func (t *scriptedTarget) Reset() { t.cells, t.tree = t.cells[:0], nil }

// prefixes checks a tree and gives the prefix that ends with each node.
func (t *scriptedTarget) prefixes(tree *Tree) []prefix {
	if err := tree.Validate(t.limits.Vocab); err != nil {
		panic(err)
	}
	if tree.Len() > t.limits.MaxRows || len(t.cells)+tree.Len() > t.limits.Context {
		panic(fmt.Sprintf("%d nodes after %d tokens exceed %+v", tree.Len(), len(t.cells), t.limits))
	}
	t.calls++
	t.rows += tree.Len()
	t.tree = tree.Clone()
	at := make([]prefix, tree.Len())
	for i, token := range tree.Tokens {
		if i == 0 {
			at[0] = of(t.cells).then(token)
			continue
		}
		at[i] = at[tree.Parents[i]].then(token)
		if tree.Child(tree.Parents[i], token) != int32(i) {
			panic(fmt.Sprintf("node %d repeats a sibling", i))
		}
	}
	return at
}

func (t *scriptedTarget) Verify(ctx context.Context, tree *Tree, s Sampling) ([]NodeOutput, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := make([]NodeOutput, tree.Len())
	for i, p := range t.prefixes(tree) {
		out[i].Token = s.Draw(t.script.logits(p, 0), StreamTarget, uint32(len(t.cells))+uint32(tree.Depths[i])+1)
	}
	return out, nil
}

func (t *scriptedTarget) VerifyChain(ctx context.Context, chain *Tree, draft SamplingDraft, s Sampling) ([]ChainVerdict, error) {
	d := draft.(*scriptedDraft)
	if !slices.Equal(chain.Tokens[1:], d.drawn) || s != d.sampling {
		panic("the chain is not what the draft sampled last")
	}
	out := make([]ChainVerdict, chain.Len())
	t.chain++
	for i, p := range t.prefixes(chain) {
		position := uint32(len(t.cells) + i + 1)
		z := t.script.logits(p, 0)
		if i == chain.Len()-1 {
			out[i] = ChainVerdict{Token: s.Draw(z, StreamTarget, position)}
			continue
		}
		out[i] = Judge(s.Distribution(nil, z), d.q[i], chain.Tokens[i+1], s.Seed, position)
	}
	return out, nil
}

func (t *scriptedTarget) Commit(path []int32) error {
	if t.tree == nil || len(path) == 0 || path[0] != 0 {
		panic(fmt.Sprintf("Commit(%v) after %v", path, t.tree))
	}
	for i, n := range path {
		if i > 0 && t.tree.Parents[n] != path[i-1] {
			panic(fmt.Sprintf("Commit(%v) is not a path", path))
		}
		t.append(t.tree.Tokens[n])
	}
	t.tree = nil
	return nil
}

type scriptedDraft struct {
	model
	differ float64
	target *scriptedTarget // whose sequence this one follows; nil: unchecked

	levels   []Level // drafted and not yet committed
	drawn    []int32 // likewise, sampled
	q        [][]float64
	sampling Sampling
	open     bool // drafted and not yet committed
	pending  int  // the longest lag seen
}

var _ SamplingDraft = (*scriptedDraft)(nil)

func newDraft(t *scriptedTarget, context int, differ float64) *scriptedDraft {
	return &scriptedDraft{
		model:  model{script: t.script, limits: Limits{Context: context, MaxRows: 64, Vocab: t.script.vocab, TopK: 16}},
		differ: differ, target: t,
	}
}

func (d *scriptedDraft) Reset() { d.cells, d.open = d.cells[:0], false }

func (d *scriptedDraft) feed(pending []int32, slots int) {
	if len(pending) < 1 || len(pending) > MaxPending || d.open {
		panic(fmt.Sprintf("%d pending tokens, the last draft open: %v", len(pending), d.open))
	}
	d.pending = max(d.pending, len(pending))
	d.append(pending...)
	if d.target != nil {
		n := len(d.target.cells)
		if len(d.cells) != n+1 || !slices.Equal(d.cells[:n], d.target.cells) {
			panic(fmt.Sprintf("the draft holds %v, the target %v and a root", d.cells, d.target.cells))
		}
	}
	if len(d.cells)+slots > d.limits.Context {
		panic(fmt.Sprintf("%d slots after %d tokens in a cache of %d", slots, len(d.cells), d.limits.Context))
	}
	d.open = true
}

func (d *scriptedDraft) DraftTree(ctx context.Context, r DraftRequest) ([]Level, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.K < 1 || r.K > d.limits.TopK || r.Depth < 0 || r.Coupled && r.Sampling.Temperature == 0 {
		panic(fmt.Sprintf("request %+v", r))
	}
	d.feed(r.Pending, r.K*r.Depth)
	d.levels = nil
	type beam struct {
		at prefix
		v  float32
	}
	beams := []beam{{at: of(d.cells)}}
	for depth := 0; depth <= r.Depth; depth++ {
		var l Level
		var values []float32
		for b, from := range beams {
			q := d.logQ(from.at, r)
			for _, id := range bestOf(q, r.K) {
				l.Candidates = append(l.Candidates, Candidate{Token: id, LogQ: float32(q[id]), Beam: int32(b)})
				values = append(values, from.v+float32(q[id]))
			}
		}
		if depth < r.Depth {
			wide := make([]float64, len(values))
			for i, v := range values {
				wide[i] = float64(v)
			}
			l.Beams = bestOf(wide, r.K)
			next := make([]beam, len(l.Beams))
			for i, c := range l.Beams {
				cand := l.Candidates[c]
				next[i] = beam{beams[cand.Beam].at.then(cand.Token), values[c]}
			}
			beams = next
		}
		d.levels = append(d.levels, l)
	}
	return d.levels, nil
}

func (d *scriptedDraft) logQ(at prefix, r DraftRequest) []float64 {
	z := d.script.logits(at, d.differ)
	if r.Coupled {
		return r.Sampling.Coupled(nil, z, uint32(at.len))
	}
	q := Sampling{Temperature: 1}.Distribution(nil, z)
	for i := range q {
		q[i] = math.Log(q[i])
	}
	return q
}

// bestOf gives the indices of the k largest values, ties to the lower index.
func bestOf(x []float64, k int) []int32 {
	order := make([]int32, len(x))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return 0
	})
	return order[:min(k, len(order))]
}

func (d *scriptedDraft) DraftSampled(ctx context.Context, pending []int32, k int, s Sampling) ([]int32, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.feed(pending, k-1)
	d.levels, d.drawn, d.q, d.sampling = nil, nil, nil, s
	at := of(d.cells)
	for range k {
		z := d.script.logits(at, d.differ)
		token := s.Draw(z, StreamDraft, uint32(at.len))
		d.drawn = append(d.drawn, token)
		d.q = append(d.q, s.Distribution(nil, z))
		at = at.then(token)
	}
	return d.drawn, nil
}

func (d *scriptedDraft) Commit(beams []int32) error {
	if !d.open {
		panic("Commit without a draft")
	}
	d.open = false
	if d.levels == nil {
		if len(beams) > len(d.drawn)-1 || slices.Max(append([]int32{0}, beams...)) != 0 {
			panic(fmt.Sprintf("Commit(%v) of a chain of %d", beams, len(d.drawn)))
		}
		d.append(d.drawn[:len(beams)]...)
		return nil
	}
	for i, b := range beams {
		c := d.levels[i].Candidates[d.levels[i].Beams[b]]
		if i > 0 && c.Beam != beams[i-1] {
			panic(fmt.Sprintf("Commit(%v): beam %d of level %d has parent %d", beams, b, i, c.Beam))
		}
		d.append(c.Token)
	}
	return nil
}

// plain is decoding without any of the engine: the reference of every comparison.
func plain(s *script, prompt []int32, context int, o Options) ([]int32, Finish) {
	at := of(prompt)
	var out []int32
	for {
		if at.len == context {
			return out, FinishContext
		}
		token := o.Sampling.Draw(s.logits(at, 0), StreamTarget, uint32(at.len))
		out = append(out, token)
		at = at.then(token)
		switch {
		case o.Cut != nil && cutNow(o.Cut, token):
			return out, FinishStop
		case slices.Contains(o.EOS, token):
			return out, FinishEOS
		case o.MaxTokens > 0 && len(out) == o.MaxTokens:
			return out, FinishLength
		}
	}
}

func cutNow(cut func([]int32) (int, bool), token int32) bool {
	_, stop := cut([]int32{token})
	return stop
}
