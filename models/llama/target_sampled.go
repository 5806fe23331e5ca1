package llama

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// sampledTrees is what VerifySampled needs beside a part's programs.
type sampledTrees struct {
	plan     kernels.TreePlan
	nodes    kernels.View // of the plan, on the device
	children kernels.View
	judges   map[judgeKey]webgpu.Program
	siblings [][]int32               // per node: its children's tokens, in the order of the tree
	ids      [][]int32               // and their node numbers
	awaited  map[part]webgpu.Program // fill in the children of a tree that is drafted in the same run
}

// judgeKey is a program that judges a part of a tree by distributions that a draft holds.
type judgeKey struct {
	draft *Draft
	part  part
}

// PrepareSampled makes the programs that VerifySampled needs for trees of up to rows nodes, whose
// nodes have up to k children drawn by draft, so that the first round does not have to.
func (t *Target) PrepareSampled(draft spec.TreeSampler, k, rows int) error {
	d, err := t.holderOf(draft)
	if err != nil {
		return err
	}
	if err := d.PrepareSampled(0, k); err != nil {
		return err
	}
	if err := t.Prepare(rows); err != nil {
		return err
	}
	return t.prepareJudges(d, 1, rows)
}

// prepareJudges makes the programs that judge trees of least to most nodes.
func (t *Target) prepareJudges(d *Draft, least, most int) error {
	s := &t.sampled
	if t.judges(d, least, most) {
		return nil
	}
	if s.judges == nil {
		var err error
		if s.nodes, err = t.storage("nodes of a sampled tree", 4*t.opts.MaxRows*kernels.TreePlanWords); err != nil {
			return err
		}
		if s.children, err = t.storage("children of a sampled tree", 4*2*t.opts.MaxRows); err != nil {
			return err
		}
		s.siblings, s.ids = make([][]int32, t.opts.MaxRows), make([][]int32, t.opts.MaxRows)
		s.judges = map[judgeKey]webgpu.Program{}
	}
	var recorders []*kernels.Recorder
	var keys []judgeKey
	for n := least; n <= most; n++ {
		p := t.lastPart(n)
		key := judgeKey{d, p}
		if _, ok := s.judges[key]; ok || slices.Contains(keys, key) {
			continue
		}
		r := t.recorder(fmt.Sprintf("judge %d from %d", p.rows, p.from))
		r.JudgeTree(t.tuning.lanes, kernels.TreeJudgement{Target: t.partLogits(p), Draft: d.treeRows(), TargetRecord: t.results.filtered.from(p.from),
			Draw: t.work.draw, Nodes: viewFrom(s.nodes, p.from*kernels.TreePlanWords), Children: s.children, Out: t.results.verdicts.from(p.from)})
		recorders, keys = append(recorders, r), append(keys, key)
	}
	if len(recorders) == 0 {
		return nil
	}
	programs, err := t.build(recorders...)
	if err != nil {
		return err
	}
	for i, p := range programs {
		s.judges[keys[i]] = p
	}
	return nil
}

// judges tells whether the programs that judge trees of least to most nodes are there.
func (t *Target) judges(d *Draft, least, most int) bool {
	for n := least; n <= most; n++ {
		if t.sampled.judges[judgeKey{d, t.lastPart(n)}] == 0 {
			return false
		}
	}
	return true
}

