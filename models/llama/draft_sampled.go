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

// mostKept is how many distributions of a tree drawn without replacement are kept, where
// a binding of the device has room for so many rows of logits.
const mostKept = 128

// keptRows are the distributions that a tree's children were drawn from, as raw
// logits, numbered in the order in which rows were fed: the root's is row 0.
type keptRows struct {
	logits   kernels.Logits // (rows, stride); without rows until the first use
	place    kernels.View   // kernels.Keep's
	words    [kernels.KeepWords]uint32
	used     int // rows of the last tree
	root     webgpu.Program
	programs []webgpu.Program // after a host pass, by bucket; 0 until the first use
}

// treeRows are the distributions of the last SampleTree and its Expands: the raw logits
// of every row that was fed, in order. The view stays the same from tree to tree;
// before the first SampleTree or PrepareSampled it is empty.
func (d *Draft) treeRows() kernels.Logits { return d.kept.logits }

// rowsKept is how many rows of treeRows belong to the last tree; 0 if the last draft was
// not drawn without replacement.
func (d *Draft) rowsKept() int {
	if d.tree.plan == nil || !d.tree.sampled {
		return 0
	}
	return d.kept.used
}

// PrepareSampled makes the programs of trees drawn without replacement, k children a
// node, by SampleTree and any number of Expands of up to Limits.TopK beams each, or in one run of up to depth levels after the root's, so
// that the first round does not have to.
func (d *Draft) PrepareSampled(depth, k int) error {
	p, err := d.plan(0, k)
	if err != nil {
		return err
	}
	if err := d.prepareKept(); err != nil {
		return err
	}
	if p.root.draw == 0 {
		b := &batch{}
		d.drawWithout(b, p, &p.root, d.rootPass.drawn)
		if err := d.make(b); err != nil {
			return err
		}
	}
	if err := d.prepareHost(p, drawn, buckets[:len(d.hostFeed)]...); err != nil {
		return err
	}
	return d.prepareDrawn(depth, k)
}

// prepareDrawn makes the levels after the root's, whose beams are given.
func (d *Draft) prepareDrawn(depth, k int) error {
	p, err := d.plan(depth, k)
	if err != nil || d.drawnReady(p, depth) {
		return err
	}
	if p.room.places == nil {
		if p.room.places, err = d.newResults("places of kept distributions", slices.Repeat([]int{kernels.KeepWords}, max(mostPasses(k), 1))...); err != nil {
			return err
		}
	}
	b := &batch{}
	for i := range p.levels[:depth] {
		l := &p.levels[i]
		if l.keep != 0 {
			continue
		}
		d.drawWithout(b, p, &l.out, l.pass.drawn)
		r := d.recorder(fmt.Sprintf("keep %d of level %d", k, i+1))
		r.Keep(d.logitRows(k), p.room.places[i].view(0, kernels.KeepWords), d.kept.logits)
		b.add(r, &l.keep)
	}
	return d.make(b)
}

// drawnReady tells whether prepareDrawn has nothing to make.
func (d *Draft) drawnReady(p *plan, depth int) bool {
	return p != nil && p.root.draw != 0 && len(p.levels) >= depth && (depth == 0 || p.levels[depth-1].keep != 0)
}

// prepareKept makes the buffer of distributions, and the programs that fill it.
func (d *Draft) prepareKept() error {
	kept, w := &d.kept, &d.work
	if kept.logits.Rows > 0 {
		return nil
	}
	limits := d.dev.Info().Limits
	rows := min(mostKept, min(limits.MaxBindingSize, limits.MaxBufferSize)/(4*w.stride))
	place, err := d.storage("place of kept distributions", 4*kernels.KeepWords)
	if err != nil {
		return err
	}
	view, err := d.storage("kept distributions", 4*rows*w.stride)
	if err != nil {
		return err
	}
	logits := kernels.Logits{View: view, Rows: rows, Vocab: d.opts.Vocab, Stride: w.stride}
	b := &batch{}
	record := func(n int, to *webgpu.Program) {
		r := d.recorder(fmt.Sprintf("keep %d", n))
		r.Keep(d.logitRows(n), place, logits)
		b.add(r, to)
	}
	kept.programs = make([]webgpu.Program, len(d.hostFeed))
	record(1, &kept.root)
	for i := range kept.programs {
		record(buckets[i], &kept.programs[i])
	}
	if err := d.make(b); err != nil {
		return err
	}
	kept.place, kept.logits = place, logits
	return nil
}

// drawWithout records the drawing of k candidates a row, without replacement.
func (d *Draft) drawWithout(b *batch, p *plan, out *proposal, positions kernels.View) {
	r := d.recorder(fmt.Sprintf("children %d by %d", out.rows, p.k))
	r.Sample(d.tuning.lanes, d.logitRows(out.rows), p.k, kernels.TemperedLogProbs, d.work.draw, positions, d.work.scratch, out.records(p.k))
	b.add(r, &out.draw)
}

// checkKept refuses n more distributions than can be kept.
func (d *Draft) checkKept(n int) error {
	if kept := &d.kept; kept.used+n > kept.logits.Rows {
		return fmt.Errorf("llama: a root and %d expanded beams drawn without replacement; %d distributions can be kept", kept.used+n-1, kept.logits.Rows)
	}
	return nil
}

// keep has a pass's n rows of logits kept after those of the tree so far, by the program that reads place.
func (d *Draft) keep(place kernels.View, n int) error {
	kept := &d.kept
	kept.words = [kernels.KeepWords]uint32{uint32(kept.used), uint32(n)}
	if err := d.dev.Write(place.Buffer, place.Offset, webgpu.U32Bytes(kept.words[:])); err != nil {
		return err
	}
	kept.used += n
	return nil
}

// SampleTree feeds the pending tokens and draws the root's children, in one submit and one
// readback. A tree has at most 128 rows, the root's among them, and fewer where
// a binding of the device does not hold so many rows of logits.
func (d *Draft) SampleTree(ctx context.Context, r spec.DraftRequest) ([]spec.Level, error) {
	if drawParams(r.Sampling, 0, true).Words()[0] == 0 {
		return nil, errors.New("llama: children cannot be drawn without replacement at temperature 0, where there is only one to draw; use DraftTree")
	}
	if err := d.PrepareSampled(0, r.K); err != nil {
		return nil, err
	}
	p := d.plans[r.K]
	rows, err := d.begin(ctx, r.Pending, r.Depth)
	if err != nil {
		return nil, err
	}
	if err := d.writeDraw(r.Sampling, spec.StreamDraft, true); err != nil {
		return nil, err
	}
	d.kept.used = 0
	if err := d.keep(d.kept.place, 1); err != nil {
		return nil, err
	}
	d.programs = append(d.programs, d.rootFeed[rows-1], d.kept.root, p.root.draw)
	d.readLevels(&p.root.result, nil)
	if err := d.run(d.programs, d.regions...); err != nil {
		return nil, err
	}
	d.tree.plant(p, d.Len(), true)
	d.tree.decode(&p.root, 1, d.estimator != nil)
	return d.tree.levels, nil
}
