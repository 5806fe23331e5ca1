package runner

import (
	"context"
	"errors"
	"fmt"

	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/spec"
	"foretoken/webgpu"
)

// Target is a target model. It verifies token trees by drawing at every node or against a draft's distributions
// (compare.go), drafts and verifies in one submit (joint.go), scores texts (score.go) and embeds them (hidden.go).
type Target struct {
	*decoder
	passes   treePasses
	compare  comparisons
	joint    jointRuns
	adjuster adjuster
	scores   map[int]webgpu.Program // by bucket

	slots    []uint32         // of the last tree's nodes
	nodes    []int32          // tokens of the last tree's nodes
	path     []uint32         // scratch of place
	programs []webgpu.Program // of the run under construction
	regions  []webgpu.Region  // its readbacks
	logits   webgpu.Memory    // readback of Logits
}

var _ spec.Target = (*Target)(nil)

// LoadTarget loads a target model.
func LoadTarget(ctx context.Context, dev webgpu.Device, f *gguf.File, o graph.Options) (*Target, error) {
	m, err := load(ctx, dev, f, o, Plan)
	if err != nil {
		return nil, err
	}
	t := newTarget(m)
	if err := t.record(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func newTarget(m *decoder) *Target {
	t := &Target{decoder: m, scores: map[int]webgpu.Program{}}
	t.passes = treePasses{graph: m.Graph, batch: &m.prefill.batch, programs: map[part]*partPrograms{}}
	t.compare.chains = map[chainKey]webgpu.Program{}
	t.Replace(t)
	return t
}

// Replace puts another target in the place of t, at the same address. by is not to be used afterwards.
func (t *Target) Replace(by *Target) {
	*t = *by
	t.compare.passes, t.adjuster.passes, t.joint.target = &t.passes, &t.passes, t
}

// defaultRows is the largest tree that LoadTarget prepares for.
const defaultRows = 16

// record compiles the programs that every target needs.
func (t *Target) record() error {
	if err := t.passes.allocate(); err != nil {
		return err
	}
	g := t.Graph
	t.passes.results.makeMemory(&g.Options)
	t.path = make([]uint32, t.passes.batch.Stride)
	g.Single = g.Options.FastStart && !g.Dev.Info().Host()
	defer func() { g.Single = false }()
	if err := t.makePrefill(); err != nil {
		return err
	}
	if g.Options.FastStart {
		return t.passes.prepare(1)
	}
	return t.passes.prepare(min(defaultRows, g.Options.MaxRows))
}

// makePrefill compiles the programs of Prefill.
func (t *Target) makePrefill() error {
	b := &graph.Batch{}
	t.recordPrefill(b)
	return t.Graph.Build(b)
}

// Warm compiles the programs that a fast start left out, for trees of up to rows nodes. It skips programs that exist,
// so a caller can warm larger and larger trees in steps.
func (t *Target) Warm(rows int) error {
	if o := &t.Graph.Options; o.FastStart {
		o.FastStart = false
		if err := t.makePrefill(); err != nil {
			o.FastStart = true
			return err
		}
	}
	if err := t.passes.makeFilter(); err != nil {
		return err
	}
	return t.passes.prepare(rows)
}

// tap makes every later pass store the residual stream after the given layers, in ascending order and numbered from
// 0. It empties the sequence, whose features were not stored, and records the programs again. Tapping the same
// layers again has no effect.
func (t *Target) tap(layers []int) error {
	if tapped, err := t.Graph.Tap(t.seq, layers); err != nil || !tapped {
		return err
	}
	t.Reset()
	t.Graph.Preparing("recording feature taps")
	b := &graph.Batch{}
	t.recordPrefill(b)
	for key, programs := range t.passes.programs {
		t.passes.recordVerify(b, key, programs)
	}
	return t.Graph.Build(b)
}

// Reset empties the sequence.
func (t *Target) Reset() {
	t.seq.Reset()
	t.slots = t.slots[:0]
}

// ReusePrefix truncates the sequence to its longest common prefix with tokens and returns the length.
func (t *Target) ReusePrefix(tokens []int32) int {
	t.release()
	return t.seq.ReusePrefix(tokens)
}

// Within calls f while the sequence consists of its first n tokens only. f may verify and must not commit. It
// allows timing passes at several context lengths after one prefill.
func (t *Target) Within(n int, f func() error) error {
	if n < 0 || n > t.Len() {
		return fmt.Errorf("runner: the first %d of %d tokens", n, t.Len())
	}
	if err := t.seq.Flush(); err != nil {
		return err
	}
	return t.seq.Within(n, f)
}

// place fills the batch with a tree after the committed tokens.
func (t *Target) place(tree *spec.Tree) error {
	n, base, o := len(tree.Tokens), t.Len(), &t.Graph.Options
	if n == 0 || n > o.MaxRows {
		return fmt.Errorf("runner: a tree of %d nodes; 1 to %d can be verified", n, o.MaxRows)
	}
	if err := t.checkTokens(tree.Tokens); err != nil {
		return err
	}
	t.release()
	var err error
	if t.slots, err = t.seq.Take(n, t.slots[:0]); err != nil {
		return err
	}
	t.nodes = append(t.nodes[:0], tree.Tokens...)
	batch := t.passes.batch
	for i, token := range tree.Tokens {
		depth := int(tree.Depths[i])
		if depth >= len(t.path) {
			t.release()
			return fmt.Errorf("runner: a tree of %d levels below its root; %d can be verified", depth, len(t.path)-1)
		}
		if base+depth >= o.Context {
			t.release()
			return fmt.Errorf("runner: position %d does not fit a context of %d", base+depth, o.Context)
		}
		for j, d := int32(i), depth; j >= 0; j, d = tree.Parents[j], d-1 {
			t.path[d] = t.slots[j]
		}
		batch.Set(i, token, base+depth, t.slots[i], base, t.path[:depth+1]...)
	}
	rows := t.passes.padded(n)
	batch.Pad(n, rows)
	return batch.Write(rows)
}

// release frees the slots of the last tree.
func (t *Target) release() {
	t.slots = t.seq.Release(t.slots)
}

// begin starts a run over a tree: it places the tree and uploads the sampling parameters.
func (t *Target) begin(ctx context.Context, tree *spec.Tree, s spec.Sampling) error {
	t.adjuster.now, t.adjuster.next = t.adjuster.next, spec.AdjustmentKinds{}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := t.passes.prepare(len(tree.Tokens)); err != nil {
		return err
	}
	if filters(s) && len(tree.Tokens) == 1 {
		if err := t.passes.makeFilter(); err != nil {
			return err
		}
	}
	if err := t.place(tree); err != nil {
		return err
	}
	if err := t.seq.Flush(); err != nil {
		return err
	}
	t.programs, t.regions = t.programs[:0], t.regions[:0]
	return t.writeDraw(s, spec.StreamTarget, false)
}

// Prepare implements spec.Target.
func (t *Target) Prepare(p spec.Programs) error {
	nodes := max(p.Budget.Nodes, 1)
	if err := t.passes.prepare(nodes); err != nil {
		return err
	}
	if p.Pass != spec.PassOutputs || p.Joint && p.Model != nil {
		d, err := t.draftOf(p.Model)
		if err != nil {
			return err
		}
		if err := t.joint.prepare(d, p); err != nil {
			return err
		}
	}
	return t.adjuster.prepare(nodes, p.Adjust)
}

// draftOf returns the Draft behind an interface of package spec. It returns an error unless the draft is on the
// target's device and has its vocabulary.
func (t *Target) draftOf(model spec.DraftModel) (*Draft, error) {
	switch d, ok := model.(*Draft); {
	case model == nil:
		return nil, errors.New("runner: this pass needs the draft model")
	case ok && d.Graph.Dev != t.Graph.Dev:
		return nil, errors.New("runner: comparing distributions needs the draft on the target's device")
	case ok && d.Graph.Options.Vocab == t.Graph.Options.Vocab:
		return d, nil
	}
	return nil, errors.New("runner: comparing distributions needs draft and target with one vocabulary")
}

// Verify implements spec.Target, in one submit and one readback. To draft in the same run, the draft has to be on the
// target's device, the tree has to fit one part of a pass, and Prepare has to have compiled all programs.
func (t *Target) Verify(ctx context.Context, r spec.PassRequest) (*spec.Pass, error) {
	if r.Tree == nil {
		return t.joint.run(ctx, &r)
	}
	n := len(r.Tree.Tokens)
	var d *Draft
	if r.Kind != spec.PassOutputs {
		var err error
		if d, err = t.draftOf(r.Model); err != nil {
			return nil, err
		}
		if err := t.compare.check(&r, d); err != nil {
			return nil, err
		}
	}
	if err := t.begin(ctx, r.Tree, r.Sampling); err != nil {
		return nil, err
	}
	if r.Kind == spec.PassSampled {
		if err := t.compare.listTree(&r, t.Len(), d); err != nil {
			return nil, err
		}
	}
	t.addPass(&r, d, n)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	return t.decode(&r, n), nil
}

// addPass adds the pass over n nodes and its readbacks to the run. d is the draft that it compares with.
func (t *Target) addPass(r *spec.PassRequest, d *Draft, n int) {
	compares := r.Kind == spec.PassDivergence
	draws := compares || r.Kind == spec.PassOutputs // at every node, whatever the draft
	t.passes.each(n, func(key part, p *partPrograms) {
		t.programs = t.adjuster.add(append(t.programs, p.verify), key)
		if draws {
			t.programs = append(t.programs, p.sample)
		}
		// At temperature 0 softmaxes are compared, which need no record.
		if !draws || filters(r.Sampling) || compares && r.Sampling.Temperature > 0 {
			t.programs = append(t.programs, p.filter)
		}
		switch r.Kind {
		case spec.PassChain, spec.PassDivergence:
			t.programs = append(t.programs, t.compare.chains[chainKey{d, n - 1, compares}])
		case spec.PassSampled:
			t.programs = append(t.programs, t.compare.trees[verifierKey{d, key}])
		}
	})
	out, first := &t.passes.results, t.passes.results.verdicts
	if draws {
		first = out.records
	}
	t.regions = append(t.regions, out.read(first, n))
	if !draws || filters(r.Sampling) {
		t.regions = append(t.regions, out.read(out.filtered, n))
	}
	if compares {
		t.regions = append(t.regions, out.read(out.divergences, n-1))
	}
}

// decode decodes the answer to a pass over n nodes.
func (t *Target) decode(r *spec.PassRequest, n int) *spec.Pass {
	return t.passes.results.decode(r, n, t.drawWords[0], t.compare.ids)
}

// Adjust implements spec.Target. It compiles programs that Prepare has not compiled.
func (t *Target) Adjust(a *spec.Adjustment) error { return t.adjuster.adjust(a) }

// Logits implements spec.Target. It reads four bytes a token back.
func (t *Target) Logits(nodes, tokens []int32, dst []float32) error {
	if len(tokens) != len(nodes) || len(dst) != len(nodes) {
		return fmt.Errorf("runner: %d nodes, %d tokens and room for %d logits", len(nodes), len(tokens), len(dst))
	}
	g := t.Graph
	if len(t.logits) < len(nodes) {
		t.logits = webgpu.NewMemory(4 * max(len(nodes), len(t.path)))
	}
	t.regions = t.regions[:0]
	for i, n := range nodes {
		if n < 0 || int(n) >= min(len(t.nodes), g.PassRows()) || tokens[i] < 0 || int(tokens[i]) >= g.Options.Vocab {
			return fmt.Errorf("runner: the logit of token %d after node %d of a tree of %d", tokens[i], n, len(t.nodes))
		}
		at := g.Space.Logits.Offset + 4*(int(n)*g.Space.Stride+int(tokens[i]))
		t.regions = append(t.regions, webgpu.Region{Buffer: g.Space.Logits.Buffer, Offset: at,
			Dst: t.logits[i : i+1].Bytes()})
	}
	if err := g.Run(nil, t.regions...); err != nil {
		return err
	}
	copy(dst, t.logits.F32())
	return nil
}

// Commit appends a path of the last verified tree to the sequence.
func (t *Target) Commit(path []int32) error {
	for _, i := range path {
		if i < 0 || int(i) >= len(t.slots) || t.slots[i] == kv.Committed {
			return fmt.Errorf("runner: node %d was committed of a tree of %d", i, len(t.slots))
		}
		t.seq.Commit(t.slots[i], t.nodes[i])
		t.slots[i] = kv.Committed
	}
	t.seq.MarkWritten()
	t.release()
	return nil
}
