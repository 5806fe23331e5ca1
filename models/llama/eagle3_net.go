package llama

import (
	"context"

	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/kv"
	"foretoken/models/tune"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	"foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/kernels/sample"
)

// eagleNet is the network of an EAGLE-3 head. Its one layer reads the token's embedding and the feature side by
// side, so its first projection is the sum of two products: layers[0].qkv multiplies the embedding, featureQKV the
// feature. layers[0].attnNorm is the embedding's norm.
type eagleNet struct {
	*Model
	target *Target
	source *gguf.File
	draft  *Draft

	fuse       [arch.Taps]*matrix // fc, one matrix per tap
	featureQKV *matrix
	featNorm   kernels.View

	tapped      kernels.View // (rows, target's dim): the rows of one tap
	embedded    kernels.View // (rows, dim)
	hidden      kernels.View // (slots, dim): the layer's output, by KV slot
	draftLogits kernels.View // (rows, stride): logits over the draft vocabulary
	stride      int
	draftIDs    kernels.View // u32 (vocab): the draft id of each token
}

var _ network = (*eagleNet)(nil)

// committed reports whether a pass consumes committed tokens, whose features are the target's. For drafted tokens
// the feature is the head's own output for the token before.
func (e *eagleNet) committed(p *kv.Pass) bool {
	return p == &e.prefill.batch || e.draft != nil && p == &e.draft.rootPass
}

// forward records a pass of n rows. The layer's output ends up in work.x and, by slot, in hidden.
func (e *eagleNet) forward(r *kernels.Recorder, p *kv.Pass, n int) {
	c, w, y := e.cfg, &e.work, &e.layers[0]
	slots, cache := p.Slots(), e.seq.Layers[0]
	rows := func(v kernels.View, stride int) kernels.Rows { return kernels.Rows{View: v, Stride: stride} }
	if e.committed(p) {
		t := e.target
		for i, tap := range t.taps.views {
			layer.RecordGatherFeatures(r, p.Rows, t.seq.Table, tap, e.tapped, n, t.cfg.Dim)
			e.matmul(r, e.fuse[i], rows(e.tapped, t.cfg.Dim), rows(w.x, c.Dim), n, i > 0)
		}
	} else {
		layer.RecordParentFeatures(r, slots, e.hidden, w.x, n, c.Dim)
	}
	for _, part := range e.embed.weights {
		layer.RecordEmbed(r, part, p.Tokens, e.embedded, n, 1)
	}
	qkv := rows(w.qkv, e.heads.Width())
	e.matmul(r, y.qkv, e.norm(r, e.embedded, y.attnNorm, n), qkv, n, false)
	e.matmul(r, e.featureQKV, e.norm(r, w.x, e.featNorm, n), qkv, n, true)
	attention.RecordRope(r, e.heads, p.Rows, e.rope, kernels.View{}, w.qkv, cache.Keys, cache.Values, n)
	e.attention(r, 0, slots, n)
	x := e.residual(r, y.out, rows(w.att, e.heads.Query*e.heads.Dim), n, y.ffnNorm)
	e.residual(r, y.down, e.activate(r, y, x, n), n, e.outNorm)
	layer.RecordStoreFeatures(r, p.Rows, w.x, e.hidden, n, c.Dim)
}

// head records the logits of rows [from, n): over the draft vocabulary, then spread over the target's, where tokens
// unknown to the head are impossible.
func (e *eagleNet) head(r *kernels.Recorder, from, n int, logits kernels.View, to int) {
	w, x := &e.work, e.finalRows()
	x.Offset = from * x.Stride
	e.matmul(r, e.output, x, kernels.Rows{View: e.draftLogits, Stride: e.stride}, n-from, false)
	sample.RecordSpread(r, e.draftIDs, e.draftLogits, e.stride, len(e.cfg.Features.Targets),
		kernels.Rows{View: logits, Offset: to * w.stride, Stride: w.stride}, e.opts.Vocab, n-from)
}

// load loads the weights and tunes the kernels.
func (e *eagleNet) load(ctx context.Context) error {
	if err := e.loadBuffers(ctx); err != nil {
		return err
	}
	m := e.Model
	m.extra = []tune.Matrix{{Weights: e.featureQKV.weights, X: m.work.norm, Out: m.work.qkv}}
	for _, f := range e.fuse {
		m.extra = append(m.extra, tune.Matrix{Weights: f.weights, X: e.tapped, Out: m.work.x})
	}
	if err := m.tune(); err != nil {
		return err
	}
	m.Reset()
	return nil
}

// loadBuffers makes the model's buffers and loads the weights, as Model.loadBuffers does.
func (e *eagleNet) loadBuffers(ctx context.Context) error {
	if err := e.loadWeights(ctx, e.source, e.place); err != nil {
		return err
	}
	if !e.cfg.Features.Embedding {
		e.embed = e.target.embed
	}
	if err := e.Model.allocate(); err != nil {
		return err
	}
	return e.allocate()
}

// place is Model.place, and knows the tensors of heads.
func (e *eagleNet) place(t arch.Tensor) (**matrix, *kernels.View) {
	switch t.Kind {
	case arch.Fuse:
		return &e.fuse[t.From/t.Cols], nil
	case arch.FeatureQKV:
		return &e.featureQKV, nil
	case arch.FeatureNorm:
		return nil, &e.featNorm
	}
	return e.Model.place(t)
}

// allocate makes the buffers that only a head needs.
func (e *eagleNet) allocate() error {
	rows := max(e.passRows(), maxPrefill)
	e.stride = webgpu.AlignWords(len(e.cfg.Features.Targets))
	sources := make([]uint32, e.cfg.Vocab)
	for i := range sources {
		sources[i] = sample.NoSource
	}
	for i, id := range e.cfg.Features.Targets {
		sources[id] = uint32(i)
	}
	for _, b := range []struct {
		view  *kernels.View
		label string
		words int
	}{
		{&e.tapped, "tapped features", rows * e.target.cfg.Dim},
		{&e.embedded, "embedded tokens", rows * e.cfg.Dim},
		{&e.hidden, "hidden states", (int(e.seq.Padding()) + 1) * e.cfg.Dim},
		{&e.draftLogits, "draft logits", rows * e.stride},
		{&e.draftIDs, "draft vocabulary", len(sources)},
	} {
		var err error
		if *b.view, err = e.newBinding(b.label, 4*b.words); err != nil {
			return err
		}
	}
	if e.planning() {
		return nil
	}
	return e.dev.Write(e.draftIDs.Buffer, 0, webgpu.U32Bytes(sources))
}
