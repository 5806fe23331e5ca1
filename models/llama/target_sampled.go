package llama

import (
	"context"
	"errors"
	"fmt"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	treekernel "foretoken/webgpu/kernels/tree"
)

// sampledTrees holds what VerifySampled needs in addition to a part's programs.
type sampledTrees struct {
	plan         treekernel.Plan
	nodes        kernels.View // device copy of plan.Nodes
	children     kernels.View
	verifiers    map[verifierKey]webgpu.Program
	siblings     [][]int32               // per node: the tokens of its children, in the order of the tree
	ids          [][]int32               // per node: the node numbers of its children
	siblingFills map[part]webgpu.Program // write the children of a tree drafted in the same run
}

// verifierKey identifies a program that verifies a part of a tree against a draft's distributions.
type verifierKey struct {
	draft *Draft
	part  part
}

// PrepareSampled compiles the programs of VerifySampled for trees of up to rows nodes with up to k children drawn
// by draft, so that the first round does not wait for them.
func (t *Target) PrepareSampled(draft spec.DraftModel, k, rows int) error {
	d, err := t.draftOf(draft)
	if err != nil {
		return err
	}
	if err := d.PrepareSampled(0, k); err != nil {
		return err
	}
	if err := t.Prepare(rows); err != nil {
		return err
	}
	return t.prepareVerifiers(d, 1, rows)
}

// prepareVerifiers compiles the programs that verify trees of least to most nodes.
func (t *Target) prepareVerifiers(d *Draft, least, most int) error {
	s := &t.sampled
	if t.verifiersReady(d, least, most) {
		return nil
	}
	if s.verifiers == nil {
		var err error
		if s.nodes, err = t.newBuffer("nodes of a sampled tree", 4*t.opts.MaxRows*treekernel.PlanWords); err != nil {
			return err
		}
		if s.children, err = t.newBuffer("children of a sampled tree", 4*2*t.opts.MaxRows); err != nil {
			return err
		}
		s.siblings, s.ids = make([][]int32, t.opts.MaxRows), make([][]int32, t.opts.MaxRows)
		s.verifiers = map[verifierKey]webgpu.Program{}
	}
	b, last := &programBatch{}, part{}
	for n := least; n <= most; n++ {
		p := t.lastPart(n) // the same for neighbouring n
		key := verifierKey{d, p}
		if p == last || s.verifiers[key] != 0 {
			continue
		}
		last = p
		r := t.recorder(fmt.Sprintf("verify sampled %d from %d", p.rows, p.from))
		treekernel.RecordVerify(r, t.tuning.Lanes, treekernel.Verification{Target: t.partLogits(p),
			Draft: d.distributionLogits(), TargetRecord: t.results.filtered.from(p.from),
			Draw: t.work.draw, Nodes: s.nodes.From(p.from * treekernel.PlanWords), Children: s.children,
			Out: t.results.verdicts.from(p.from)})
		addTo(b, s.verifiers, key, r)
	}
	return t.buildBatch(b)
}

// verifiersReady reports whether the programs that verify trees of least to most nodes are compiled.
func (t *Target) verifiersReady(d *Draft, least, most int) bool {
	for n := least; n <= most; n++ {
		if t.sampled.verifiers[verifierKey{d, t.lastPart(n)}] == 0 {
			return false
		}
	}
	return true
}

// planSampled uploads the plan of a tree, padded to the rows of the tree's parts.
func (t *Target) planSampled(tree *spec.Tree, rows []int32, d *Draft) error {
	s, n := &t.sampled, len(tree.Tokens)
	for i := range n {
		s.siblings[i], s.ids[i] = s.siblings[i][:0], s.ids[i][:0]
	}
	for i := 1; i < n; i++ {
		parent := tree.Parents[i]
		s.siblings[parent], s.ids[parent] = append(s.siblings[parent], tree.Tokens[i]), append(s.ids[parent], int32(i))
	}
	s.plan.Reset()
	for i := range n {
		children := s.siblings[i]
		if len(children) > 0 && (rows[i] < 0 || int(rows[i]) >= d.distributionsUsed()) {
			return fmt.Errorf("llama: the children of node %d were drawn from row %d; the draft stored %d", i,
				rows[i], d.distributionsUsed())
		}
		if len(children) > d.opts.TopK {
			return fmt.Errorf("llama: node %d has %d children; the draft draws at most %d", i, len(children),
				d.opts.TopK)
		}
		s.plan.Add(uint32(t.Len())+uint32(tree.Depths[i])+1, uint32(max(rows[i], 0)), children)
	}
	for range t.paddedRows(n) - n {
		s.plan.Add(0, 0, nil)
	}
	if err := t.dev.Write(s.nodes.Buffer, s.nodes.Offset, webgpu.U32Bytes(s.plan.Nodes)); err != nil {
		return err
	}
	if len(s.plan.Children) == 0 {
		return nil
	}
	return t.dev.Write(s.children.Buffer, s.children.Offset, webgpu.U32Bytes(s.plan.Children))
}

