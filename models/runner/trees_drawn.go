package runner

import (
	"fmt"
	"slices"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
)

// maxDistributions bounds the stored distributions of a tree drawn without replacement. A device whose bindings are
// smaller stores fewer.
const maxDistributions = 128

// distributionRows stores the distributions that a tree's children were drawn from, as raw logits, in the order in
// which the rows ran. The root's is row 0.
type distributionRows struct {
	logits kernels.Logits // (rows, stride); 0 rows until the first use
	place  kernels.View   // parameters of sample.RecordKeep for the root's
	words  [sample.KeepWords]uint32
	used   int            // rows of the last tree
	root   webgpu.Program // stores the root's
}

// distributionsUsed returns how many rows of distributions belong to the last tree; 0 if it was not drawn
// without replacement.
func (t *trees) distributionsUsed() int {
	if t.last.programs == nil || t.last.rule != drawn {
		return 0
	}
	return t.distributions.used
}

// prepareDrawn compiles the programs of trees drawn without replacement, with k children a node and up to depth levels
// after the root's, whose beams the host gives.
func (t *trees) prepareDrawn(depth, k int) error {
	d := t.draft
	p, err := t.programsFor(depth, k)
	if err != nil || t.drawnReady(p, depth) {
		return err
	}
	if err := t.prepareDistributions(); err != nil {
		return err
	}
	if p.buffers.places == nil {
		if p.buffers.places, err = newResults(d.Graph, "places of stored distributions",
			slices.Repeat([]int{sample.KeepWords}, max(levelLimit(k), 1))...); err != nil {
			return err
		}
	}
	b := &graph.Batch{}
	if p.root.draw == 0 {
		t.propose(b, &p.root, k, drawn, d.rootPass.Drawn)
	}
	for i := range p.levels[:depth] {
		l := &p.levels[i]
		if l.store != 0 {
			continue
		}
		t.propose(b, &l.out, k, drawn, l.pass.Drawn)
		r := d.Graph.Recorder(fmt.Sprintf("store %d of level %d", k, i+1))
		sample.RecordKeep(r, d.Graph.LogitRows(k), p.buffers.places[i].view(0, sample.KeepWords),
			t.distributions.logits)
		b.Add(r, &l.store)
	}
	return d.Graph.Build(b)
}

// drawnReady reports whether prepareDrawn has nothing to compile.
func (t *trees) drawnReady(p *treePrograms, depth int) bool {
	return p != nil && p.root.draw != 0 && len(p.levels) >= depth && (depth == 0 || p.levels[depth-1].store != 0)
}

// prepareDistributions makes the buffer of distributions and the program that stores the root's.
func (t *trees) prepareDistributions() error {
	g := t.draft.Graph
	stored, w := &t.distributions, &g.Space
	if stored.logits.Rows > 0 {
		return nil
	}
	limits := g.Dev.Info().Limits
	rows := min(maxDistributions, min(limits.MaxBindingSize, limits.MaxBufferSize)/(4*w.Stride))
	place, err := g.Buffer("place of stored distributions", 4*sample.KeepWords)
	if err != nil {
		return err
	}
	view, err := g.Buffer("stored distributions", 4*rows*w.Stride)
	if err != nil {
		return err
	}
	logits := kernels.Logits{View: view, Rows: rows, Vocab: g.Options.Vocab, Stride: w.Stride}
	r := g.Recorder("store 1")
	sample.RecordKeep(r, g.LogitRows(1), place, logits)
	b := &graph.Batch{}
	b.Add(r, &stored.root)
	if err := g.Build(b); err != nil {
		return err
	}
	stored.place, stored.logits = place, logits
	return nil
}

// checkDistributions returns an error if the distributions of a request's rows do not fit.
func (t *trees) checkDistributions(r *spec.DraftRequest) error {
	rows := 1
	for level := range r.Depth {
		rows += len(given(r, level))
	}
	if most := t.distributions.logits.Rows; rows > most {
		return fmt.Errorf("runner: a root and %d beams drawn without replacement; %d distributions can be stored",
			rows-1, most)
	}
	return nil
}

// placeDistributions reserves the next n rows for a pass's logits and writes their position to place, where the
// copying program reads it.
func (t *trees) placeDistributions(place kernels.View, n int) error {
	stored := &t.distributions
	stored.words = [sample.KeepWords]uint32{uint32(stored.used), uint32(n)}
	if err := t.draft.Graph.Dev.Write(place.Buffer, place.Offset, webgpu.U32Bytes(stored.words[:])); err != nil {
		return err
	}
	stored.used += n
	return nil
}
