package llama

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"foretoken/models/kv"
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
	logits   kernels.Logits // (rows, stride); 0 rows until the first use
	place    kernels.View   // parameters of sample.RecordKeep
	words    [sample.KeepWords]uint32
	used     int // rows of the last tree
	root     webgpu.Program
	programs []webgpu.Program // after a host pass, by bucket; 0 until the first use
}

// distributionLogits returns the distributions of the last SampleTree and its Expands: the raw logits of every row
// that ran, in order. The view is the same for every tree; before the first SampleTree or PrepareSampled it is
// empty.
func (d *Draft) distributionLogits() kernels.Logits { return d.distributions.logits }

// distributionsUsed returns how many rows of distributionLogits belong to the last tree; 0 if it was not drawn
// without replacement.
func (d *Draft) distributionsUsed() int {
	if d.tree.plan == nil || !d.tree.sampled {
		return 0
	}
	return d.distributions.used
}

// PrepareSampled compiles the programs of trees drawn without replacement, k children a node: by SampleTree and any
// number of Expands of up to Limits.TopK beams, or in one run of up to depth levels after the root's. The first
// round then does not wait for them.
func (d *Draft) PrepareSampled(depth, k int) error {
	p, err := d.plan(0, k)
	if err != nil {
		return err
	}
	if err := d.prepareDistributions(); err != nil {
		return err
	}
	if p.root.draw == 0 {
		b := &programBatch{}
		d.drawChildren(b, p, &p.root, d.rootPass.Drawn)
		if err := d.buildBatch(b); err != nil {
			return err
		}
	}
	if err := d.prepareHost(p, drawn, kv.Buckets[:len(d.hostForward)]...); err != nil {
		return err
	}
	return d.prepareDrawnLevels(depth, k)
}

// prepareDrawnLevels compiles the levels after the root's, whose beams the host gives.
func (d *Draft) prepareDrawnLevels(depth, k int) error {
	p, err := d.plan(depth, k)
	if err != nil || d.drawnReady(p, depth) {
		return err
	}
	if p.buffers.places == nil {
		if p.buffers.places, err = d.newResults("places of stored distributions",
			slices.Repeat([]int{sample.KeepWords}, max(levelLimit(k), 1))...); err != nil {
			return err
		}
	}
	b := &programBatch{}
	for i := range p.levels[:depth] {
		l := &p.levels[i]
		if l.store != 0 {
			continue
		}
		d.drawChildren(b, p, &l.out, l.pass.Drawn)
		r := d.recorder(fmt.Sprintf("store %d of level %d", k, i+1))
		sample.RecordKeep(r, d.logitRows(k), p.buffers.places[i].view(0, sample.KeepWords), d.distributions.logits)
		b.add(r, &l.store)
	}
	return d.buildBatch(b)
}

// drawnReady reports whether prepareDrawnLevels has nothing to compile.
func (d *Draft) drawnReady(p *plan, depth int) bool {
	return p != nil && p.root.draw != 0 && len(p.levels) >= depth && (depth == 0 || p.levels[depth-1].store != 0)
}

// prepareDistributions makes the buffer of distributions and the programs that fill it.
func (d *Draft) prepareDistributions() error {
	stored, w := &d.distributions, &d.work
	if stored.logits.Rows > 0 {
		return nil
	}
	limits := d.dev.Info().Limits
	rows := min(maxDistributions, min(limits.MaxBindingSize, limits.MaxBufferSize)/(4*w.stride))
	place, err := d.newBuffer("place of stored distributions", 4*sample.KeepWords)
	if err != nil {
		return err
	}
	view, err := d.newBuffer("stored distributions", 4*rows*w.stride)
	if err != nil {
		return err
	}
	logits := kernels.Logits{View: view, Rows: rows, Vocab: d.opts.Vocab, Stride: w.stride}
	b := &programBatch{}
	record := func(n int, to *webgpu.Program) {
		r := d.recorder(fmt.Sprintf("store %d", n))
		sample.RecordKeep(r, d.logitRows(n), place, logits)
		b.add(r, to)
	}
	stored.programs = make([]webgpu.Program, len(d.hostForward))
	record(1, &stored.root)
	for i := range stored.programs {
		record(kv.Buckets[i], &stored.programs[i])
	}
	if err := d.buildBatch(b); err != nil {
		return err
	}
	stored.place, stored.logits = place, logits
	return nil
}

// drawChildren records the drawing of k candidates a row, without replacement.
func (d *Draft) drawChildren(b *programBatch, p *plan, out *proposal, positions kernels.View) {
	r := d.recorder(fmt.Sprintf("children %d by %d", out.rows, p.k))
	sample.Record(r, d.tuning.Lanes, d.logitRows(out.rows), p.k, sample.TemperedLogProbs, d.work.draw, positions,
		d.work.scratch, out.records(p.k))
	b.add(r, &out.draw)
}

// checkDistributions returns an error if n more distributions do not fit.
func (d *Draft) checkDistributions(n int) error {
	if stored := &d.distributions; stored.used+n > stored.logits.Rows {
		return fmt.Errorf("llama: a root and %d expanded beams drawn without replacement; "+
			"%d distributions can be stored", stored.used+n-1, stored.logits.Rows)
	}
	return nil
}

// placeDistributions reserves the next n rows for a pass's logits and writes their position to place, where the
// copying program reads it.
func (d *Draft) placeDistributions(place kernels.View, n int) error {
	stored := &d.distributions
	stored.words = [sample.KeepWords]uint32{uint32(stored.used), uint32(n)}
	if err := d.dev.Write(place.Buffer, place.Offset, webgpu.U32Bytes(stored.words[:])); err != nil {
		return err
	}
	stored.used += n
	return nil
}

// SampleTree consumes the pending tokens and draws the root's children, in one submit and one readback. A tree has
// at most 128 rows including the root's, and fewer on a device whose bindings hold fewer rows of logits.
func (d *Draft) SampleTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	if drawParams(r.Sampling, 0, true).Words()[0] == 0 {
		return nil, errors.New("llama: children cannot be drawn without replacement at temperature 0; use DraftTree")
	}
	r.Depth = 0
	return d.runTree(ctx, r, drawn, nil)
}
