package runner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/spec/spectest"
	"foretoken/webgpu"
)

// verify returns the outputs of a pass over a tree.
func verify(m *Target, tree *spec.Tree, s spec.Sampling) ([]spec.NodeOutput, error) {
	pass, err := m.Verify(background, spec.PassRequest{Sampling: s, Tree: tree})
	if err != nil {
		return nil, err
	}
	return pass.Outputs, nil
}

// loadTarget loads a test model as a target.
func loadTarget(t *testing.T, dev webgpu.Device, name string, o graph.Options) *Target {
	t.Helper()
	if o.Context == 0 {
		o.Context = 128
	}
	m, err := LoadTarget(background, dev, testModel(t, name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// restart empties a target's sequence and prefills a text.
func restart(t *testing.T, m *Target, tokens []int32) {
	t.Helper()
	restartBy(t, m, tokens, len(tokens))
}

// restartBy is restart with the given number of tokens per pass: kernels for few rows compile much faster.
func restartBy(t *testing.T, m *Target, tokens []int32, most int) {
	t.Helper()
	m.Reset()
	for piece := range slices.Chunk(tokens, max(most, 1)) {
		if err := m.Prefill(background, piece); err != nil {
			t.Fatal(err)
		}
	}
}

// node is a tree of one node.
func node(token int32) *spec.Tree {
	tree := &spec.Tree{}
	tree.Reset(token)
	return tree
}

// output is a copy of a node's output.
func output(o spec.NodeOutput) spec.NodeOutput {
	o.TopIDs, o.TopLogits = slices.Clone(o.TopIDs), slices.Clone(o.TopLogits)
	return o
}

func sameOutput(a, b spec.NodeOutput) bool {
	return a.Token == b.Token && a.LogSumExp == b.LogSumExp && a.Entropy == b.Entropy && a.Threshold == b.Threshold &&
		slices.Equal(a.TopIDs, b.TopIDs) && slices.Equal(a.TopLogits, b.TopLogits)
}

// logitsOf reads a row of the logits of the last pass back.
func (t *Target) logitsOf(test *testing.T, row int) []float32 {
	test.Helper()
	m := webgpu.NewMemory(4 * t.Graph.Space.Stride)
	w := &t.Graph.Space
	if err := t.Graph.Dev.Run(nil, webgpu.Region{Buffer: w.Logits.Buffer, Offset: 4 * row * w.Stride,
		Dst: m.Bytes()}); err != nil {
		test.Fatal(err)
	}
	return m.F32()[:t.Graph.Options.Vocab]
}

// randomTree returns a tree of n nodes, most of them in the lower half of depth, without equal siblings.
func randomTree(rng *rand.Rand, root int32, n, depth, vocab int) *spec.Tree {
	tree := node(root)
	for i := 0; tree.Len() < n; i++ {
		parent := int32(tree.Len() - 1) // go deeper until it is deep enough
		if d := int(tree.Depths[parent]); d >= depth || rng.IntN(depth) < d-depth/2 {
			parent = rng.Int32N(int32(tree.Len()))
		}
		if token := rng.Int32N(int32(vocab)); int(tree.Depths[parent]) < depth && tree.Child(parent, token) < 0 {
			tree.Tokens, tree.Parents = append(tree.Tokens, token), append(tree.Parents, parent)
			tree.Depths, tree.Scores = append(tree.Depths, tree.Depths[parent]+1), append(tree.Scores, 0)
		}
	}
	return tree
}

// TestLargeTrees verifies trees of hundreds of nodes, at once and in parts, and compares every node with plain
// decoding of the path to it: every number has the same bits.
func TestLargeTrees(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		sizes := []int{300, 65, 129}
		if testing.Short() {
			sizes = sizes[2:] // sizes of two parts
		}
		plain := loadTarget(t, dev, "tiny-q8_0", graph.Options{MaxRows: 1})
		tuning := plain.Graph.Kernels.Choices()
		together := loadTarget(t, dev, "tiny-q8_0", graph.Options{MaxRows: 300, Tuning: tuning})
		parted := loadTarget(t, dev, "tiny-q8_0", graph.Options{MaxRows: 384, Tuning: tuning, PassRows: 128})
		if n := together.Graph.PassRows(); n != 384 || parted.Graph.PassRows() != 128 {
			t.Fatalf("%d and %d rows at once", n, parted.Graph.PassRows())
		}
		s := spec.Sampling{Temperature: 0.9, TopK: 40, TopP: 0.95, Seed: 12}
		rng := rand.New(rand.NewPCG(300, 1))
		body, root := text[:len(text)-1], text[len(text)-1]
		for _, size := range sizes {
			tree := randomTree(rng, root, size, 8, plain.Graph.Options.Vocab)
			want := map[int32]spec.NodeOutput{}
			for leaf := range int32(size) {
				if !tree.IsLeaf(leaf) {
					continue
				}
				var path []int32
				for i := leaf; i >= 0; i = tree.Parents[i] {
					path = append(path, i)
				}
				slices.Reverse(path)
				restart(t, plain, body)
				for _, i := range path {
					out, err := verify(plain, node(tree.Tokens[i]), s)
					if err != nil {
						t.Fatal(err)
					}
					if before, ok := want[i]; ok && !sameOutput(out[0], before) {
						t.Fatalf("plain decoding of node %d twice: %+v and %+v", i, out[0], before)
					}
					want[i] = output(out[0])
					if err := plain.Commit([]int32{0}); err != nil {
						t.Fatal(err)
					}
				}
			}
			for how, m := range map[string]*Target{"at once": together, "in parts": parted} {
				restart(t, m, body)
				if err := m.passes.prepare(size); err != nil {
					t.Fatal(err)
				}
				before := dev.Counters()
				out, err := verify(m, tree, s)
				if err != nil {
					t.Fatal(err)
				}
				after := dev.Counters()
				if after.Submits-before.Submits != 1 || after.Reads-before.Reads != 1 ||
					after.Programs != before.Programs || after.Buffers != before.Buffers {
					t.Errorf("%d nodes %s: from %+v to %+v", size, how, before, after)
				}
				for i := range int32(size) {
					if !sameOutput(out[i], want[i]) {
						t.Fatalf("%d nodes %s: node %d is\n%+v, decoded plainly\n%+v", size, how, i, out[i], want[i])
					}
				}
				// Commit a path through all parts: the next token has the bits of plain decoding.
				var path []int32
				for i := int32(size - 1); i >= 0; i = tree.Parents[i] {
					path = append(path, i)
				}
				slices.Reverse(path)
				if err := m.Commit(path); err != nil {
					t.Fatal(err)
				}
				restart(t, plain, body)
				for _, i := range path {
					if err := plain.Prefill(background, []int32{tree.Tokens[i]}); err != nil {
						t.Fatal(err)
					}
				}
				next, err := verify(plain, node(7), s)
				if err != nil {
					t.Fatal(err)
				}
				got, err := verify(m, node(7), s)
				if err != nil {
					t.Fatal(err)
				}
				if !sameOutput(got[0], next[0]) {
					t.Fatalf("%d nodes %s: after the path %+v, decoded plainly %+v", size, how, got[0], next[0])
				}
			}
		}
	})
}

// TestTreeOf1011 verifies the largest tree that methods are trained on, near the end of a context that is smaller
// than the tree.
func TestTreeOf1011(t *testing.T) {
	if testing.Short() {
		t.Skip("the programs of many rows compile slowly")
	}
	dev := accelerator(t)
	m := loadTarget(t, dev, "tiny-q8_0", graph.Options{MaxRows: 1011, Context: 64})
	tree := randomTree(rand.New(rand.NewPCG(1011, 1)), 5, 1011, 10, m.Graph.Options.Vocab)
	restart(t, m, slices.Repeat(text, 4)[:50])
	if lim := m.Limits(); lim.MaxRows < 1011 || lim.Context+lim.Spare-50 < 1011 {
		t.Fatalf("limits %+v", lim)
	}
	out, err := verify(m, tree, spec.Sampling{})
	if err != nil {
		t.Fatal(err)
	}
	want := output(out[1010])
	var path []int32
	for i := int32(1010); i >= 0; i = tree.Parents[i] {
		path = append(path, i)
	}
	slices.Reverse(path)
	var last []spec.NodeOutput
	for _, i := range path {
		if last, err = verify(m, node(tree.Tokens[i]), spec.Sampling{}); err != nil {
			t.Fatal(err)
		}
		if err := m.Commit([]int32{0}); err != nil {
			t.Fatal(err)
		}
	}
	if !sameOutput(last[0], want) {
		t.Fatalf("the last node is %+v, decoded plainly %+v", want, last[0])
	}
}

// chainTree returns a root and the tokens drawn after it as a chain.
func chainTree(root int32, drawn []spec.Drawn) *spec.Tree {
	tree := node(root)
	for i, d := range drawn {
		tree.Tokens, tree.Parents = append(tree.Tokens, d.Token), append(tree.Parents, int32(i))
		tree.Depths, tree.Scores = append(tree.Depths, int32(i+1)), append(tree.Scores, 0)
	}
	return tree
}

var verifiedSamplings = []spec.Sampling{
	{},
	{Temperature: 1, Seed: 3},
	{Temperature: 0.7, Seed: 4, TopK: 20, TopP: 0.9},
	{Temperature: 1.3, Seed: 5, MinP: 0.05},
}

// chainPrograms lists the programs of chains of up to so many tokens.
func chainPrograms(d spec.DraftModel, kind spec.PassKind, count int) spec.Programs {
	return spec.Programs{Budget: spec.ChainBudget(count), Draft: spec.DraftChain, Pass: kind, Model: d}
}

// TestVerifyChain compares verdicts with package spec's rejection rule, applied to the logits of both models.
func TestVerifyChain(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		d, m := loadDraft(t, dev, "noisy-q8_0", graph.Options{}), loadTarget(t, dev, "tiny-q8_0", graph.Options{})
		const count = 5
		if err := m.Prepare(chainPrograms(d, spec.PassChain, count)); err != nil {
			t.Fatal(err)
		}
		body, root := text[:len(text)-1], text[len(text)-1:]
		same, seen, accepted := 0, 0, 0
		for seed := range uint64(8) {
			for _, s := range verifiedSamplings[1:] {
				s.Seed = seed
				prefilled(t, d, body)
				restart(t, m, body)
				drawn, err := d.Sample(background, spec.SampleRequest{Pending: root, Count: count, Sampling: s})
				if err != nil {
					t.Fatal(err)
				}
				before := dev.Counters()
				pass, err := m.Verify(background, spec.PassRequest{Kind: spec.PassChain, Sampling: s,
					Tree: chainTree(root[0], drawn), Model: d})
				if err != nil {
					t.Fatal(err)
				}
				after := dev.Counters()
				if after.Submits-before.Submits != 1 || after.Programs != before.Programs ||
					after.Buffers != before.Buffers || after.Kernels != before.Kernels {
					t.Fatalf("%+v: from %+v to %+v", s, before, after)
				}
				for i, v := range pass.Chain {
					position := uint32(len(text) + i)
					z := m.logitsOf(t, i)
					want := spec.ChainVerdict{Token: spectest.Draw(s, z, spec.StreamTarget, position)}
					if i < count {
						q := spectest.Distribution(s, d.readRow(t, d.Graph.Space.Logits, d.Graph.Space.Stride, i))
						if want = spectest.VerifyToken(spectest.Distribution(s, z), q, drawn[i].Token, s.Seed,
							position); want.Accepted {
							want.Token = drawn[i].Token
							accepted++
						}
					}
					if seen++; v == want {
						same++
					}
				}
			}
		}
		if same*100 < seen*99 || accepted == 0 || accepted == seen {
			t.Errorf("%d of %d verdicts are those of float64, %d accepted", same, seen, accepted)
		}
	})
}

