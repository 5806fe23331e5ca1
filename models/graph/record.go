package graph

import (
	"foretoken/models/arch"
	"foretoken/models/kv"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	layerkernel "foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/kernels/matmul"
	"foretoken/webgpu/kernels/sample"
)

// recording is the recording of a pass of n rows. Its methods record one part each.
type recording struct {
	g *Graph
	r *kernels.Recorder
	p *kv.Pass // nil if only the end of a pass is recorded
	n int
}

// Forward records the blocks of a pass of n rows. The residual stream ends up in Space.X, the input of Head in
// Space.Norm.
func (g *Graph) Forward(r *kernels.Recorder, p *kv.Pass, n int) {
	c := &recording{g, r, p, n}
	var x kernels.Rows
	if g.head == nil {
		x = c.embedTokens()
		c.tap(-1)
	} else {
		c.readFeatures()
	}
	for i := range g.layers {
		y, after := &g.layers[i], g.headNorm
		if i+1 < len(g.layers) {
			after = g.layers[i+1].mixNorm
		}
		c.attend(i, x)
		att := kernels.Rows{View: g.Space.att, Stride: y.attended()}
		x = c.residual(y.out, c.inner(att, y.mixInner), y.mixPost, y.ffnNorm)
		x = c.residual(y.down, c.inner(c.activate(y, x), y.ffnInner), y.ffnPost, after)
		c.tap(i)
	}
	if g.head != nil {
		c.keepFeatures()
	}
}

// Normalise records the output norm of a pass's n rows: the final hidden states, (n, Arch.Dim), in Space.Norm.
func (g *Graph) Normalise(r *kernels.Recorder, n int) {
	c := &recording{g: g, r: r, n: n}
	c.norm(g.Space.X, g.outNorm)
}

// Head records the logits of rows [from, n) of a pass into rows [to, …) of Space.Logits.
func (g *Graph) Head(r *kernels.Recorder, from, n, to int) {
	c, last := &recording{g: g, r: r, n: n - from}, &g.layers[len(g.layers)-1]
	w, x := &g.Space, c.afterResidual(last.down, last.ffnPost, g.headNorm)
	x.Offset = from * x.Stride
	logits := kernels.Rows{View: w.Logits, Offset: to * w.Stride, Stride: w.Stride}
	if g.head != nil {
		c.spread(x, logits)
		return
	}
	c.matmul(g.output, x, logits, false)
}

// matmul records a product of the rows with each weight of a matrix.
func (c *recording) matmul(w *matrix, x, out kernels.Rows, add bool) {
	for i, part := range w.weights {
		o := out
		o.Offset += w.offsets[i]
		matmul.Record(c.r, c.g.familyFor(part, c.n), part, x, o, c.n, add)
	}
}

// norm records the norm of rows of the model's width and returns its output.
func (c *recording) norm(x, gain kernels.View) kernels.Rows {
	g := c.g
	layerkernel.RecordNorm(c.r, g.Kernels.Lanes, x, gain, g.Space.Norm, c.n, g.Arch.Dim, g.eps())
	return kernels.Rows{View: g.Space.Norm, Stride: g.Arch.Dim}
}

// inner records the norm of the input of a layer's product, if it has one, and returns the product's input.
func (c *recording) inner(x kernels.Rows, gain kernels.View) kernels.Rows {
	if gain.Buffer == 0 {
		return x
	}
	g := c.g
	layerkernel.RecordNorm(c.r, g.Kernels.Lanes, x.View, gain, g.Space.inner, c.n, x.Stride, g.Arch.Eps)
	return kernels.Rows{View: g.Space.inner, Stride: x.Stride}
}

// embedTokens records the embedding and returns the input of the next product.
func (c *recording) embedTokens() kernels.Rows {
	g, x, gain := c.g, c.g.Space.X, c.g.layers[0].mixNorm
	e := g.embed.weights[0]
	if len(g.embed.weights) == 1 && layerkernel.CanEmbedNext(e) && gain.Buffer != 0 {
		return layerkernel.RecordEmbedNext(c.r, e, c.p.Tokens, x, c.n, c.embedScale(), gain, c.scaledRows(), g.eps())
	}
	for _, e := range g.embed.weights {
		layerkernel.RecordEmbed(c.r, e, c.p.Tokens, x, c.n, c.embedScale())
	}
	if gain.Buffer == 0 {
		return c.stream()
	}
	return c.norm(x, gain)
}

// attend records a layer's attention.
func (c *recording) attend(layer int, x kernels.Rows) {
	y, w := &c.g.layers[layer], &c.g.Space
	slots, cache := c.p.Slots(), c.p.Cache(layer)
	if from := y.mix.Shares; from > 0 {
		slots, cache = c.p.Borrowed(from - 1)
	}
	c.project(y, cache, x)
	attention.Record(c.r, y.heads, slots, w.qkv, cache.Keys, cache.Values, w.scores, w.att, c.n, y.span)
}

