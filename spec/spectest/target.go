// Package spectest holds scripted models, the reference of sampling and checks for the tests of spec, its packages and
// the kernels. The scripted logits hash the complete prefix, so any mistake changes all tokens after it.
package spectest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"foretoken/spec"
)

// Script is a language over a small vocabulary whose logits hash the complete prefix: an extra, missing, misplaced
// or reordered token changes everything after it.
type Script struct {
	Vocab int
	Steps float64 // logits are multiples of 1/Steps, so that a small value gives ties
	// EOS follows every prefix of at least EOSAt tokens, and no shorter one. 0 disables it.
	EOS   int32
	EOSAt int
}

// Prefix is the hash and the length of a sequence.
type Prefix struct {
	Hash uint64
	Len  int
}

func (p Prefix) Then(token int32) Prefix {
	return Prefix{Mix(p.Hash*0x9E3779B97F4A7C15 + uint64(token) + 1), p.Len + 1}
}

func PrefixOf(tokens []int32) Prefix {
	p := Prefix{Hash: 1}
	for _, t := range tokens {
		p = p.Then(t)
	}
	return p
}

func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// Logits returns logits in [-2, 2]. differ, in [0, 1], is the share that another model, the draft, replaces.
func (s *Script) Logits(p Prefix, differ float64) []float32 {
	z := make([]float32, s.Vocab)
	for i := range z {
		same := Unit(Mix(p.Hash + uint64(i)*0xD1B54A32D192ED03))
		other := Unit(Mix(^p.Hash + uint64(i)*0xA24BAED4963EE407))
		v := 4*((1-differ)*same+differ*other) - 2
		z[i] = float32(math.Round(v*s.Steps) / s.Steps)
	}
	if s.EOSAt > 0 {
		z[s.EOS] = -50
		if p.Len >= s.EOSAt {
			z[s.EOS] = 50
		}
	}
	return z
}

func Unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// Model holds the sequence and the limits of a scripted target or draft. A broken rule of the contract panics,
// which fails the test with the place.
type Model struct {
	Script *Script
	limits spec.Limits
	Cells  []int32
	Keeps  bool // reuses the prefix of the request before
}

func (m *Model) Limits() spec.Limits { return m.limits }
func (m *Model) Len() int            { return len(m.Cells) }
func (m *Model) Sync() error         { return nil }

func (m *Model) ReadbackTime() time.Duration { return 0 }