// TestVerifyDivergence compares distances with those computed from the logits of both models, and outputs with
// those of Verify.
func TestVerifyDivergence(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		d, m := loadDraft(t, dev, "noisy-q8_0", graph.Options{}), loadTarget(t, dev, "tiny-q8_0", graph.Options{})
		const count = 7
		if err := m.Prepare(chainPrograms(d, spec.PassDivergence, count)); err != nil {
			t.Fatal(err)
		}
		body, root := text[:len(text)-1], text[len(text)-1:]
		most := 0.0
		for _, s := range verifiedSamplings {
			prefilled(t, d, body)
			restart(t, m, body)
			drawn, err := d.Sample(background, spec.SampleRequest{Pending: root, Count: count - 2, Sampling: s})
			if err == nil {
				drawn, err = d.Sample(background, spec.SampleRequest{Count: 2})
			}
			if err != nil {
				t.Fatal(err)
			}
			tree := chainTree(root[0], drawn)
			outputs, err := verify(m, tree, s)
			if err != nil {
				t.Fatal(err)
			}
			var want []spec.NodeOutput
			for _, o := range outputs {
				want = append(want, output(o))
			}
			before := dev.Counters()
			pass, err := m.Verify(background, spec.PassRequest{Kind: spec.PassDivergence, Sampling: s, Tree: tree,
				Model: d})
			if err != nil {
				t.Fatal(err)
			}
			after := dev.Counters()
			if after.Submits-before.Submits != 1 || after.Reads-before.Reads != 1 ||
				after.Programs != before.Programs || after.Buffers != before.Buffers ||
				after.Kernels != before.Kernels {
				t.Fatalf("%+v: from %+v to %+v", s, before, after)
			}
			out, gaps := pass.Outputs, pass.Divergences
			if len(gaps) != count || !slices.EqualFunc(out, want, sameOutput) {
				t.Fatalf("%+v: outputs\n%+v, of Verify\n%+v", s, out, want)
			}
			shown := s
			if s.Temperature == 0 {
				shown = spec.Sampling{Temperature: 1}
			}
			for i, g := range gaps {
				p := spectest.Distribution(shown, m.logitsOf(t, i))
				q := spectest.Distribution(shown, d.readRow(t, d.Graph.Space.Logits, d.Graph.Space.Stride, i))
				distance := jensenShannon(p, q)
				most = max(most, distance)
				if math.Abs(float64(g.Distance)-distance) > 1e-4 || g.Possible != (p[drawn[i].Token] > 0) {
					t.Fatalf("%+v node %d: %+v, want %g and a probability of %g", s, i, g, distance, p[drawn[i].Token])
				}
			}
			if err := m.Commit([]int32{0, 1, 2}); err != nil || m.Len() != len(text)+2 {
				t.Fatal(err, m.Len())
			}
		}
		if most < 0.05 {
			t.Errorf("draft and target are at most %g apart: this shows nothing", most)
		}
		other := chainTree(root[0], []spec.Drawn{{Token: 1}, {Token: 1}})
		if _, err := m.Verify(background, spec.PassRequest{Kind: spec.PassDivergence, Sampling: verifiedSamplings[1],
			Tree: other, Model: d}); err == nil ||
			!strings.Contains(err.Error(), "not the one") {
			t.Errorf("a chain that was not sampled: %v", err)
		}
	})
}

