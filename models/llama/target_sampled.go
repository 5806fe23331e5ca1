package llama

import (
	"errors"
	"fmt"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	treekernel "foretoken/webgpu/kernels/tree"
)

// sampledTrees holds what PassSampled needs in addition to a part's programs.
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

// prepareVerifiers compiles the programs that verify trees of least to most nodes.
func (t *Target) prepareVerifiers(d *Draft, least, most int) error {
	s := &t.sampled
	if t.verifiersReady(d, least, most) {
		return nil
	}
	if s.verifiers == nil {
		var err error
		if s.nodes, err = t.Buffer("nodes of a sampled tree", 4*t.Options.MaxRows*treekernel.PlanWords); err != nil {
			return err
		}
		if s.children, err = t.Buffer("children of a sampled tree", 4*2*t.Options.MaxRows); err != nil {
			return err
		}
		s.siblings, s.ids = make([][]int32, t.Options.MaxRows), make([][]int32, t.Options.MaxRows)
		s.verifiers = map[verifierKey]webgpu.Program{}
	}
	b, last := &graph.Batch{}, part{}
	for n := least; n <= most; n++ {
		p := t.lastPart(n) // the same for neighbouring n
		key := verifierKey{d, p}
		if p == last || s.verifiers[key] != 0 {
			continue
		}
		last = p
		r := t.Recorder(fmt.Sprintf("verify sampled %d from %d", p.rows, p.from))
		treekernel.RecordVerify(r, t.Kernels.Lanes, treekernel.Verification{Target: t.partLogits(p),
			Draft: d.distributionLogits(), TargetRecord: t.results.filtered.from(p.from),
			Draw: t.Space.Draw, Nodes: s.nodes.From(p.from * treekernel.PlanWords), Children: s.children,
			Out: t.results.verdicts.from(p.from)})
		graph.AddTo(b, s.verifiers, key, r)
	}
	return t.Build(b)
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
		if len(children) > d.Options.TopK {
			return fmt.Errorf("llama: node %d has %d children; the draft draws at most %d", i, len(children),
				d.Options.TopK)
		}
		s.plan.Add(uint32(t.Len())+uint32(tree.Depths[i])+1, uint32(max(rows[i], 0)), children)
	}
	for range t.paddedRows(n) - n {
		s.plan.Add(0, 0, nil)
	}
	if err := t.Dev.Write(s.nodes.Buffer, s.nodes.Offset, webgpu.U32Bytes(s.plan.Nodes)); err != nil {
		return err
	}
	if len(s.plan.Children) == 0 {
		return nil
	}
	return t.Dev.Write(s.children.Buffer, s.children.Offset, webgpu.U32Bytes(s.plan.Children))
}

// checkSampled returns the draft that drew a request's tree without replacement.
func (t *Target) checkSampled(r *spec.PassRequest) (*Draft, error) {
	d, err := t.draftOf(r.Model)
	switch n := len(r.Tree.Tokens); {
	case err != nil:
		return nil, err
	case len(r.Rows) != n:
		return nil, fmt.Errorf("llama: %d rows for a tree of %d nodes", len(r.Rows), n)
	case d.distributionsUsed() == 0:
		return nil, errors.New("llama: the draft's last tree was not drawn without replacement")
	}
	return d, nil
}

// treeVerdicts decodes the verdicts on n nodes.
func (t *Target) treeVerdicts(n int) []spec.TreeVerdict {
	words := t.results.of(t.results.verdicts, n)
	t.verdicts.tree = resize(t.verdicts.tree, n)
	verdicts := t.verdicts.tree
	for i := range verdicts {
		place, token := words[treekernel.VerdictWords*i], int32(words[treekernel.VerdictWords*i+1])
		verdicts[i] = spec.TreeVerdict{Child: -1, Token: token}
		if !t.finite(i) {
			verdicts[i].Token = spec.NoToken
		} else if place != treekernel.NoChild {
			verdicts[i].Child = t.sampled.ids[i][place]
		}
	}
	return verdicts
}

// prepareSiblings compiles the programs that write the children of trees of up to rows nodes drafted in the same run.
func (t *Target) prepareSiblings(rows int) error {
	s, b, last := &t.sampled, &graph.Batch{}, part{}
	if s.siblingFills == nil {
		s.siblingFills = map[part]webgpu.Program{}
	}
	for n := 1; n <= min(rows, t.PassRows()); n++ {
		p := t.lastPart(n)
		if p == last || s.siblingFills[p] != 0 {
			continue
		}
		last = p
		r := t.Recorder(fmt.Sprintf("siblings %d", p.rows))
		treekernel.RecordSiblings(r, p.rows, s.nodes, t.prefill.batch.Tokens, s.children)
		graph.AddTo(b, s.siblingFills, p, r)
	}
	return t.Build(b)
}

// awaitSampled uploads the plan of a tree of n nodes that is drawn in the same run.
func (t *Target) awaitSampled(r *spec.DraftRequest, n int) error {
	s, next := &t.sampled, int32(1)
	s.plan.Reset()
	for i := range n {
		level := 0
		if i > 0 {
			level = 1 + treekernel.GatheredLevel(uint32(r.Shape.Chosen[i-1]), r.K)
		}
		s.plan.Await(uint32(t.Len()+level+1), uint32(max(r.Shape.Rows[i], 0)), int(r.Shape.Children[i]))
		s.ids[i] = s.ids[i][:0]
		for range r.Shape.Children[i] {
			s.ids[i] = append(s.ids[i], next)
			next++
		}
	}
	for range t.paddedRows(n) - n {
		s.plan.Await(0, 0, 0)
	}
	return t.Dev.Write(s.nodes.Buffer, s.nodes.Offset, webgpu.U32Bytes(s.plan.Nodes))
}
