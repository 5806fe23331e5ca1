package graph

import (
	"fmt"

	"foretoken/models/arch"
	"foretoken/models/kv"
	"foretoken/models/tune"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	"foretoken/webgpu/kernels/matmul"
	"foretoken/webgpu/kernels/sample"
)

// MaxPrefill is the largest prefill chunk: two of the widest matrix tiles.
const MaxPrefill = 32

// PrefillRows returns the prefill chunk. On software adapters one of the widest tiles is as fast and compiles sooner.
func (g *Graph) PrefillRows() int {
	if g.Dev.Info().Software {
		return MaxPrefill / 2
	}
	return MaxPrefill
}

// OnePassRows is the number of rows that every model can run at once. A larger tree runs in parts as large as
// passBytes allows.
const OnePassRows = 64

// passBytes bounds each buffer of a workspace for more than OnePassRows rows.
const passBytes = 64 << 20

// PassRows returns how many rows of a tree run through the blocks at once. Parents precede children, so the keys of
// a part's ancestors are in the cache when the part runs; a larger tree needs no larger workspace.
func (g *Graph) PassRows() int {
	o, most := &g.Options, min(passBytes, g.Dev.Info().Limits.MaxBindingSize)
	widest := max(webgpu.AlignWords(g.Arch.Vocab), g.Arch.Dim)
	for i := range g.layers {
		widest = max(widest, 2*g.layers[i].width, g.layers[i].heads.Width())
	}
	rows := min(o.MaxRows, OnePassRows)
	for _, n := range []int{128, 256, 512, o.MaxRows} {
		if n <= o.MaxRows && 4*n*widest <= most && (o.PassRows == 0 || n <= o.PassRows) {
			rows = max(rows, n)
		}
	}
	return rows
}

// Workspace is device memory that a model's passes share.
type Workspace struct {
	X       kernels.View // the residual stream, (rows, Dim)
	Norm    kernels.View // the input of the next product, or the final hidden states; see Normalise
	Logits  kernels.View // (PassRows, Stride)
	Stride  int          // floats of a row of logits, a multiple of the binding alignment
	Scratch kernels.View // of the sampling kernels
	Draw    kernels.View // kernels.DrawParams

	qkv, att, gates, act kernels.View // activations
	added                kernels.View // a product before its norm is added to the residual stream, (rows, dim)
	inner                kernels.View // the normalised input of a layer's last product, (rows, its width)
	rounded              kernels.View // the input of a packed product
	scores               kernels.View // partial attention results, for as many rows as passBytes allows
}

// TreeSlots is the number of KV slots in addition to the context's, for drafted tokens that are not committed.
const TreeSlots = 272

// Spare returns the number of KV slots in addition to the context's. A tree of MaxRows nodes fits at any length of
// the sequence.
func (o *Options) Spare() int { return max(TreeSlots, o.MaxRows) }