func (m *Model) Prefill(ctx context.Context, tokens []int32) error {
	if len(tokens) == 0 {
		panic("Prefill of nothing")
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.append(tokens...)
	return nil
}

func (m *Model) append(tokens ...int32) {
	for _, t := range tokens {
		if t < 0 || int(t) >= m.limits.Vocab {
			panic(fmt.Sprintf("token %d of %d", t, m.limits.Vocab))
		}
	}
	m.Cells = append(m.Cells, tokens...)
	if len(m.Cells) > m.limits.Context {
		panic(fmt.Sprintf("%d tokens in a cache of %d", len(m.Cells), m.limits.Context))
	}
}

type Target struct {
	Model
	tree  *spec.Tree // verified and not yet committed
	calls int
	rows  int
	Chain int // passes by the rejection rule
	// adjustment applies to the next pass, which clears it.
	adjustment *spec.Adjustment
	lastLogits [][]float32 // logits of the last pass
}

var _ spec.Target = (*Target)(nil)

func NewTarget(s *Script, context, rows int) *Target {
	return &Target{Model: Model{Script: s, limits: spec.Limits{Context: context, MaxRows: rows, Vocab: s.Vocab, TopK: 8,
		LogitRows: min(10, rows)}}}
}

func (t *Target) Reset() { t.Cells, t.tree = t.Cells[:0], nil }

// prefixes checks a tree and returns the prefix that ends with each node.
func (t *Target) prefixes(tree *spec.Tree) []Prefix {
	if err := tree.Validate(t.limits.Vocab); err != nil {
		panic(err)
	}
	if tree.Len() > t.limits.MaxRows || len(t.Cells)+tree.Len() > t.limits.Context {
		panic(fmt.Sprintf("%d nodes after %d tokens exceed %+v", tree.Len(), len(t.Cells), t.limits))
	}
	t.calls++
	t.rows += tree.Len()
	t.tree = tree.Clone()
	at := make([]Prefix, tree.Len())
	for i, token := range tree.Tokens {
		if i == 0 {
			at[0] = PrefixOf(t.Cells).Then(token)
			continue
		}
		at[i] = at[tree.Parents[i]].Then(token)
		if tree.Child(tree.Parents[i], token) != int32(i) {
			panic(fmt.Sprintf("node %d repeats a sibling", i))
		}
	}
	return at
}

func (t *Target) Prepare(spec.Programs) error { return nil }

func (t *Target) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, pass, last := t.prefixes(r.Tree), &spec.Pass{}, r.Tree.Len()-1
	d, _ := r.Model.(*DraftModel)
	if r.Kind == spec.PassChain || r.Kind == spec.PassDivergence {
		d.checkChain(r.Tree, r.Sampling)
	}
	for i, p := range at {
		switch r.Kind {
		case spec.PassChain:
			pass.Chain = append(pass.Chain, t.chainVerdict(i, p, &r, d))
		case spec.PassSampled:
			pass.Children = append(pass.Children, t.treeVerdict(i, p, &r, d))
		default:
			pass.Outputs = append(pass.Outputs, t.output(i, p, r.Sampling))
		}
		if r.Kind == spec.PassDivergence && i < last {
			pass.Divergences = append(pass.Divergences, t.divergence(p, r.Tree.Tokens[i+1], r.Sampling, d))
		}
	}
	if r.Kind == spec.PassChain {
		t.Chain++
	}
	t.adjustment = nil
	return pass, nil
}

func (t *Target) Adjust(a *spec.Adjustment) error {
	t.adjustment = &spec.Adjustment{Nodes: a.Nodes, Masks: slices.Clone(a.Masks), Which: slices.Clone(a.Which),
		Common: slices.Clone(a.Common), Own: slices.Clone(a.Own)}
	return nil
}

// logits returns the adjusted logits after a node of the pass.
func (t *Target) logits(node int, p Prefix) []float32 {
	z := t.Script.Logits(p, 0)
	if t.adjustment != nil {
		if node >= t.adjustment.Nodes {
			panic(fmt.Sprintf("node %d of an adjustment of %d", node, t.adjustment.Nodes))
		}
		ApplyAdjustment(z, t.adjustment, node)
	}
	return z
}

func (t *Target) Logits(nodes, tokens []int32, dst []float32) error {
	for i := range nodes {
		if len(t.lastLogits) > t.limits.LogitRows {
			panic("logits of a tree that is too large")
		}
		dst[i] = t.lastLogits[nodes[i]][tokens[i]]
	}
	return nil
}

