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
	keeps  bool // from request to request
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
	// shaping is of the next pass; a pass takes it along.
	shaping *Shaping
	said    [][]float32 // logits of the last pass
}

var (
	_ RejectionTarget   = (*scriptedTarget)(nil)
	_ DivergenceTarget  = (*scriptedTarget)(nil)
	_ SampledTreeTarget = (*scriptedTarget)(nil)
	_ ShapedTarget      = (*scriptedTarget)(nil)
	_ LogitReader       = (*scriptedTarget)(nil)
)

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
		out[i] = t.output(i, p, s)
	}
	t.shaping = nil
	return out, nil
}

func (t *scriptedTarget) Shape(s *Shaping) error {
	t.shaping = &Shaping{Nodes: s.Nodes, Masks: slices.Clone(s.Masks), Which: slices.Clone(s.Which), Common: slices.Clone(s.Common), Own: slices.Clone(s.Own)}
	return nil
}

// logits are those after a node of the pass, as they were shaped.
func (t *scriptedTarget) logits(node int, p prefix) []float32 {
	z := t.script.logits(p, 0)
	if t.shaping != nil {
		if node >= t.shaping.Nodes {
			panic(fmt.Sprintf("node %d of a shaping of %d", node, t.shaping.Nodes))
		}
		applyShape(z, t.shaping, node)
	}
	return z
}

func (t *scriptedTarget) LogitNodes() int { return min(10, t.limits.MaxRows) }

func (t *scriptedTarget) Logits(nodes, tokens []int32, dst []float32) error {
	for i := range nodes {
		if len(t.said) > t.LogitNodes() {
			panic("logits of a tree that is too large")
		}
		dst[i] = t.said[nodes[i]][tokens[i]]
	}
	return nil
}

// applyShape is what a shaping means.
func applyShape(z []float32, s *Shaping, node int) {
	own := map[int32]bool{}
	if len(s.Own) > 0 {
		for _, b := range s.Own[node] {
			own[b.Token] = true
			z[b.Token] += b.Add
		}
	}
	for _, b := range s.Common {
		if !own[b.Token] {
			z[b.Token] += b.Add
		}
	}
	if len(s.Which) == 0 || s.Which[node] < 0 {
		return
	}
	mask := s.Masks[s.Which[node]]
	for id := range z {
		if mask[id/32]>>(id%32)&1 == 0 {
			z[id] = -1e30
		}
	}
}

// output is what the target says after a node.
func (t *scriptedTarget) output(node int, p prefix, s Sampling) NodeOutput {
	z := t.logits(node, p)
	t.said = append(t.said[:node], z)
	wide := make([]float64, len(z))
	out := NodeOutput{Token: s.Draw(z, StreamTarget, uint32(p.len))}
	total := 0.0
	for i := range z {
		wide[i] = float64(z[i])
		total += math.Exp(wide[i])
	}
	out.LogSumExp = float32(math.Log(total))
	out.Threshold = float32(math.Inf(-1))
	if s.Temperature > 0 && (s.TopK > 0 || s.TopP > 0 && s.TopP < 1 || s.MinP > 0) {
		out.Threshold = float32(math.Inf(1))
		for i, x := range s.Scores(nil, z) {
			if !math.IsInf(x, -1) {
				out.Threshold = min(out.Threshold, z[i])
			}
		}
	}
	for _, x := range wide {
		out.Entropy -= float32(math.Exp(x) / total * (x - math.Log(total)))
	}
	out.TopIDs = bestOf(wide, t.limits.TopK)
	for _, id := range out.TopIDs {
		out.TopLogits = append(out.TopLogits, z[id])
	}
	return out
}

func (t *scriptedTarget) VerifyChain(ctx context.Context, chain *Tree, draft SamplingDraft, s Sampling) ([]ChainVerdict, error) {
	d := draft.(*scriptedDraft)
	d.checkChain(chain, s)
	out := make([]ChainVerdict, chain.Len())
	t.chain++
	for i, p := range t.prefixes(chain) {
		position := uint32(len(t.cells) + i + 1)
		z := t.logits(i, p)
		if i == chain.Len()-1 {
			out[i] = ChainVerdict{Token: s.Draw(z, StreamTarget, position)}
			continue
		}
		out[i] = Judge(s.Distribution(nil, z), d.q[i], chain.Tokens[i+1], s.Seed, position)
	}
	t.shaping = nil
	return out, nil
}

func (t *scriptedTarget) VerifyDivergence(ctx context.Context, chain *Tree, draft SamplingDraft, s Sampling) ([]NodeOutput, []Divergence, error) {
	d := draft.(*scriptedDraft)
	d.checkChain(chain, s)
	out, err := t.Verify(ctx, chain, s)
	if err != nil {
		return nil, nil, err
	}
	shown := s
	if shown.Temperature == 0 {
		shown = Sampling{Temperature: 1}
	}
	at, gaps := of(t.cells), make([]Divergence, chain.Len()-1)
	for i := range gaps {
		at = at.then(chain.Tokens[i])
		p := shown.Distribution(nil, t.script.logits(at, 0))
		q := shown.Distribution(nil, d.script.logits(at, d.differ))
		gaps[i] = Divergence{Distance: float32(distance(p, q)), Possible: p[chain.Tokens[i+1]] > 0}
	}
	return out, gaps, nil
}

// distance is √JSD, base 2.
func distance(p, q []float64) float64 {
	sum := 0.0
	for i := range p {
		m := (p[i] + q[i]) / 2
		if p[i] > 0 {
			sum += p[i] * math.Log2(p[i]/m) / 2
		}
		if q[i] > 0 {
			sum += q[i] * math.Log2(q[i]/m) / 2
		}
	}
	return math.Sqrt(max(0, sum))
}

func (t *scriptedTarget) VerifySampled(ctx context.Context, tree *Tree, rows []int32, draft TreeSampler, s Sampling) ([]TreeVerdict, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := draft.(*scriptedDraft)
	out := make([]TreeVerdict, tree.Len())
	for i, p := range t.prefixes(tree) {
		position := uint32(p.len)
		z := t.logits(i, p)
		var nodes, children []int32
		for j := i + 1; j < tree.Len(); j++ {
			if tree.Parents[j] == int32(i) {
				nodes, children = append(nodes, int32(j)), append(children, tree.Tokens[j])
			}
		}
		if len(nodes) == 0 {
			if rows[i] != -1 {
				panic(fmt.Sprintf("node %d has no children and row %d", i, rows[i]))
			}
			out[i] = TreeVerdict{Child: -1, Token: s.Draw(z, StreamTarget, position)}
			continue
		}
		if d.rowAt[rows[i]] != p {
			panic(fmt.Sprintf("the children of node %d were not drawn from row %d", i, rows[i]))
		}
		child, token := JudgeChildren(s.Distribution(nil, z), d.q[rows[i]], children, s.Seed, position)
		out[i] = TreeVerdict{Child: -1, Token: token}
		if child >= 0 {
			out[i] = TreeVerdict{Child: nodes[child]}
		}
	}
	t.shaping = nil
	return out, nil
}

func (t *scriptedTarget) Score(ctx context.Context, tokens []int32) ([]float32, error) {
	t.Reset()
	var out []float32
	for i := range tokens[1:] {
		z := t.script.logits(of(tokens[:i+1]), 0)
		out = append(out, float32(math.Log(Sampling{Temperature: 1}.Distribution(nil, z)[tokens[i+1]])))
	}
	t.append(tokens...)
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
