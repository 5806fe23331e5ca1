package runner

import (
	"fmt"
	"maps"

	"foretoken/models/graph"
	"foretoken/models/kv"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
)

// treePasses holds the programs of passes over trees, with their outputs.
type treePasses struct {
	graph    *graph.Graph
	batch    *kv.Pass // the tree's nodes
	results  results
	scratch  kernels.View // of sample.RecordFilter
	programs map[part]*partPrograms
	prepared int // largest tree whose programs are compiled, in nodes
}

// part is a run of a tree's rows that goes through the blocks at once: rows rows, starting at row from. A tree of
// up to Graph.PassRows nodes is one part.
type part struct{ from, rows int }

type partPrograms struct {
	verify webgpu.Program // blocks and logits of every row
	sample webgpu.Program // the outputs of spec.PassOutputs for every row
	filter webgpu.Program // thresholds and draws, for sampling with filters
}

// allocate makes the buffers of the outputs and of the filters.
func (t *treePasses) allocate() (err error) {
	if err = t.results.allocate(t.graph); err == nil {
		t.scratch, err = t.graph.Binding("filter scratch", sample.FilterScratch(t.graph.PassRows()))
	}
	return err
}

// part pads the n rows of a tree from row from on to the size of a part. The first part is padded to a bucket, a later
// one to a quarter of the most rows, so that large trees need few programs.
func (t *treePasses) part(from, n int) part {
	most := t.graph.PassRows()
	quarter := most / 4
	switch {
	case n >= most:
		n = most
	case from == 0:
		n = kv.Buckets[kv.Bucket(n)]
	default:
		n = (n + quarter - 1) / quarter * quarter
	}
	return part{from, n}
}

// last returns the last part of a tree of n nodes.
func (t *treePasses) last(n int) part {
	from := (n - 1) / t.graph.PassRows() * t.graph.PassRows()
	return t.part(from, n-from)
}

// each calls do with the parts of a tree of n nodes, in order.
func (t *treePasses) each(n int, do func(part, *partPrograms)) {
	for from := 0; from < n; from += t.graph.PassRows() {
		p := t.part(from, n-from)
		do(p, t.programs[p])
	}
}

// padded returns the number of rows of all parts of a tree of n nodes.
func (t *treePasses) padded(n int) int {
	last := t.last(n)
	return last.from + last.rows
}

// distinct returns the last parts of trees of 1 to n nodes, each once.
func (t *treePasses) distinct(n int) (all []part) {
	for i := 1; i <= n; i++ {
		if p := t.last(i); len(all) == 0 || p != all[len(all)-1] { // the same for neighbouring i
			all = append(all, p)
		}
	}
	return all
}

// logits returns the logits of a part, valid until the next part runs.
func (t *treePasses) logits(p part) kernels.Logits { return t.graph.LogitRows(p.rows) }

// prepare compiles the programs for trees of up to rows nodes, so that no round waits for them.
func (t *treePasses) prepare(rows int) error {
	g := t.graph
	if rows > g.Options.MaxRows {
		return fmt.Errorf("runner: a tree of %d nodes; at most %d can be verified", rows, g.Options.MaxRows)
	}
	if rows <= t.prepared {
		return nil
	}
	b, made := &graph.Batch{}, map[part]*partPrograms{}
	for _, key := range t.distinct(rows) {
		if t.programs[key] != nil || made[key] != nil {
			continue
		}
		p := &partPrograms{}
		made[key] = p
		t.recordVerify(b, key, p)
		r := g.Recorder(fmt.Sprintf("sample %d from %d", key.rows, key.from))
		sample.Record(r, g.Kernels.Lanes, t.logits(key), g.Options.TopK, sample.RawLogits, g.Space.Draw,
			t.batch.From(key.from).Drawn, g.Space.Scratch, t.results.records.from(key.from))
		b.Add(r, &p.sample)
		if !g.Single {
			t.recordFilter(b, key, p)
		}
	}
	if len(made) > 0 {
		g.Preparing(fmt.Sprintf("compiling for trees of %d nodes", rows))
		if err := g.Build(b); err != nil {
			return err
		}
		maps.Copy(t.programs, made)
	}
	t.prepared = rows
	return nil
}

// recordVerify records the blocks and the logits of a part.
func (t *treePasses) recordVerify(b *graph.Batch, key part, p *partPrograms) {
	r := t.graph.Recorder(fmt.Sprintf("verify %d from %d", key.rows, key.from))
	t.graph.Forward(r, t.batch.From(key.from), key.rows)
	t.graph.Head(r, 0, key.rows, 0)
	b.Add(r, &p.verify)
}

// recordFilter records the filters of a part's rows.
func (t *treePasses) recordFilter(b *graph.Batch, key part, p *partPrograms) {
	g := t.graph
	r := g.Recorder(fmt.Sprintf("filter %d from %d", key.rows, key.from))
	sample.RecordFilter(r, g.Kernels.Lanes, t.logits(key), g.Space.Draw, t.batch.From(key.from).Drawn, t.scratch,
		t.results.filtered.from(key.from))
	b.Add(r, &p.filter)
}

// makeFilter compiles the filter program of single rows if a fast start left it out.
func (t *treePasses) makeFilter() error {
	key := part{0, 1}
	p := t.programs[key]
	if p == nil || p.filter != 0 {
		return nil
	}
	b := &graph.Batch{}
	t.recordFilter(b, key, p)
	return t.graph.Build(b)
}