// jensenShannon returns √JSD, base 2.
func jensenShannon(p, q []float64) float64 {
	sum := 0.0
	for i := range p {
		for _, x := range []float64{p[i], q[i]} {
			if x > 0 {
				sum += x * math.Log2(2*x/(p[i]+q[i])) / 2
			}
		}
	}
	return math.Sqrt(max(sum, 0))
}

// TestVerifySampled grows trees without replacement and compares every verdict with package spec's rule, applied to
// the logits of both models.
func TestVerifySampled(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		d := loadDraft(t, dev, "noisy-q8_0", graph.Options{})
		m := loadTarget(t, dev, "tiny-q8_0", graph.Options{MaxRows: 192, PassRows: 64})
		const k = 8
		all := []int32{0, 1, 2, 3, 4, 5, 6, 7}
		layout := &spec.Layout{Beams: [][]int32{all, all}}
		p := spec.Programs{Budget: spec.Budget{Levels: 3, Width: k, Nodes: 192}, Draft: spec.DraftDrawn, Depth: 2,
			Widths: []int{k}, Pass: spec.PassSampled, Model: d}
		if err := m.Prepare(p); err != nil {
			t.Fatal(err)
		}
		body, root := text[:len(text)-1], text[len(text)-1:]
		seeds := uint64(12)
		if testing.Short() {
			seeds = 4
		}
		same, accepted, verdictsSeen := 0, 0, 0
		for seed := range seeds {
			for _, s := range verifiedSamplings[1:] {
				s.Seed = seed
				prefilled(t, d, body)
				restart(t, m, body)
				levels := mustLevels(t)(d.Draft(background, spec.DraftRequest{Pending: root, Depth: 2, K: k,
					Sampling: s, Drawn: true, Layout: layout}))
				tree, rows := sampledTree(root[0], levels)
				before := dev.Counters()
				pass, err := m.Verify(background, spec.PassRequest{Kind: spec.PassSampled, Sampling: s, Tree: tree,
					Model: d, Rows: rows})
				if err != nil {
					t.Fatal(err)
				}
				verdicts, stored := slices.Clone(pass.Children), d.trees.distributions.logits
				after := dev.Counters()
				if after.Submits-before.Submits != 1 || after.Reads-before.Reads != 1 ||
					after.Programs != before.Programs || after.Buffers != before.Buffers ||
					after.Kernels != before.Kernels {
					t.Fatalf("%+v: from %+v to %+v", s, before, after)
				}
				if len(verdicts) != tree.Len() || tree.Len() <= 64 {
					t.Fatalf("%d verdicts for %d nodes", len(verdicts), tree.Len())
				}
				first := tree.Len() - tree.Len()%64 // the logits on the device are those of the last part
				for i := first; i < tree.Len(); i++ {
					verdictsSeen++
					v, place, token := verdicts[i], -1, int32(0)
					p := spectest.Distribution(s, m.logitsOf(t, i-first))
					nodes, children := childrenOf(tree, int32(i))
					position := uint32(m.Len()) + uint32(tree.Depths[i]) + 1
					if len(nodes) == 0 {
						token = spectest.Draw(s, m.logitsOf(t, i-first), spec.StreamTarget, position)
					} else {
						q := spectest.Distribution(spec.Sampling{Temperature: s.Temperature},
							d.readRow(t, stored.View, stored.Stride, int(rows[i])))
						place, token = spectest.VerifyChildren(p, q, children, s.Seed, position)
					}
					want := spec.TreeVerdict{Child: -1, Token: token}
					if place >= 0 {
						want.Child = nodes[place]
					}
					if v == want {
						same++
					}
				}
				// The nodes of the first part alone get the same verdicts.
				small := &spec.Tree{Tokens: tree.Tokens[:1+k], Parents: tree.Parents[:1+k], Depths: tree.Depths[:1+k],
					Scores: tree.Scores[:1+k]}
				smallRows := slices.Repeat([]int32{-1}, 1+k)
				smallRows[0] = 0
				if pass, err = m.Verify(background, spec.PassRequest{Kind: spec.PassSampled, Sampling: s, Tree: small,
					Model: d, Rows: smallRows}); err != nil {
					t.Fatal(err)
				}
				again := pass.Children
				if again[0] != verdicts[0] {
					t.Fatalf("%+v: the root's verdict is %+v in a tree of %d and %+v in one of %d", s, verdicts[0],
						tree.Len(), again[0], small.Len())
				}
				nodes, children := childrenOf(small, 0)
				q := spectest.Distribution(spec.Sampling{Temperature: s.Temperature},
					d.readRow(t, stored.View, stored.Stride, 0))
				place, token := spectest.VerifyChildren(spectest.Distribution(s, m.logitsOf(t, 0)), q, children, s.Seed,
					uint32(m.Len())+1)
				want := spec.TreeVerdict{Child: -1, Token: token}
				if place >= 0 {
					want.Child = nodes[place]
					accepted++
				}
				if again[0] == want {
					same++
				}
				verdictsSeen++
			}
		}
		t.Logf("%d of %d verdicts are those of float64; %d roots accepted a child", same, verdictsSeen, accepted)
		if same*100 < verdictsSeen*99 || accepted == 0 {
			t.Errorf("only %d of %d verdicts are those of float64; %d roots accepted a child", same, verdictsSeen,
				accepted)
		}
		tree := node(1)
		wrong := spec.PassRequest{Kind: spec.PassSampled, Sampling: verifiedSamplings[1], Tree: tree, Model: d,
			Rows: []int32{5, 6}}
		if _, err := m.Verify(background, wrong); err == nil {
			t.Error("two rows for one node were taken")
		}
		mustLevels(t)(d.Draft(background, spec.DraftRequest{Pending: []int32{3}, Depth: 1, K: 2}))
		wrong.Rows = []int32{-1}
		if _, err := m.Verify(background, wrong); err == nil {
			t.Error("a ranked tree was verified as a sampled one")
		}
	})
}

