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

// maxCommonBiases bounds the biased tokens that are not among those drawn.
const maxCommonBiases = 1024

// adjust changes the logits of the next pass.
func (h *adjuster) adjust(s *spec.Adjustment) error {
	p, n := h.passes, s.Nodes
	h.next = spec.AdjustmentKinds{}
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
	h.parts = h.parts[:0]
	p.each(n, func(key part, _ *partPrograms) { h.parts = append(h.parts, key) })
	if err := h.make(h.parts, want); err != nil {
		return err
	}
	rows := p.padded(n)
	if want.Masks {
		if err := h.writeMasks(s, rows); err != nil {
			return err
		}
	}
	if want.Biases {
		if err := h.writeBiases(s, rows); err != nil {
			return err
		}
	}
	h.next = want
	return nil
}

// writeMasks uploads the masks. Padding rows keep their logits.
func (h *adjuster) writeMasks(s *spec.Adjustment, rows int) error {
	o, dev := &h.passes.graph.Options, h.passes.graph.Dev
	words := sample.MaskWords(o.Vocab)
	if len(s.Masks) > o.MaxRows {
		return fmt.Errorf("runner: %d masks for at most %d nodes", len(s.Masks), o.MaxRows)
	}
	h.words = h.words[:0]
	for i := range rows {
		which := uint32(sample.NoMask)
		if i < len(s.Which) && s.Which[i] >= 0 {
			if which = uint32(s.Which[i]); int(which) >= len(s.Masks) {
				return fmt.Errorf("runner: node %d has mask %d of %d", i, which, len(s.Masks))
			}
		}
		h.words = append(h.words, which)
	}
	for i, m := range s.Masks {
		if len(m) != words {
			return fmt.Errorf("runner: mask %d has %d words; a vocabulary of %d has %d", i, len(m), o.Vocab,
				words)
		}
		if err := dev.Write(h.masks.Buffer, h.masks.Offset+4*words*i, webgpu.U32Bytes(m)); err != nil {
			return err
		}
	}
	return dev.Write(h.which.Buffer, h.which.Offset, webgpu.U32Bytes(h.words))
}

func (h *adjuster) writeBiases(s *spec.Adjustment, rows int) error {
	dev := h.passes.graph.Dev
	if len(s.Common) > h.shared {
		return fmt.Errorf("runner: %d tokens with a bias; at most %d", len(s.Common), h.shared)
	}
	h.words = append(h.words[:0], uint32(len(s.Common)), 0)
	for _, b := range s.Common {
		h.words = append(h.words, uint32(b.Token), math.Float32bits(b.Add))
	}
	if err := dev.Write(h.common.Buffer, h.common.Offset, webgpu.U32Bytes(h.words)); err != nil {
		return err
	}
	h.listWords = h.listWords[:0]
	for i := range rows {
		var own []spec.Bias
		if i < len(s.Own) {
			own = s.Own[i]
		}
		if len(own) > h.own {
			return fmt.Errorf("runner: node %d has %d biases of its own; at most %d", i, len(own), h.own)
		}
		for _, b := range own {
			h.listWords = append(h.listWords, uint32(b.Token), math.Float32bits(b.Add))
		}
		for range h.own - len(own) {
			h.listWords = append(h.listWords, math.MaxUint32, 0)
		}
	}
	return dev.Write(h.lists.Buffer, h.lists.Offset, webgpu.U32Bytes(h.listWords))
}

// prepare compiles what adjusting trees of up to rows nodes needs: programs of adjust and of the trees. Where neither
// masks nor biases are wanted it does nothing. No round then waits for them: the first tree of a size may come in the
// middle of a request, and so may the first bias, because penalties have none before the first token.
func (h *adjuster) prepare(rows int, want spec.AdjustmentKinds) error {
	if !want.Masks && !want.Biases {
		return nil
	}
	if err := h.passes.prepare(rows); err != nil {
		return err
	}
	return h.make(h.passes.distinct(rows), want)
}

// make makes the buffers and compiles the programs that adjust the logits of parts.
func (h *adjuster) make(parts []part, want spec.AdjustmentKinds) error {
	passes, g := h.passes, h.passes.graph
	o, rows := &g.Options, g.Options.MaxRows
	if h.programs == nil {
		h.programs = map[part]*adjustPrograms{}
		// A row's own list holds the tokens of its path
		h.own, h.shared = passes.batch.Stride, min(o.Vocab, o.Context+maxCommonBiases)
	}
	if want.Own > h.own { // longer lists: the shorter ones stay allocated until Close
		h.own, h.lists = want.Own, kernels.View{}
		for _, p := range h.programs {
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
		view(&h.which, "masks of rows", webgpu.AlignWords(rows))
		view(&h.masks, "masks", rows*sample.MaskWords(o.Vocab))
	}
	if want.Biases {
		view(&h.common, "biases", sample.AdjustWords(h.shared))
		view(&h.lists, "biases of rows", 2*rows*h.own)
	}
	if err != nil {
		return err
	}
	b := &graph.Batch{}
	for _, key := range parts {
		p, from := h.programs[key], key.from
		if p == nil {
			p = &adjustPrograms{}
			h.programs[key] = p
		}
		if want.Masks && p.mask == 0 {
			r := g.Recorder(fmt.Sprintf("mask %d from %d", key.rows, from))
			sample.RecordMask(r, passes.logits(key), h.which.From(from), h.masks, rows)
			b.Add(r, &p.mask)
		}
		if want.Biases && p.adjust == 0 {
			r := g.Recorder(fmt.Sprintf("adjust %d from %d", key.rows, from))
			sample.RecordAdjust(r, passes.logits(key), h.common, h.shared, h.lists.From(2*h.own*from), h.own)
			b.Add(r, &p.adjust)
		}
	}
	return g.Build(b)
}

// add adds the adjustments of a part's logits to a run.
func (h *adjuster) add(run []webgpu.Program, key part) []webgpu.Program {
	if h.now.Biases {
		run = append(run, h.programs[key].adjust)
	}
	if h.now.Masks {
		run = append(run, h.programs[key].mask)
	}
	return run
}