// project records a layer's queries, which go to Space.qkv, and its keys and values, which go to the cache.
func (c *recording) project(y *layer, cache kv.Layer, x kernels.Rows) {
	g, h, qkv, rope := c.g, y.heads, c.g.Space.qkv, c.g.ropes[y.mix.Rope]
	if y.mix.Rope == nil {
		rope = g.Space.X // bound, and not read
	}
	if q := y.qkv.weights[0]; len(y.qkv.weights) == 1 && y.bias.Buffer == 0 && y.qkNorm.Buffer == 0 && g.head == nil &&
		g.Kernels.Family(q).CanRope(q, h) {
		matmul.RecordRope(c.r, g.familyFor(q, c.n), q, h, x, c.p.Rows, rope, qkv, cache.Keys, cache.Values, c.n)
		return
	}
	out := kernels.Rows{View: qkv, Stride: h.Width()}
	if g.head == nil {
		c.matmul(y.qkv, x, out, false)
	} else {
		c.projectFeatures(y, out)
	}
	switch {
	case y.mix.NormLate:
		layerkernel.RecordNormHeads(c.r, g.Kernels.Lanes, h, g.ones, qkv, c.n, g.Arch.Eps)
		attention.RecordRopeGain(c.r, h, c.p.Rows, rope, y.qkNorm, qkv, cache.Keys, cache.Values, c.n)
		return
	case y.mix.QKNorm == arch.Head:
		layerkernel.RecordNormHeads(c.r, g.Kernels.Lanes, h, y.qkNorm, qkv, c.n, g.Arch.Eps)
	case y.mix.QKNorm == arch.Row:
		layerkernel.RecordNormRow(c.r, h, y.qkNorm, qkv, c.n, g.Arch.Eps)
	}
	attention.RecordRope(c.r, h, c.p.Rows, rope, y.bias, qkv, cache.Keys, cache.Values, c.n)
}

// residual records a product whose norm with post, if there is one, is added to the residual stream, and the norm of
// the stream with gain, if there is one. It returns the input of the next product.
func (c *recording) residual(w *matrix, x kernels.Rows, post, gain kernels.View) kernels.Rows {
	g, after := c.g, c.afterResidual(w, post, gain)
	switch only, dim, space := w.weights[0], g.Arch.Dim, &g.Space; {
	case post.Buffer != 0:
		c.matmul(w, x, kernels.Rows{View: space.added, Stride: dim}, false)
		if gain.Buffer == 0 {
			layerkernel.RecordAddNorm(c.r, space.added, post, space.X, c.n, dim, g.Arch.Eps)
		} else {
			layerkernel.RecordAddNormNext(c.r, space.added, post, space.X, c.n, dim, g.Arch.Eps, gain, after)
		}
	case gain.Buffer != 0 && c.fusesNorm(w):
		matmul.RecordNext(c.r, g.familyFor(only, c.n), only, x, c.stream(), c.n, gain, c.scaledRows(), g.eps())
	default:
		if c.matmul(w, x, c.stream(), true); gain.Buffer != 0 {
			c.norm(space.X, gain)
		}
	}
	return after
}

// embedScale returns the multiplier of the embedding in the residual stream; see eps.
func (c *recording) embedScale() float64 { return c.g.Arch.Embed / c.g.Arch.Residual }

// stream returns the rows of the residual stream.
func (c *recording) stream() kernels.Rows {
	return kernels.Rows{View: c.g.Space.X, Stride: c.g.Arch.Dim}
}

// scaledRows returns the rows in which a product with a fused norm stores x·gain and sums of squares for the next
// product.
func (c *recording) scaledRows() kernels.Rows {
	return kernels.Rows{View: c.g.Space.Norm, Stride: matmul.NextStride(c.g.Arch.Dim)}
}

// afterResidual returns the input of the product that follows residual.
func (c *recording) afterResidual(w *matrix, post, gain kernels.View) kernels.Rows {
	switch {
	case gain.Buffer == 0:
		return c.stream()
	case post.Buffer != 0:
		return layerkernel.AddNormNext(c.g.Arch.Dim, c.g.eps(), c.scaledRows())
	case c.fusesNorm(w):
		return c.g.Kernels.Family(w.weights[0]).Next(w.weights[0], c.scaledRows(), c.g.eps())
	}
	return kernels.Rows{View: c.g.Space.Norm, Stride: c.g.Arch.Dim}
}

// fusesNorm reports whether a product that is added to the stream needs no separate dispatch for the norm after it.
func (c *recording) fusesNorm(w *matrix) bool {
	return len(w.weights) == 1 && c.g.Kernels.Family(w.weights[0]).CanNext(w.weights[0])
}

