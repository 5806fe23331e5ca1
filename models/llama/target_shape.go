package llama

import (
	"fmt"
	"math"
	"slices"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// shaper changes the logits of a pass before anything is made of them. Its buffers and programs are
// made by PrepareShapes, or when it is first used.
type shaper struct {
	which, masks   kernels.View // u32 (rows); (rows, kernels.MaskWords)
	common, lists  kernels.View // kernels.AdjustWords; (rows, own, 2)
	shared, own    int          // entries of both
	programs       map[part]*shapePrograms
	next, now      shapes // asked for; of the pass under way
	word, listWord []uint32
	parts          []part // scratch
}

// shapes says which of the two a pass needs.
type shapes struct{ masks, biases bool }

type shapePrograms struct{ mask, adjust webgpu.Program }

// mostShared bounds the tokens with a bias beside those that were drawn.
const mostShared = 1024

// Shape implements spec.ShapedTarget. It makes what PrepareShapes has not made.
func (t *Target) Shape(s *spec.Shaping) error {
	h, n := &t.shaper, s.Nodes
	h.next = shapes{}
	want := shapes{masks: len(s.Masks) > 0, biases: len(s.Common) > 0 || len(s.Own) > 0}
	if !want.masks && !want.biases {
		return nil
	}
	if n < 1 || n > t.opts.MaxRows || len(s.Which) > n || len(s.Own) > n {
		return fmt.Errorf("llama: the logits of %d nodes are to be changed; %d can be verified", n, t.opts.MaxRows)
	}
	if err := t.Prepare(n); err != nil {
		return err
	}
	h.parts = h.parts[:0]
	t.eachPart(n, func(key part, _ *partPrograms) { h.parts = append(h.parts, key) })
	if err := t.makeShapes(h.parts, want); err != nil {
		return err
	}
	rows := t.paddedRows(n)
	if want.masks {
		if err := t.writeMasks(s, rows); err != nil {
			return err
		}
	}
	if want.biases {
		if err := t.writeBiases(s, rows); err != nil {
			return err
		}
	}
	h.next = want
	return nil
}

// writeMasks hands the masks over; rows that no node has keep their logits.
func (t *Target) writeMasks(s *spec.Shaping, rows int) error {
	h, words := &t.shaper, kernels.MaskWords(t.opts.Vocab)
	if len(s.Masks) > t.opts.MaxRows {
		return fmt.Errorf("llama: %d masks for at most %d nodes", len(s.Masks), t.opts.MaxRows)
	}
	h.word = h.word[:0]
	for i := range rows {
		which := uint32(kernels.NoMask)
		if i < len(s.Which) && s.Which[i] >= 0 {
			if which = uint32(s.Which[i]); int(which) >= len(s.Masks) {
				return fmt.Errorf("llama: node %d has mask %d of %d", i, which, len(s.Masks))
			}
		}
		h.word = append(h.word, which)
	}
	for i, m := range s.Masks {
		if len(m) != words {
			return fmt.Errorf("llama: mask %d has %d words; a vocabulary of %d has %d", i, len(m), t.opts.Vocab, words)
		}
		if err := t.dev.Write(h.masks.Buffer, h.masks.Offset+4*words*i, webgpu.U32Bytes(m)); err != nil {
			return err
		}
	}
	return t.dev.Write(h.which.Buffer, h.which.Offset, webgpu.U32Bytes(h.word))
}

// writeBiases hands over what is added.
func (t *Target) writeBiases(s *spec.Shaping, rows int) error {
	h := &t.shaper
	if len(s.Common) > h.shared {
		return fmt.Errorf("llama: %d tokens with a bias; at most %d", len(s.Common), h.shared)
	}
	h.word = append(h.word[:0], uint32(len(s.Common)), 0)
	for _, b := range s.Common {
		h.word = append(h.word, uint32(b.Token), math.Float32bits(b.Add))
	}
	if err := t.dev.Write(h.common.Buffer, h.common.Offset, webgpu.U32Bytes(h.word)); err != nil {
		return err
	}
	h.listWord = h.listWord[:0]
	for i := range rows {
		var own []spec.Bias
		if i < len(s.Own) {
			own = s.Own[i]
		}
		if len(own) > h.own {
			return fmt.Errorf("llama: node %d has %d biases of its own; at most %d", i, len(own), h.own)
		}
		for _, b := range own {
			h.listWord = append(h.listWord, uint32(b.Token), math.Float32bits(b.Add))
		}
		for range h.own - len(own) {
			h.listWord = append(h.listWord, math.MaxUint32, 0)
		}
	}
	return t.dev.Write(h.lists.Buffer, h.lists.Offset, webgpu.U32Bytes(h.listWord))
}

// PrepareShapes makes what Shape needs for trees of up to rows nodes with masks or biases, and the programs of those trees, so
// that no round has to: the first tree of a size may come in the middle of a request, and so may the first bias, which penalties
// have none of before the first token.
func (t *Target) PrepareShapes(rows int, masks, biases bool) error {
	if err := t.Prepare(rows); err != nil {
		return err
	}
	var parts []part
	for n := 1; n <= rows; n++ {
		if key := t.lastPart(n); !slices.Contains(parts, key) {
			parts = append(parts, key)
		}
	}
	return t.makeShapes(parts, shapes{masks, biases})
}

// makeShapes makes what parts need to be changed.
func (t *Target) makeShapes(parts []part, want shapes) error {
	h, rows := &t.shaper, t.opts.MaxRows
	if h.programs == nil {
		h.programs = map[part]*shapePrograms{}
		// A row's own list is for the tokens of its path.
		h.own, h.shared = t.ancestorStride(), min(t.opts.Vocab, t.opts.Context+mostShared)
	}
	var err error
	view := func(v *kernels.View, label string, words int) {
		if err == nil && v.Buffer == 0 {
			*v, err = t.bound(label, 4*words)
		}
	}
	if want.masks {
		view(&h.which, "masks of rows", alignWords(rows))
		view(&h.masks, "masks", rows*kernels.MaskWords(t.opts.Vocab))
	}
	if want.biases {
		view(&h.common, "biases", kernels.AdjustWords(h.shared))
		view(&h.lists, "biases of rows", 2*rows*h.own)
	}
	if err != nil {
		return err
	}
	var recorders []*kernels.Recorder
	var into []*webgpu.Program
	for _, key := range parts {
		p, from := h.programs[key], key.from
		if p == nil {
			p = &shapePrograms{}
			h.programs[key] = p
		}
		if want.masks && p.mask == 0 {
			r := t.recorder(fmt.Sprintf("mask %d from %d", key.rows, from))
			r.Mask(t.partLogits(key), viewFrom(h.which, from), h.masks, rows)
			recorders, into = append(recorders, r), append(into, &p.mask)
		}
		if want.biases && p.adjust == 0 {
			r := t.recorder(fmt.Sprintf("adjust %d from %d", key.rows, from))
			r.Adjust(t.partLogits(key), h.common, h.shared, viewFrom(h.lists, 2*h.own*from), h.own)
			recorders, into = append(recorders, r), append(into, &p.adjust)
		}
	}
	if len(recorders) == 0 {
		return nil
	}
	programs, err := t.build(recorders...)
	if err != nil {
		return err
	}
	for i, p := range programs {
		*into[i] = p
	}
	return nil
}

// pass adds a part's blocks and what changes their logits.
func (t *Target) pass(key part, p *partPrograms) {
	t.programs = append(t.programs, p.verify)
	if h := &t.shaper; h.now.biases {
		t.programs = append(t.programs, h.programs[key].adjust)
	}
	if h := &t.shaper; h.now.masks {
		t.programs = append(t.programs, h.programs[key].mask)
	}
}
