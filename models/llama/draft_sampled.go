package llama

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

// distributionLogits returns the distributions of the last tree drawn without replacement: the raw logits of every row
// that ran, in order. The view is the same for every tree; before the first one is prepared it is empty.
func (d *Draft) distributionLogits() kernels.Logits { return d.distributions.logits }

// distributionsUsed returns how many rows of distributionLogits belong to the last tree; 0 if it was not drawn
// without replacement.
func (d *Draft) distributionsUsed() int {
	if d.tree.plan == nil || d.tree.rule != drawn {
		return 0
	}
	return d.distributions.used
}

// prepareDrawn compiles the programs of trees drawn without replacement, with k children a node and up to depth levels
// after the root's, whose beams the host gives.
func (d *Draft) prepareDrawn(depth, k int) error {
	p, err := d.plan(depth, k)
	if err != nil || d.drawnReady(p, depth) {
		return err
	}
	if err := d.prepareDistributions(); err != nil {
		return err
	}
	if p.buffers.places == nil {
		if p.buffers.places, err = d.newResults("places of stored distributions",
			slices.Repeat([]int{sample.KeepWords}, max(levelLimit(k), 1))...); err != nil {
			return err
		}
	}
	b := &graph.Batch{}
	if p.root.draw == 0 {
		d.drawChildren(b, p, &p.root, d.rootPass.Drawn)
	}
	for i := range p.levels[:depth] {
		l := &p.levels[i]
		if l.store != 0 {
			continue
		}
		d.drawChildren(b, p, &l.out, l.pass.Drawn)
		r := d.Recorder(fmt.Sprintf("store %d of level %d", k, i+1))
		sample.RecordKeep(r, d.LogitRows(k), p.buffers.places[i].view(0, sample.KeepWords), d.distributions.logits)
		b.Add(r, &l.store)
	}
	return d.Build(b)
}

// drawnReady reports whether prepareDrawn has nothing to compile.
func (d *Draft) drawnReady(p *plan, depth int) bool {
	return p != nil && p.root.draw != 0 && len(p.levels) >= depth && (depth == 0 || p.levels[depth-1].store != 0)
}

// prepareDistributions makes the buffer of distributions and the program that stores the root's.
func (d *Draft) prepareDistributions() error {
	stored, w := &d.distributions, &d.Space
	if stored.logits.Rows > 0 {
		return nil
	}
	limits := d.Dev.Info().Limits
	rows := min(maxDistributions, min(limits.MaxBindingSize, limits.MaxBufferSize)/(4*w.Stride))
	place, err := d.Buffer("place of stored distributions", 4*sample.KeepWords)
	if err != nil {
		return err
	}
	view, err := d.Buffer("stored distributions", 4*rows*w.Stride)
	if err != nil {
		return err
	}
	logits := kernels.Logits{View: view, Rows: rows, Vocab: d.Options.Vocab, Stride: w.Stride}
	r := d.Recorder("store 1")
	sample.RecordKeep(r, d.LogitRows(1), place, logits)
	b := &graph.Batch{}
	b.Add(r, &stored.root)
	if err := d.Build(b); err != nil {
		return err
	}
	stored.place, stored.logits = place, logits
	return nil
}

// drawChildren records the drawing of k candidates a row, without replacement.
func (d *Draft) drawChildren(b *graph.Batch, p *plan, out *proposal, positions kernels.View) {
	r := d.Recorder(fmt.Sprintf("children %d by %d", out.rows, p.k))
	sample.Record(r, d.Kernels.Lanes, d.LogitRows(out.rows), p.k, sample.TemperedLogProbs, d.Space.Draw, positions,
		d.Space.Scratch, out.records(p.k))
	b.Add(r, &out.draw)
}

// checkDistributions returns an error if the distributions of a request's rows do not fit.
func (d *Draft) checkDistributions(r *spec.DraftRequest) error {
	rows := 1
	for level := range r.Depth {
		rows += len(given(r, level))
	}
	if most := d.distributions.logits.Rows; rows > most {
		return fmt.Errorf("llama: a root and %d beams drawn without replacement; %d distributions can be stored",
			rows-1, most)
	}
	return nil
}

// placeDistributions reserves the next n rows for a pass's logits and writes their position to place, where the
// copying program reads it.
func (d *Draft) placeDistributions(place kernels.View, n int) error {
	stored := &d.distributions
	stored.words = [sample.KeepWords]uint32{uint32(stored.used), uint32(n)}
	if err := d.Dev.Write(place.Buffer, place.Offset, webgpu.U32Bytes(stored.words[:])); err != nil {
		return err
	}
	stored.used += n
	return nil
}