// VerifySampled verifies a tree whose children draft drew without replacement, in one submit and one readback. The
// draft must be on the same device.
func (t *Target) VerifySampled(ctx context.Context, tree *spec.Tree, rows []int32, draft spec.DraftModel,
	s spec.Sampling) ([]spec.TreeVerdict, error) {
	d, err := t.draftOf(draft)
	if err != nil {
		return nil, err
	}
	n := len(tree.Tokens)
	if len(rows) != n {
		return nil, fmt.Errorf("llama: %d rows for a tree of %d nodes", len(rows), n)
	}
	if d.distributionsUsed() == 0 {
		return nil, errors.New("llama: the draft's last tree was not drawn without replacement")
	}
	if err := t.begin(ctx, tree, s); err != nil {
		return nil, err
	}
	if err := t.prepareVerifiers(d, n, n); err != nil {
		return nil, err
	}
	if err := t.planSampled(tree, rows, d); err != nil {
		return nil, err
	}
	t.eachPart(n, func(p part, programs *partPrograms) {
		t.pass(p, programs)
		t.programs = append(t.programs, programs.filter, t.sampled.verifiers[verifierKey{d, p}])
	})
	t.readVerdicts(n)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	return t.treeVerdicts(n, func(node int, place uint32) int32 { return t.sampled.ids[node][place] }), nil
}

// treeVerdicts decodes the verdicts on n nodes. child maps a place among a node's children to the child's node
// number.
func (t *Target) treeVerdicts(n int, child func(node int, place uint32) int32) []spec.TreeVerdict {
	words := t.results.of(t.results.verdicts, n)
	t.verdicts.tree = resize(t.verdicts.tree, n)
	verdicts := t.verdicts.tree
	for i := range verdicts {
		place, token := words[treekernel.VerdictWords*i], int32(words[treekernel.VerdictWords*i+1])
		verdicts[i] = spec.TreeVerdict{Child: -1, Token: token}
		if !t.finite(i) {
			verdicts[i].Token = spec.NoToken
		} else if place != treekernel.NoChild {
			verdicts[i].Child = child(i, place)
		}
	}
	return verdicts
}

// PrepareJointSampled compiles the programs of DraftVerify for trees of up to so many levels and rows nodes,
// with up to k children a node.
func (t *Target) PrepareJointSampled(draft spec.DraftModel, k, levels, rows int) error {
	if err := t.PrepareSampled(draft, k, rows); err != nil || treekernel.Gathered(levels, k) > treekernel.MostGathered {
		return err // a larger tree is drafted and verified in separate runs
	}
	d, err := t.draftOf(draft)
	if err != nil {
		return err
	}
	if err := d.PrepareSampled(levels-1, k); err != nil {
		return err
	}
	if err := t.PrepareJoint(draft, k); err != nil {
		return err
	}
	s, b, last := &t.sampled, &programBatch{}, part{}
	if s.siblingFills == nil {
		s.siblingFills = map[part]webgpu.Program{}
	}
	for n := 1; n <= min(rows, t.passRows()); n++ {
		p := t.lastPart(n)
		if p == last || s.siblingFills[p] != 0 {
			continue
		}
		last = p
		r := t.recorder(fmt.Sprintf("siblings %d", p.rows))
		treekernel.RecordSiblings(r, p.rows, s.nodes, t.prefill.batch.Tokens, s.children)
		addTo(b, s.siblingFills, p, r)
	}
	return t.buildBatch(b)
}

// sampledReady reports whether a tree can be sampled without replacement and verified in one run.
func (t *Target) sampledReady(d *Draft, r *spec.JointRequest) bool {
	if r.Chosen == nil || !r.Drawn || !t.treeReady(d, r) {
		return false
	}
	n := requestNodes(r)
	return t.verifiersReady(d, n, n) && t.sampled.siblingFills[t.lastPart(n)] != 0
}

// draftVerifySampled samples a tree without replacement and verifies it. If the draft ran out of candidates for a node,
// there are no verdicts and the caller must verify the tree.
func (t *Target) draftVerifySampled(ctx context.Context, d *Draft, r *spec.JointRequest,
	result *spec.JointResult) error {
	n, err := t.startDraftVerify(ctx, d, r, drawn)
	if err != nil {
		return err
	}
	s := &t.sampled
	s.plan.Reset()
	for i := range n {
		level := 0
		if i > 0 {
			level = 1 + treekernel.GatheredLevel(uint32(r.Chosen[i-1]), r.K)
		}
		s.plan.Await(uint32(t.Len()+level+1), uint32(max(r.Rows[i], 0)), int(r.Children[i]))
	}
	for range t.paddedRows(n) - n {
		s.plan.Await(0, 0, 0)
	}
	if err := t.dev.Write(s.nodes.Buffer, s.nodes.Offset, webgpu.U32Bytes(s.plan.Nodes)); err != nil {
		return err
	}
	p := t.lastPart(n)
	programs := t.parts[p]
	t.programs = append(t.programs, s.siblingFills[p], programs.verify, programs.filter, s.verifiers[verifierKey{d, p}])
	t.readVerdicts(n)
	gathered, err := t.endDraftVerify(d, r, drawn, result)
	if err != nil || !gathered {
		return err
	}
	result.Pass.Children = t.treeVerdicts(n, func(node int, place uint32) int32 {
		return int32(1 + s.plan.Nodes[node*treekernel.PlanWords+1]/2 + place)
	})
	return nil
}