// sampledTree returns a tree of all candidates of levels, and for each node the row that its children were drawn
// from.
func sampledTree(root int32, levels []spec.Level) (*spec.Tree, []int32) {
	tree, rows := node(root), []int32{0}
	above := []int32{0} // nodes that proposed the level
	fed := int32(1)
	for _, l := range levels {
		at := map[int32]int32{} // candidate → node
		for i, c := range l.Candidates {
			if math.IsInf(float64(c.LogQ), -1) {
				continue
			}
			parent := above[c.Beam]
			at[int32(i)] = int32(tree.Len())
			tree.Tokens, tree.Parents = append(tree.Tokens, c.Token), append(tree.Parents, parent)
			tree.Depths, tree.Scores = append(tree.Depths, tree.Depths[parent]+1), append(tree.Scores, 0)
			rows = append(rows, -1)
		}
		above = above[:0]
		for _, b := range l.Beams {
			above = append(above, at[b])
			rows[at[b]] = fed
			fed++
		}
	}
	for i := range rows {
		if tree.IsLeaf(int32(i)) {
			rows[i] = -1
		}
	}
	return tree, rows
}

// childrenOf returns the nodes and the tokens of a node's children.
func childrenOf(tree *spec.Tree, parent int32) (nodes, tokens []int32) {
	for i, p := range tree.Parents {
		if p == parent {
			nodes, tokens = append(nodes, int32(i)), append(tokens, tree.Tokens[i])
		}
	}
	return nodes, tokens
}

