package runner

import (
	"errors"
	"fmt"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
	treekernel "foretoken/webgpu/kernels/tree"
)

// comparisons holds what passes need that compare a tree with the distributions that it was sampled from.
type comparisons struct {
	passes *treePasses
	chains map[chainKey]webgpu.Program

	trees        map[verifierKey]webgpu.Program // of trees drawn without replacement; nil until the first use
	lists        treekernel.ChildLists
	nodes        kernels.View // device copy of lists.Nodes
	children     kernels.View
	siblings     [][]int32               // per node: the tokens of its children, in the order of the tree
	ids          [][]int32               // per node: the node numbers of its children
	siblingFills map[part]webgpu.Program // write the children of a tree drafted in the same run
}

// chainKey identifies a program that verifies a chain of k tokens against a draft's distributions.
type chainKey struct {
	draft      *Draft
	k          int
	divergence bool // measure the distances; otherwise apply the rejection rule
}

// verifierKey identifies a program that verifies a part of a tree against a draft's distributions.
type verifierKey struct {
	draft *Draft
	part  part
}

// check refuses a request whose tree is not what its draft sampled last, and compiles the programs of its pass.
func (c *comparisons) check(r *spec.PassRequest, d *Draft) error {
	n := len(r.Tree.Tokens)
	if r.Kind == spec.PassSampled {
		switch {
		case len(r.Rows) != n:
			return fmt.Errorf("runner: %d rows for a tree of %d nodes", len(r.Rows), n)
		case d.trees.distributionsUsed() == 0:
			return errors.New("runner: the draft's last tree was not drawn without replacement")
		case !c.ready(d, n):
			return c.prepareTrees(d, c.passes.distinct(n))
		}
		return nil
	}
	sampled := d.chain.sampled
	if k := n - 1; k < 1 || k > len(sampled) {
		return fmt.Errorf("runner: a chain of %d tokens; the draft sampled %d", k, len(sampled))
	}
	if most := c.passes.graph.PassRows(); n > most {
		return fmt.Errorf("runner: a chain of %d tokens; at most %d can be verified", n-1, most-1)
	}
	for i, token := range r.Tree.Tokens[1:] {
		if token != sampled[i].Token || r.Tree.Parents[i+1] != int32(i) {
			return errors.New("runner: the chain to verify is not the one that the draft sampled last")
		}
	}
	return c.prepareChain(chainKey{d, n - 1, r.Kind == spec.PassDivergence})
}

// prepareChain compiles the program that verifies a chain. It reads the records of the part's filter program.
func (c *comparisons) prepareChain(key chainKey) error {
	if c.chains[key] != 0 {
		return nil
	}
	p, g, d := c.passes, c.passes.graph, key.draft
	records := p.results.filtered.view
	var r *kernels.Recorder
	if key.divergence {
		r = g.Recorder(fmt.Sprintf("compare %d", key.k))
		sample.RecordDivergence(r, g.Kernels.Lanes, sample.Comparison{Target: g.LogitRows(key.k),
			Draft: d.Graph.LogitRows(key.k), TargetRecord: records, DraftRecord: d.chain.records,
			DraftStride: recordWords, Draw: g.Space.Draw, Out: p.results.divergences.view})
	} else {
		r = g.Recorder(fmt.Sprintf("reject %d", key.k))
		sample.RecordReject(r, g.Kernels.Lanes, sample.Rejection{Target: g.LogitRows(key.k + 1),
			Draft: d.Graph.LogitRows(key.k), TargetRecord: records, DraftRecord: d.chain.records,
			DraftStride: recordWords, Draw: g.Space.Draw, Positions: p.batch.Drawn, Out: p.results.verdicts.view})
	}
	_, err := graph.BuildInto(g, c.chains, key, r)
	return err
}

// ready reports whether the programs that verify a tree of n nodes drawn without replacement are compiled.
func (c *comparisons) ready(d *Draft, n int) bool {
	ready := true
	c.passes.each(n, func(of part, _ *partPrograms) { ready = ready && c.trees[verifierKey{d, of}] != 0 })
	return ready
}

