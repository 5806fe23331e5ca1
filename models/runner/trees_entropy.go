package runner

import (
	"fmt"

	"foretoken/models/graph"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
)

// topEntropies computes entropies of the likeliest tokens alone. Its programs follow the ones that rank a pass's
// candidates; drafts that ask for entropies of all tokens read them from the candidates' records.
type topEntropies struct {
	count   int          // tokens whose entropy the last draft asked for; 0: all
	draw    kernels.View // kernels.DrawParams at temperature 1 that keep count tokens; size 0 before the first use
	scratch kernels.View // of sample.RecordFilter
}

// prepareTop compiles the missing programs for trees of p's programs and has the next runs keep count tokens.
func (t *trees) prepareTop(p *treePrograms, count int) error {
	g, e := t.draft.Graph, &t.top
	var err error
	if e.draw.Size == 0 {
		if e.draw, err = g.Buffer("top entropies", 4*kernels.DrawWords); err != nil {
			return err
		}
		if e.scratch, err = g.Buffer("filter scratch", sample.FilterScratch(t.hostRows())); err != nil {
			return err
		}
	}
	if e.count != count {
		words := kernels.DrawParams{Temperature: 1, TopK: count}.Words()
		if err := g.Dev.Write(e.draw.Buffer, e.draw.Offset, webgpu.U32Bytes(words[:])); err != nil {
			return err
		}
	}
	e.count = count
	b := &graph.Batch{}
	err = t.addTop(b, &p.root, t.draft.rootPass.Drawn)
	for i := 0; i < len(p.levels) && err == nil; i++ {
		err = t.addTop(b, &p.levels[i].out, p.levels[i].pass.Drawn)
	}
	for i := 0; i < len(p.host) && err == nil; i++ {
		err = t.addTop(b, &p.host[i], t.hostPass.Drawn)
	}
	if err != nil {
		return err
	}
	return g.Build(b)
}

// addTop adds a proposal's program to b, if the proposal is compiled and has none.
func (t *trees) addTop(b *graph.Batch, out *proposal, positions kernels.View) error {
	if out.rows == 0 || out.top != 0 {
		return nil
	}
	g := t.draft.Graph
	filtered, err := newResults(g, "top entropies", out.rows*kernels.FilterWords)
	if err != nil {
		return err
	}
	out.filtered = filtered[0]
	r := g.Recorder(fmt.Sprintf("top entropies of %d", out.rows))
	sample.RecordFilter(r, g.Kernels.Lanes, g.LogitRows(out.rows), t.top.draw, positions, t.top.scratch,
		out.filtered.view(0, out.rows*kernels.FilterWords))
	b.Add(r, &out.top)
	return nil
}

// rank adds the programs that rank a proposal's candidates to the run.
func (t *trees) rank(out *proposal) {
	d := t.draft
	if d.programs = append(d.programs, out.rank); t.top.count > 0 {
		d.programs = append(d.programs, out.top)
	}
}

// read adds a proposal's results to the readback.
func (t *trees) read(out *proposal) {
	d := t.draft
	if d.regions = out.result.read(d.regions); t.top.count > 0 {
		d.regions = out.filtered.read(d.regions)
	}
}

// topEntropy returns the entropy of the likeliest tokens in a row of a proposal, from the readback.
func (p *proposal) topEntropy(row int) float32 {
	return sample.DecodeFilter(p.filtered.memory()[row*kernels.FilterWords:]).Entropy
}