// ApplyAdjustment is the reference implementation of an adjustment.
func ApplyAdjustment(z []float32, s *spec.Adjustment, node int) {
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

// output returns the target's output for a node.
func (t *Target) output(node int, p Prefix, s spec.Sampling) spec.NodeOutput {
	z := t.logits(node, p)
	t.lastLogits = append(t.lastLogits[:node], z)
	wide := make([]float64, len(z))
	out := spec.NodeOutput{Token: Draw(s, z, spec.StreamTarget, uint32(p.Len))}
	total := 0.0
	for i := range z {
		wide[i] = float64(z[i])
		total += math.Exp(wide[i])
	}
	out.LogSumExp = float32(math.Log(total))
	out.Threshold = float32(math.Inf(-1))
	if s.Temperature > 0 && (s.TopK > 0 || s.TopP > 0 && s.TopP < 1 || s.MinP > 0) {
		out.Threshold = float32(math.Inf(1))
		for i, x := range scores(s, z) {
			if !math.IsInf(x, -1) {
				out.Threshold = min(out.Threshold, z[i])
			}
		}
	}
	for _, x := range wide {
		out.Entropy -= float32(math.Exp(x) / total * (x - math.Log(total)))
	}
	out.TopIDs = BestOf(wide, t.limits.TopK)
	for _, id := range out.TopIDs {
		out.TopLogits = append(out.TopLogits, z[id])
	}
	return out
}

// chainVerdict returns the verdict on the child of a node of a chain.
func (t *Target) chainVerdict(i int, p Prefix, r *spec.PassRequest, d *DraftModel) spec.ChainVerdict {
	z := t.logits(i, p)
	if i == r.Tree.Len()-1 {
		return spec.ChainVerdict{Token: Draw(r.Sampling, z, spec.StreamTarget, uint32(p.Len))}
	}
	return VerifyToken(Distribution(r.Sampling, z), d.q[i], r.Tree.Tokens[i+1], r.Sampling.Seed, uint32(p.Len))
}

// divergence compares the distributions after a prefix, which next follows.
func (t *Target) divergence(at Prefix, next int32, s spec.Sampling, d *DraftModel) spec.Divergence {
	if s.Temperature == 0 {
		s = spec.Sampling{Temperature: 1}
	}
	p := Distribution(s, t.Script.Logits(at, 0))
	q := Distribution(s, d.Script.Logits(at, d.Differ))
	return spec.Divergence{Distance: float32(distance(p, q)), Possible: p[next] > 0}
}

// distance returns √JSD, base 2.
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

// treeVerdict returns the verdict on the children of a node.
func (t *Target) treeVerdict(i int, p Prefix, r *spec.PassRequest, d *DraftModel) spec.TreeVerdict {
	tree, row, z := r.Tree, r.Rows[i], t.logits(i, p)
	var nodes, children []int32
	for j := i + 1; j < tree.Len(); j++ {
		if tree.Parents[j] == int32(i) {
			nodes, children = append(nodes, int32(j)), append(children, tree.Tokens[j])
		}
	}
	if len(nodes) == 0 {
		if row != -1 {
			panic(fmt.Sprintf("node %d has no children and row %d", i, row))
		}
		return spec.TreeVerdict{Child: -1, Token: Draw(r.Sampling, z, spec.StreamTarget, uint32(p.Len))}
	}
	if d.rowAt[row] != p {
		panic(fmt.Sprintf("the children of node %d were not drawn from row %d", i, row))
	}
	child, token := VerifyChildren(Distribution(r.Sampling, z), d.q[row], children, r.Sampling.Seed, uint32(p.Len))
	if child >= 0 {
		return spec.TreeVerdict{Child: nodes[child]}
	}
	return spec.TreeVerdict{Child: -1, Token: token}
}

func (t *Target) Score(context.Context, []int32) ([]float32, error) { panic("no round scores") }

func (t *Target) Commit(path []int32) error {
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

// Plain decodes without the engine: the reference of every comparison.
func Plain(s *Script, prompt []int32, context int, o spec.Options) ([]int32, spec.Finish) {
	at := PrefixOf(prompt)
	var out []int32
	for {
		if at.Len == context {
			return out, spec.FinishContext
		}
		token := Draw(o.Sampling, s.Logits(at, 0), spec.StreamTarget, uint32(at.Len))
		out = append(out, token)
		at = at.Then(token)
		switch {
		case o.Cut != nil && stops(o.Cut([]int32{token})):
			return out, spec.FinishStop
		case slices.Contains(o.EOS, token):
			return out, spec.FinishEOS
		case o.MaxTokens > 0 && len(out) == o.MaxTokens:
			return out, spec.FinishLength
		}
	}
}

func stops(_ int, stop bool) bool { return stop }

func (m *Model) prefix(tokens []int32) int {
	n := 0
	for m.Keeps && n < min(len(m.Cells), len(tokens)) && m.Cells[n] == tokens[n] {
		n++
	}
	m.Cells = m.Cells[:n]
	return n
}

func (t *Target) ReusePrefix(tokens []int32) int {
	t.tree = nil
	return t.prefix(tokens)
}