// prepareTrees compiles the programs that verify parts of trees drawn without replacement.
func (c *comparisons) prepareTrees(d *Draft, parts []part) error {
	p, g := c.passes, c.passes.graph
	if rows := g.Options.MaxRows; c.trees == nil {
		var err error
		if c.nodes, err = g.Buffer("nodes of a sampled tree", 4*rows*treekernel.NodeWords); err != nil {
			return err
		}
		if c.children, err = g.Buffer("children of a sampled tree", 4*2*rows); err != nil {
			return err
		}
		c.siblings, c.ids = make([][]int32, rows), make([][]int32, rows)
		c.trees = map[verifierKey]webgpu.Program{}
	}
	b := &graph.Batch{}
	for _, of := range parts {
		key := verifierKey{d, of}
		if c.trees[key] != 0 {
			continue
		}
		r := g.Recorder(fmt.Sprintf("verify sampled %d from %d", of.rows, of.from))
		treekernel.RecordVerify(r, g.Kernels.Lanes, treekernel.Verification{Target: p.logits(of),
			Draft: d.trees.distributions.logits, TargetRecord: p.results.filtered.from(of.from), Draw: g.Space.Draw,
			Nodes: c.nodes.From(of.from * treekernel.NodeWords), Children: c.children,
			Out: p.results.verdicts.from(of.from)})
		graph.AddTo(b, c.trees, key, r)
	}
	return g.Build(b)
}

// prepareSiblings compiles the programs that write the children of trees of up to rows nodes drafted in the same run.
func (c *comparisons) prepareSiblings(rows int) error {
	g, b := c.passes.graph, &graph.Batch{}
	if c.siblingFills == nil {
		c.siblingFills = map[part]webgpu.Program{}
	}
	for _, p := range c.passes.distinct(min(rows, g.PassRows())) {
		if c.siblingFills[p] != 0 {
			continue
		}
		r := g.Recorder(fmt.Sprintf("siblings %d", p.rows))
		treekernel.RecordSiblings(r, p.rows, c.nodes, c.passes.batch.Tokens, c.children)
		graph.AddTo(b, c.siblingFills, p, r)
	}
	return g.Build(b)
}

// listTree uploads the children of a request's tree after base committed tokens, padded to the rows of the tree's
// parts.
func (c *comparisons) listTree(r *spec.PassRequest, base int, d *Draft) error {
	dev, tree := c.passes.graph.Dev, r.Tree
	n := len(tree.Tokens)
	for i := range n {
		c.siblings[i], c.ids[i] = c.siblings[i][:0], c.ids[i][:0]
	}
	for i := 1; i < n; i++ {
		parent := tree.Parents[i]
		c.siblings[parent], c.ids[parent] = append(c.siblings[parent], tree.Tokens[i]), append(c.ids[parent], int32(i))
	}
	c.lists.Reset()
	for i := range n {
		children, row, stored := c.siblings[i], r.Rows[i], d.trees.distributionsUsed()
		if len(children) > 0 && (row < 0 || int(row) >= stored) {
			return fmt.Errorf("runner: the children of node %d were drawn from row %d; the draft stored %d", i, row,
				stored)
		}
		if most := d.Graph.Options.TopK; len(children) > most {
			return fmt.Errorf("runner: node %d has %d children; the draft draws at most %d", i, len(children), most)
		}
		c.lists.Add(uint32(base)+uint32(tree.Depths[i])+1, uint32(max(row, 0)), children)
	}
	for range c.passes.padded(n) - n {
		c.lists.Add(0, 0, nil)
	}
	if err := dev.Write(c.nodes.Buffer, c.nodes.Offset, webgpu.U32Bytes(c.lists.Nodes)); err != nil {
		return err
	}
	if len(c.lists.Children) == 0 {
		return nil
	}
	return dev.Write(c.children.Buffer, c.children.Offset, webgpu.U32Bytes(c.lists.Children))
}

// awaitTree uploads the numbers of children of a tree of n nodes after base committed tokens, which is drawn in the
// same run.
func (c *comparisons) awaitTree(r *spec.DraftRequest, base, n int) error {
	next := int32(1)
	c.lists.Reset()
	for i := range n {
		level := 0
		if i > 0 {
			level = 1 + treekernel.GatheredLevel(uint32(r.Layout.Chosen[i-1]), r.K)
		}
		c.lists.Await(uint32(base+level+1), uint32(max(r.Layout.Rows[i], 0)), int(r.Layout.Children[i]))
		c.ids[i] = c.ids[i][:0]
		for range r.Layout.Children[i] {
			c.ids[i] = append(c.ids[i], next)
			next++
		}
	}
	for range c.passes.padded(n) - n {
		c.lists.Await(0, 0, 0)
	}
	return c.passes.graph.Dev.Write(c.nodes.Buffer, c.nodes.Offset, webgpu.U32Bytes(c.lists.Nodes))
}