// allocate makes the KV cache and the workspace and returns the sequence that the cache is for. Their sizes depend only
// on the model's description, the options and the device's limits, so that they can be planned without loading.
func (g *Graph) allocate() (*kv.Sequence, error) {
	seq, err := g.newSequence()
	if err != nil {
		return nil, err
	}
	rows, w, o := max(g.PassRows(), MaxPrefill), &g.Space, &g.Options
	w.Stride = webgpu.AlignWords(g.Arch.Vocab)
	view := func(label string, words int) kernels.View {
		var v kernels.View
		if err == nil {
			v, err = g.Binding(label, 4*words)
		}
		return v
	}
	qkv, att, ffn, parts, added, inner := 0, 0, 0, 0, 0, 0
	for i := range g.layers {
		y := &g.layers[i]
		if y.mixPost.Buffer != 0 {
			added = rows * g.Arch.Dim
		}
		if y.mixInner.Buffer != 0 {
			inner = max(inner, rows*y.attended(), rows*y.width)
		}
		qkv, att, ffn = max(qkv, y.heads.Width()), max(att, y.attended()), max(ffn, y.width)
		parts = max(parts, attention.Scratch(y.heads, o.Context, y.span))
	}
	w.X, w.Norm = view("residual", rows*g.Arch.Dim), view("normalised", rows*matmul.NextStride(g.Arch.Dim))
	w.qkv, w.att = view("queries, keys, values", rows*qkv), view("attention", rows*att)
	w.gates, w.act = view("gates", rows*2*ffn), view("activations", rows*ffn)
	if added > 0 {
		w.added = view("added to the residual", added)
	}
	if inner > 0 {
		w.inner = view("norms within layers", inner)
	}
	if widest := g.widestPacked(); widest > 0 {
		w.rounded = view("rounded activations", rows*matmul.PackedWords(widest))
	}
	scored := min(rows, max(min(passBytes, g.Dev.Info().Limits.MaxBindingSize)/(4*max(parts, 1)), 1)) // rows at a time
	w.scores = view("parts of attention", max(scored*parts, tune.TimedRows*kernels.SampleWords(o.TopK)))
	w.Logits = view("logits", g.PassRows()*w.Stride)
	w.Scratch = view("sampling scratch", sample.Scratch(g.PassRows(), o.Vocab)/4)
	seq.Table, w.Draw = view("slot table", o.Context), view("draw parameters", kernels.DrawWords)
	g.ropes = map[*arch.Rope]kernels.View{}
	for i := range g.layers {
		rope := g.layers[i].mix.Rope
		if _, ok := g.ropes[rope]; ok || rope == nil {
			continue
		}
		table := view("rotary table", o.Context*2*len(rope.Inverse))
		if g.ropes[rope] = table; err == nil && !g.planning() {
			err = g.Dev.Write(table.Buffer, 0,
				webgpu.F32Bytes(attention.RopeTable(o.Context, rope.Inverse, rope.Magnitude)))
		}
	}
	return seq, err
}

// widestPacked returns the longest row of the weights that have packed products, or 0. It does not ask whether the
// device has them, which a plan does not know.
func (g *Graph) widestPacked() int {
	widest := 0
	for _, of := range g.Matrices() {
		for _, w := range of.Weights {
			if w.Format.Packed() {
				widest = max(widest, w.Cols)
			}
		}
	}
	return widest
}

// newSequence makes the KV cache, with one buffer each for the keys and the values of a layer that shares no other's.
func (g *Graph) newSequence() (*kv.Sequence, error) {
	seq, before := kv.NewSequence(g.Dev, g.Options.Context+g.Options.Spare()), g.bytes
	seq.Layers = make([]kv.Layer, len(g.layers))
	for i := range seq.Layers {
		h, cache := g.layers[i].heads, &seq.Layers[i]
		if h.Shares {
			continue
		}
		size := 4 * h.CacheWords(int(seq.Padding())+1)
		if most := g.maxBinding(); size > most {
			return nil, g.cacheTooLarge(h, size, most)
		}
		var err error
		if cache.Keys, err = g.Binding("keys", size); err != nil {
			return nil, err
		}
		if cache.Values, err = g.Binding("values", size); err != nil {
			return nil, err
		}
	}
	g.kvBytes = g.bytes - before
	return seq, nil
}

// cacheTooLarge returns the error for keys of a layer that exceed a binding, with the context that would fit.
func (g *Graph) cacheTooLarge(h kernels.Heads, size, most int) error {
	fits := func(format kernels.KVFormat) int {
		narrow := h
		narrow.Format = format
		return max(most/(4*narrow.CacheWords(1))-g.Options.Spare()-1, 0)
	}
	advice := fmt.Sprintf("at most %d positions fit", fits(h.Format))
	if h.Format != kernels.KVQ8 {
		advice += fmt.Sprintf(", or %d in q8", fits(kernels.KVQ8))
	}
	return fmt.Errorf("graph: %s: the keys of a layer for %d positions in %s would be a buffer of %s (%d bytes); "+
		"this device binds %s (%d bytes) at most: %s",
		g.File, g.Options.Context, h.Format, Size(int64(size)), size, Size(int64(most)), most, advice)
}