// activate records a layer's gated activation and returns its output.
func (c *recording) activate(y *layer, x kernels.Rows) kernels.Rows {
	g, w, act := c.g, &c.g.Space, kernels.Rows{View: c.g.Space.act, Stride: y.width}
	if up := y.gates.weights[0]; len(y.gates.weights) == 1 && g.Kernels.Family(up).CanGate(up) {
		matmul.RecordSiLU(c.r, g.familyFor(up, c.n), up, x, act, c.n)
		return act
	}
	c.matmul(y.gates, x, kernels.Rows{View: w.gates, Stride: 2 * y.width}, false)
	layerkernel.RecordSiLU(c.r, w.gates, w.act, c.n, y.width)
	return act
}

// tap records the storing of the rows after a layer, -1 being the embedding, and after the output norm, if they are
// tapped.
func (c *recording) tap(layer int) {
	g, x, dim := c.g, c.g.Space.X, c.g.Arch.Dim
	for i, l := range g.taps.layers {
		if l == layer {
			layerkernel.RecordStoreFeatures(c.r, c.p.Rows, x, g.taps.views[i], c.n, dim)
		}
		if l == len(g.layers) && layer == l-1 {
			layerkernel.RecordNorm(c.r, g.Kernels.Lanes, x, g.outNorm, g.taps.final, c.n, dim, g.eps())
			layerkernel.RecordStoreFeatures(c.r, c.p.Rows, g.taps.final, g.taps.views[i], c.n, dim)
		}
	}
}

// keepFeatures records the storing of a head's outputs, the features of the tokens drafted next.
func (c *recording) keepFeatures() {
	g, x := c.g, c.g.Space.X
	if h := g.head; g.Arch.Features.NormedNext {
		layerkernel.RecordNorm(c.r, g.Kernels.Lanes, x, g.outNorm, h.embedded, c.n, g.Arch.Dim, g.eps())
		x = h.embedded
	}
	layerkernel.RecordStoreFeatures(c.r, c.p.Rows, x, g.head.hidden, c.n, g.Arch.Dim)
}

// readFeatures records the features of the rows, which go to head.feature. Those of committed tokens are the target's;
// for drafted tokens the feature is the head's own output for the token before.
func (c *recording) readFeatures() {
	h := c.g.head
	if !c.p.Committed {
		layerkernel.RecordParentFeatures(c.r, c.p.Slots(), h.hidden, h.feature, c.n, c.g.Arch.Dim)
		return
	}
	t := h.target
	dim, out := t.Arch.Dim, kernels.Rows{View: h.feature, Stride: c.g.Arch.Dim}
	for i, tap := range t.taps.views {
		layerkernel.RecordGatherFeatures(c.r, c.p.Rows, h.of.Table, tap, h.tapped, c.n, dim)
		if h.side.Buffer == 0 {
			c.matmul(h.fuse[i], kernels.Rows{View: h.tapped, Stride: dim}, out, i > 0)
		} else {
			layerkernel.RecordStoreFeatures(c.r, h.beside[i], h.tapped, h.joined, c.n, dim)
		}
	}
	if h.side.Buffer == 0 {
		return
	}
	width := arch.Taps * dim
	layerkernel.RecordNorm(c.r, c.g.Kernels.Lanes, h.joined, h.side, h.normed, c.n, width, c.g.eps())
	for i, fuse := range h.fuse {
		c.matmul(fuse, kernels.Rows{View: h.normed, Offset: i * dim, Stride: width}, out, i > 0)
	}
}

// projectFeatures records the projection of the embedding and of the feature.
func (c *recording) projectFeatures(y *layer, qkv kernels.Rows) {
	g, h := c.g, c.g.head
	for _, part := range g.embed.weights {
		layerkernel.RecordEmbed(c.r, part, c.p.Tokens, h.embedded, c.n, 1)
	}
	c.matmul(y.qkv, c.norm(h.embedded, y.mixNorm), qkv, false)
	if g.Arch.Features.NormedSkip {
		layerkernel.RecordNorm(c.r, g.Kernels.Lanes, h.feature, h.norm, g.Space.X, c.n, g.Arch.Dim, g.eps())
		c.matmul(h.qkv, c.stream(), qkv, true)
		return
	}
	c.matmul(h.qkv, c.norm(h.feature, h.norm), qkv, true)
}

// spread records the logits over the draft vocabulary and spreads them over the target's, where tokens unknown to the
// head are impossible.
func (c *recording) spread(x, logits kernels.Rows) {
	h, g := c.g.head, c.g
	c.matmul(g.output, x, kernels.Rows{View: h.logits, Stride: h.stride}, false)
	sample.RecordSpread(c.r, h.ids, h.logits, h.stride, len(g.Arch.Features.Targets), logits, g.Options.Vocab, c.n)
}
