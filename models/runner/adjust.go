package runner

import (
	"fmt"
	"math"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
)

// adjuster changes the logits of a pass, by masks and biases, before they are sampled. prepare makes its buffers and
// programs, otherwise the first use does.
type adjuster struct {
	passes           *treePasses
	which, masks     kernels.View // u32 (rows); (rows, sample.MaskWords)
	common, lists    kernels.View // sample.AdjustWords; (rows, own, 2)
	shared, own      int          // capacity of common and of a row's list, in entries
	programs         map[part]*adjustPrograms
	next, now        spec.AdjustmentKinds // requested for the next pass; used by the current one
	words, listWords []uint32
	parts            []part // scratch
}

type adjustPrograms struct{ mask, adjust webgpu.Program }

// maxCommonBiases bounds the biased tokens that are not among those drawn: 1024 of a request and 256 that a file rules
// out.
const maxCommonBiases = 1024 + 256

// adjust changes the logits of the next pass.
func (a *adjuster) adjust(s *spec.Adjustment) error {
	p, n := a.passes, s.Nodes
	a.next = spec.AdjustmentKinds{}
	want := spec.AdjustmentKinds{Masks: len(s.Masks) > 0, Biases: len(s.Common) > 0 || len(s.Own) > 0}
	if !want.Masks && !want.Biases {
		return nil
	}
	if most := p.graph.Options.MaxRows; n < 1 || n > most || len(s.Which) > n || len(s.Own) > n {
		return fmt.Errorf("runner: adjusting the logits of %d nodes; %d can be verified", n, most)
	}
	if err := p.prepare(n); err != nil {
		return err
	}
	a.parts = a.parts[:0]
	p.each(n, func(key part, _ *partPrograms) { a.parts = append(a.parts, key) })
	if err := a.make(a.parts, want); err != nil {
		return err
	}
	rows := p.padded(n)
	if want.Masks {
		if err := a.writeMasks(s, rows); err != nil {
			return err
		}
	}
	if want.Biases {
		if err := a.writeBiases(s, rows); err != nil {
			return err
		}
	}
	a.next = want
	return nil
}

// writeMasks uploads the masks. Padding rows keep their logits.
func (a *adjuster) writeMasks(s *spec.Adjustment, rows int) error {
	o, dev := &a.passes.graph.Options, a.passes.graph.Dev
	words := sample.MaskWords(o.Vocab)
	if len(s.Masks) > o.MaxRows {
		return fmt.Errorf("runner: %d masks for at most %d nodes", len(s.Masks), o.MaxRows)
	}
	a.words = a.words[:0]
	for i := range rows {
		which := uint32(sample.NoMask)
		if i < len(s.Which) && s.Which[i] >= 0 {
			if which = uint32(s.Which[i]); int(which) >= len(s.Masks) {
				return fmt.Errorf("runner: node %d has mask %d of %d", i, which, len(s.Masks))
			}
		}
		a.words = append(a.words, which)
	}
	for i, m := range s.Masks {
		if len(m) != words {
			return fmt.Errorf("runner: mask %d has %d words; a vocabulary of %d has %d", i, len(m), o.Vocab,
				words)
		}
		if err := dev.Write(a.masks.Buffer, a.masks.Offset+4*words*i, webgpu.U32Bytes(m)); err != nil {
			return err
		}
	}
	return dev.Write(a.which.Buffer, a.which.Offset, webgpu.U32Bytes(a.words))
}

func (a *adjuster) writeBiases(s *spec.Adjustment, rows int) error {
	dev := a.passes.graph.Dev
	if len(s.Common) > a.shared {
		return fmt.Errorf("runner: %d tokens with a bias; at most %d", len(s.Common), a.shared)
	}
	a.words = append(a.words[:0], uint32(len(s.Common)), 0)
	for _, b := range s.Common {
		a.words = append(a.words, uint32(b.Token), math.Float32bits(b.Add))
	}
	if err := dev.Write(a.common.Buffer, a.common.Offset, webgpu.U32Bytes(a.words)); err != nil {
		return err
	}
	a.listWords = a.listWords[:0]
	for i := range rows {
		var own []spec.Bias
		if i < len(s.Own) {
			own = s.Own[i]
		}
		if len(own) > a.own {
			return fmt.Errorf("runner: node %d has %d biases of its own; at most %d", i, len(own), a.own)
		}
		for _, b := range own {
			a.listWords = append(a.listWords, uint32(b.Token), math.Float32bits(b.Add))
		}
		for range a.own - len(own) {
			a.listWords = append(a.listWords, math.MaxUint32, 0)
		}
	}
	return dev.Write(a.lists.Buffer, a.lists.Offset, webgpu.U32Bytes(a.listWords))
}

// prepare compiles what adjusting trees of up to rows nodes needs: programs of adjust and of the trees. Where neither
// masks nor biases are wanted it does nothing. No round then waits for them: the first tree of a size may come in the
// middle of a request, and so may the first bias, because penalties have none before the first token.
func (a *adjuster) prepare(rows int, want spec.AdjustmentKinds) error {
	if !want.Masks && !want.Biases {
		return nil
	}
	if err := a.passes.prepare(rows); err != nil {
		return err
	}
	return a.make(a.passes.distinct(rows), want)
}

// make makes the buffers and compiles the programs that adjust the logits of parts.
func (a *adjuster) make(parts []part, want spec.AdjustmentKinds) error {
	passes, g := a.passes, a.passes.graph
	o, rows := &g.Options, g.Options.MaxRows
	if a.programs == nil {
		a.programs = map[part]*adjustPrograms{}
		// A row's own list holds the tokens of its path
		a.own, a.shared = passes.batch.Stride, min(o.Vocab, o.Context+maxCommonBiases)
	}
	if want.Own > a.own { // longer lists: the shorter ones stay allocated until Close
		a.own, a.lists = want.Own, kernels.View{}
		for _, p := range a.programs {
			p.adjust = 0
		}
	}
	var err error
	view := func(v *kernels.View, label string, words int) {
		if err == nil && v.Buffer == 0 {
			*v, err = g.Binding(label, 4*words)
		}
	}
	if want.Masks {
		view(&a.which, "masks of rows", webgpu.AlignWords(rows))
		view(&a.masks, "masks", rows*sample.MaskWords(o.Vocab))
	}
	if want.Biases {
		view(&a.common, "biases", sample.AdjustWords(a.shared))
		view(&a.lists, "biases of rows", 2*rows*a.own)
	}
	if err != nil {
		return err
	}
	b := &graph.Batch{}
	for _, key := range parts {
		p, from := a.programs[key], key.from
		if p == nil {
			p = &adjustPrograms{}
			a.programs[key] = p
		}
		if want.Masks && p.mask == 0 {
			r := g.Recorder(fmt.Sprintf("mask %d from %d", key.rows, from))
			sample.RecordMask(r, passes.logits(key), a.which.From(from), a.masks, rows)
			b.Add(r, &p.mask)
		}
		if want.Biases && p.adjust == 0 {
			r := g.Recorder(fmt.Sprintf("adjust %d from %d", key.rows, from))
			sample.RecordAdjust(r, passes.logits(key), a.common, a.shared, a.lists.From(2*a.own*from), a.own)
			b.Add(r, &p.adjust)
		}
	}
	return g.Build(b)
}

// add adds the adjustments of a part's logits to a run.
func (a *adjuster) add(run []webgpu.Program, key part) []webgpu.Program {
	if a.now.Biases {
		run = append(run, a.programs[key].adjust)
	}
	if a.now.Masks {
		run = append(run, a.programs[key].mask)
	}
	return run
}