// TestTargetRefuses checks that invalid requests fail with the reason and leave the sequence unchanged.
func TestTargetRefuses(t *testing.T) {
	dev := accelerator(t)
	if _, err := LoadTarget(background, dev, testModel(t, "tiny-q8_0"), graph.Options{MaxRows: 1025}); err == nil ||
		!strings.Contains(err.Error(), "1 to 1024") {
		t.Errorf("1025 rows: %v", err)
	}
	if _, err := LoadDraft(background, dev, testModel(t, "tiny-q8_0"), graph.Options{MaxRows: 65}); err == nil ||
		!strings.Contains(err.Error(), "1 to 64") {
		t.Errorf("a draft of 65 rows: %v", err)
	}
	m := loadTarget(t, dev, "tiny-q8_0", graph.Options{MaxRows: 128})
	restart(t, m, text[:4])
	deep := node(1)
	for i := range int32(100) {
		deep.Tokens, deep.Parents = append(deep.Tokens, i), append(deep.Parents, i)
		deep.Depths, deep.Scores = append(deep.Depths, i+1), append(deep.Scores, 0)
	}
	for what, tree := range map[string]*spec.Tree{"100 levels": deep,
		"129 nodes": randomTree(rand.New(rand.NewPCG(1, 1)), 1, 129, 5, 512)} {
		if _, err := verify(m, tree, spec.Sampling{}); err == nil {
			t.Errorf("a tree of %s was verified", what)
		}
		if m.Len() != 4 || m.seq.Free() != 128+m.Graph.Options.Spare()-4 {
			t.Errorf("after a tree of %s: %d tokens, %d free slots", what, m.Len(), m.seq.Free())
		}
	}
	other := loadDraft(t, dev, "tiny-q8_0", graph.Options{Vocab: 500})
	if _, err := m.Verify(background, spec.PassRequest{Kind: spec.PassSampled, Sampling: spec.Sampling{Temperature: 1},
		Tree: node(1), Model: other, Rows: []int32{-1}}); err == nil ||
		!strings.Contains(err.Error(), "one vocabulary") {
		t.Error(fmt.Sprint("a draft of another vocabulary: ", err))
	}
}