// planSampled fills the tree plan, padded to the rows of the tree's parts.
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
		if len(children) > 0 && (rows[i] < 0 || int(rows[i]) >= d.rowsKept()) {
			return fmt.Errorf("llama: the children of node %d were drawn from row %d; the draft kept %d", i, rows[i], d.rowsKept())
		}
		if len(children) > d.opts.TopK {
			return fmt.Errorf("llama: node %d has %d children; the draft draws at most %d", i, len(children), d.opts.TopK)
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

// VerifySampled runs a tree whose children draft drew without replacement and judges them, in one submit
// and one readback. The draft must be on the same device.
func (t *Target) VerifySampled(ctx context.Context, tree *spec.Tree, rows []int32, draft spec.TreeSampler, s spec.Sampling) ([]spec.TreeVerdict, error) {
	d, err := t.holderOf(draft)
	if err != nil {
		return nil, err
	}
	n := len(tree.Tokens)
	if len(rows) != n {
		return nil, fmt.Errorf("llama: %d rows for a tree of %d nodes", len(rows), n)
	}
	if d.rowsKept() == 0 {
		return nil, errors.New("llama: the draft's last tree was not drawn without replacement")
	}
	if err := t.begin(ctx, tree, s); err != nil {
		return nil, err
	}
	if err := t.prepareJudges(d, n, n); err != nil {
		return nil, err
	}
	if err := t.planSampled(tree, rows, d); err != nil {
		return nil, err
	}
	t.eachPart(n, func(p part, programs *partPrograms) {
		t.pass(p, programs)
		t.programs = append(t.programs, programs.filter, t.sampled.judges[judgeKey{d, p}])
	})
	t.read(t.results.verdicts, n)
	if err := t.run(t.programs, t.regions...); err != nil {
		return nil, err
	}
	return t.treeVerdicts(n, func(node int, place uint32) int32 { return t.sampled.ids[node][place] }), nil
}

// treeVerdicts reads those of n nodes from what came back; child is the node at a place among a node's children.
func (t *Target) treeVerdicts(n int, child func(node int, place uint32) int32) []spec.TreeVerdict {
	words := t.results.of(t.results.verdicts, n)
	t.judged.tree = resize(t.judged.tree, n)
	verdicts := t.judged.tree
	for i := range verdicts {
		place, token := words[kernels.TreeVerdictWords*i], int32(words[kernels.TreeVerdictWords*i+1])
		verdicts[i] = spec.TreeVerdict{Child: -1, Token: token}
		if place != kernels.NoChild {
			verdicts[i].Child = child(i, place)
		}
	}
	return verdicts
}

// PrepareJointSampled makes the programs that DraftVerifySampled needs for trees of up to so many levels and nodes, whose nodes
// have up to k children.
func (t *Target) PrepareJointSampled(draft spec.TreeSampler, k, levels, rows int) error {
	if err := t.PrepareSampled(draft, k, rows); err != nil || kernels.Grafted(levels, k) > kernels.MostGrafted {
		return err // what is larger is drafted and verified in runs of their own
	}
	d, err := t.holderOf(draft)
	if err != nil {
		return err
	}
	if err := d.PrepareSampled(levels-1, k); err != nil {
		return err
	}
	if err := t.PrepareJoint(draft, k); err != nil {
		return err
	}
	s, b := &t.sampled, &batch{}
	if s.awaited == nil {
		s.awaited = map[part]webgpu.Program{}
	}
	made := map[part]*webgpu.Program{}
	for n := 1; n <= min(rows, t.passRows()); n++ {
		p := t.lastPart(n)
		if s.awaited[p] != 0 || made[p] != nil {
			continue
		}
		made[p] = new(webgpu.Program)
		r := t.recorder(fmt.Sprintf("siblings %d", p.rows))
		r.Siblings(p.rows, s.nodes, t.feeding.batch.tokens, s.children)
		b.add(r, made[p])
	}
	if err := d.make(b); err != nil {
		return err
	}
	for p, program := range made {
		s.awaited[p] = *program
	}
	return nil
}

// JoinsSampled implements spec.JointTreeTarget.
func (t *Target) JoinsSampled(draft spec.TreeSampler, r *spec.JointRequest) bool {
	if r.Chosen == nil || !r.Drawn || !t.Joins(draft, r) {
		return false
	}
	d, n := draft.(treeStarter).holds(), jointNodes(r)
	return t.judges(d, n, n) && t.sampled.awaited[t.lastPart(n)] != 0
}

// DraftVerifySampled draws a tree without replacement and judges it, in one submit and one readback. Where the draft had no token for a place
// there are no verdicts, and the tree is still to be judged. JoinsSampled must have said that it can.
func (t *Target) DraftVerifySampled(ctx context.Context, draft spec.TreeSampler, r *spec.JointRequest) (*spec.Tree, []spec.Level, []spec.TreeVerdict, error) {
	if !t.JoinsSampled(draft, r) {
		return nil, nil, nil, errNotJoint(r)
	}
	d, n, err := t.startGraft(ctx, draft, r, drawn)
	if err != nil {
		return nil, nil, nil, err
	}
	s := &t.sampled
	s.plan.Reset()
	for i := range n {
		level := 0
		if i > 0 {
			level = 1 + kernels.GraftedLevel(uint32(r.Chosen[i-1]), r.K)
		}
		s.plan.Await(uint32(t.Len()+level+1), uint32(max(r.Rows[i], 0)), int(r.Children[i]))
	}
	for range t.paddedRows(n) - n {
		s.plan.Await(0, 0, 0)
	}
	if err := t.dev.Write(s.nodes.Buffer, s.nodes.Offset, webgpu.U32Bytes(s.plan.Nodes)); err != nil {
		return nil, nil, nil, err
	}
	p := t.lastPart(n)
	programs := t.parts[p]
	t.programs = append(t.programs, s.awaited[p], programs.verify, programs.filter, s.judges[judgeKey{d, p}])
	t.read(t.results.verdicts, n)
	tree, levels, grafted, err := t.endGraft(d, r, drawn)
	if err != nil || !grafted {
		return tree, levels, nil, err
	}
	return tree, levels, t.treeVerdicts(n, func(node int, place uint32) int32 {
		return int32(1 + s.plan.Nodes[node*kernels.TreePlanWords+1]/2 + place)
	}), nil
}
