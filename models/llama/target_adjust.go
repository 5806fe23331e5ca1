package llama

import (
	"fmt"
	"math"
	"slices"

	"foretoken/models/graph"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
)

// adjuster changes the logits of a pass, by masks and biases, before they are sampled. prepareAdjustments makes its
// buffers and programs, otherwise the first use does.
type adjuster struct {
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

// Adjust implements spec.Target. It compiles programs that prepareAdjustments has not compiled.
func (t *Target) Adjust(s *spec.Adjustment) error {
	h, n := &t.adjuster, s.Nodes
	h.next = spec.AdjustmentKinds{}
	want := spec.AdjustmentKinds{Masks: len(s.Masks) > 0, Biases: len(s.Common) > 0 || len(s.Own) > 0}
	if !want.Masks && !want.Biases {
		return nil
	}
	if n < 1 || n > t.Options.MaxRows || len(s.Which) > n || len(s.Own) > n {
		return fmt.Errorf("llama: adjusting the logits of %d nodes; %d can be verified", n, t.Options.MaxRows)
	}
	if err := t.prepareTrees(n); err != nil {
		return err
	}
	h.parts = h.parts[:0]
	t.eachPart(n, func(key part, _ *partPrograms) { h.parts = append(h.parts, key) })
	if err := t.makeAdjustments(h.parts, want); err != nil {
		return err
	}
	rows := t.paddedRows(n)
	if want.Masks {
		if err := t.writeMasks(s, rows); err != nil {
			return err
		}
	}
	if want.Biases {
		if err := t.writeBiases(s, rows); err != nil {
			return err
		}
	}
	h.next = want
	return nil
}

// writeMasks uploads the masks. Padding rows keep their logits.
func (t *Target) writeMasks(s *spec.Adjustment, rows int) error {
	h, words := &t.adjuster, sample.MaskWords(t.Options.Vocab)
	if len(s.Masks) > t.Options.MaxRows {
		return fmt.Errorf("llama: %d masks for at most %d nodes", len(s.Masks), t.Options.MaxRows)
	}
	h.words = h.words[:0]
	for i := range rows {
		which := uint32(sample.NoMask)
		if i < len(s.Which) && s.Which[i] >= 0 {
			if which = uint32(s.Which[i]); int(which) >= len(s.Masks) {
				return fmt.Errorf("llama: node %d has mask %d of %d", i, which, len(s.Masks))
			}
		}
		h.words = append(h.words, which)
	}
	for i, m := range s.Masks {
		if len(m) != words {
			return fmt.Errorf("llama: mask %d has %d words; a vocabulary of %d has %d", i, len(m), t.Options.Vocab,
				words)
		}
		if err := t.Dev.Write(h.masks.Buffer, h.masks.Offset+4*words*i, webgpu.U32Bytes(m)); err != nil {
			return err
		}
	}
	return t.Dev.Write(h.which.Buffer, h.which.Offset, webgpu.U32Bytes(h.words))
}

func (t *Target) writeBiases(s *spec.Adjustment, rows int) error {
	h := &t.adjuster
	if len(s.Common) > h.shared {
		return fmt.Errorf("llama: %d tokens with a bias; at most %d", len(s.Common), h.shared)
	}
	h.words = append(h.words[:0], uint32(len(s.Common)), 0)
	for _, b := range s.Common {
		h.words = append(h.words, uint32(b.Token), math.Float32bits(b.Add))
	}
	if err := t.Dev.Write(h.common.Buffer, h.common.Offset, webgpu.U32Bytes(h.words)); err != nil {
		return err
	}
	h.listWords = h.listWords[:0]
	for i := range rows {
		var own []spec.Bias
		if i < len(s.Own) {
			own = s.Own[i]
		}
		if len(own) > h.own {
			return fmt.Errorf("llama: node %d has %d biases of its own; at most %d", i, len(own), h.own)
		}
		for _, b := range own {
			h.listWords = append(h.listWords, uint32(b.Token), math.Float32bits(b.Add))
		}
		for range h.own - len(own) {
			h.listWords = append(h.listWords, math.MaxUint32, 0)
		}
	}
	return t.Dev.Write(h.lists.Buffer, h.lists.Offset, webgpu.U32Bytes(h.listWords))
}

// prepareAdjustments compiles the programs of Adjust, and those of the trees, for trees of up to rows nodes; where
// neither masks nor biases are wanted it does nothing. No round then waits for them: the first tree of a size may come
// in the middle of a request, and so may the first bias, because penalties have none before the first token.
func (t *Target) prepareAdjustments(rows int, want spec.AdjustmentKinds) error {
	if !want.Masks && !want.Biases {
		return nil
	}
	if err := t.prepareTrees(rows); err != nil {
		return err
	}
	var parts []part
	for n := 1; n <= rows; n++ {
		if key := t.lastPart(n); !slices.Contains(parts, key) { // bound: a few parts
			parts = append(parts, key)
		}
	}
	return t.makeAdjustments(parts, want)
}

// makeAdjustments makes the buffers and compiles the programs that adjust the logits of parts.
func (t *Target) makeAdjustments(parts []part, want spec.AdjustmentKinds) error {
	h, rows := &t.adjuster, t.Options.MaxRows
	if h.programs == nil {
		h.programs = map[part]*adjustPrograms{}
		// A row's own list holds the tokens of its path
		h.own, h.shared = t.ancestorStride(), min(t.Options.Vocab, t.Options.Context+maxCommonBiases)
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
			*v, err = t.Binding(label, 4*words)
		}
	}
	if want.Masks {
		view(&h.which, "masks of rows", webgpu.AlignWords(rows))
		view(&h.masks, "masks", rows*sample.MaskWords(t.Options.Vocab))
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
			r := t.Recorder(fmt.Sprintf("mask %d from %d", key.rows, from))
			sample.RecordMask(r, t.partLogits(key), h.which.From(from), h.masks, rows)
			b.Add(r, &p.mask)
		}
		if want.Biases && p.adjust == 0 {
			r := t.Recorder(fmt.Sprintf("adjust %d from %d", key.rows, from))
			sample.RecordAdjust(r, t.partLogits(key), h.common, h.shared, h.lists.From(2*h.own*from), h.own)
			b.Add(r, &p.adjust)
		}
	}
	return t.Build(b)
}

// pass adds a part's blocks and the adjustments of its logits.
func (t *Target) pass(key part, p *partPrograms) {
	t.programs = append(t.programs, p.verify)
	if h := &t.adjuster; h.now.Biases {
		t.programs = append(t.programs, h.programs[key].adjust)
	}
	if h := &t.adjuster; h.now.Masks {
		t.programs = append(t.programs, h.programs[key].mask)
	}
}
