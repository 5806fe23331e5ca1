package graph

import (
	"cmp"
	"context"
	"fmt"

	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/kv"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/sample"
)

// head is the part of an EAGLE-3 head that other models lack. Its one layer reads the token's embedding and a feature
// side by side, so its first projection is the sum of two products: the layer's own matrix multiplies the embedding,
// qkv the feature. The layer's mixNorm is the embedding's norm.
type head struct {
	target *Graph
	of     *kv.Sequence // the target's

	fuse [arch.Taps]*matrix // fc, one matrix per tap
	qkv  *matrix
	norm kernels.View // of the feature
	side kernels.View // of the features side by side; without a buffer they have no norm

	feature kernels.View // (rows, dim): the input of qkv before its norm; Space.X if that starts the residual stream

	tapped   kernels.View            // (rows, target's dim): the rows of one tap
	beside   [arch.Taps]kernels.View // u32 (rows, RowWords): the slots of a tap's rows in joined
	joined   kernels.View            // (rows, taps, target's dim): the taps side by side
	normed   kernels.View            // the same, normed
	embedded kernels.View            // (rows, dim)
	hidden   kernels.View            // (slots, dim): the layer's output, by KV slot
	logits   kernels.View            // (rows, stride): over the draft vocabulary
	stride   int
	ids      kernels.View // u32 (vocab): the draft id of each token
}

// LoadHead loads a head onto its target's device, and returns its graph and its empty sequence. Passes are recorded
// once the target, whose sequence is of, is tapped. The head shares the target's embedding unless its file has one.
// Options.Context and Options.Vocab default to the target's.
func LoadHead(ctx context.Context, target *Graph, of *kv.Sequence, f *gguf.File,
	o Options) (*Graph, *kv.Sequence, error) {
	a, err := arch.ReadHead(f)
	if err != nil {
		return nil, nil, err
	}
	switch t := target.Arch; {
	case a.Features.Dim != t.Dim:
		return nil, nil, fmt.Errorf("graph: %s: the head was made for a target of width %d; %s has %d", f.Name(),
			a.Features.Dim, target.File, t.Dim)
	case a.Vocab != t.Vocab:
		return nil, nil, fmt.Errorf("graph: %s: the head was made for a target of %d tokens; %s has %d", f.Name(),
			a.Vocab, target.File, t.Vocab)
	}
	a.Context = target.Options.Context // a head drafts as far as its target goes
	if !a.Features.Output {
		a.Logit = target.Arch.Logit
	}
	o.Context, o.Vocab = cmp.Or(o.Context, target.Options.Context), cmp.Or(o.Vocab, target.Options.Vocab)
	g, err := newGraph(target.Dev, a, f.Name(), o)
	if err != nil {
		return nil, nil, err
	}
	g.Options.TopK = min(g.Options.TopK, len(a.Features.Targets))
	g.head = &head{target: target, of: of}
	seq, err := g.finish(ctx, f)
	return g, seq, err
}

// allocateHead makes the buffers that only a head needs.
func (g *Graph) allocateHead(seq *kv.Sequence) error {
	h, rows := g.head, max(g.PassRows(), MaxPrefill)
	h.stride = webgpu.AlignWords(len(g.Arch.Features.Targets))
	sources := make([]uint32, g.Arch.Vocab)
	for i := range sources {
		sources[i] = sample.NoSource
	}
	for i, id := range g.Arch.Features.Targets {
		sources[id] = uint32(i)
	}
	type buffer struct {
		view  *kernels.View
		label string
		words int
	}
	all := []buffer{
		{&h.tapped, "tapped features", rows * h.target.Arch.Dim},
		{&h.embedded, "embedded tokens", rows * g.Arch.Dim},
		{&h.hidden, "hidden states", (int(seq.Padding()) + 1) * g.Arch.Dim},
		{&h.logits, "draft logits", rows * h.stride},
		{&h.ids, "draft vocabulary", len(sources)},
	}
	if h.feature = g.Space.X; g.Arch.Features.NormedSkip {
		all = append(all, buffer{&h.feature, "features", rows * g.Arch.Dim})
	}
	if h.side.Buffer != 0 {
		all = append(all, buffer{&h.joined, "joined features", arch.Taps * rows * h.target.Arch.Dim},
			buffer{&h.normed, "normed features", arch.Taps * rows * h.target.Arch.Dim})
		for i := range h.beside {
			all = append(all, buffer{&h.beside[i], "rows of joined features", rows * kernels.RowWords})
		}
	}
	for _, b := range all {
		var err error
		if *b.view, err = g.Binding(b.label, 4*b.words); err != nil {
			return err
		}
	}
	if g.planning() {
		return nil
	}
	if h.side.Buffer != 0 {
		for tap, v := range h.beside {
			words := make([]uint32, rows*kernels.RowWords)
			for i := range rows {
				words[i*kernels.RowWords+1] = uint32(arch.Taps*i + tap) // the slot
			}
			if err := g.Dev.Write(v.Buffer, 0, webgpu.U32Bytes(words)); err != nil {
				return err
			}
		}
	}
	return g.Dev.Write(h.ids.Buffer, 0, webgpu.U32Bytes(sources))
}
