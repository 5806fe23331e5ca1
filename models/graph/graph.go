// Package graph puts a model on a device. It loads the weights that an arch.Model lists, allocates the workspace and
// the KV cache, chooses kernels, and records passes: it walks the typed parts of the model's layers and fuses
// dispatches where kernels allow it. On a ledger or a dry run the same code counts bytes or lists kernels.
package graph

import (
	"foretoken/models/arch"
	"foretoken/models/kv"
	"foretoken/models/tune"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	layerkernel "foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/kernels/matmul"
)

// Graph is a model on a device: its weights, the workspace that its passes share and the kernels chosen for it. The
// sequences that passes read and extend are their callers'. It is not safe for concurrent use.
type Graph struct {
	*Resources
	Arch    *arch.Model
	Options Options // complete
	Kernels *tune.Tuning
	Space   Workspace
	Single  bool // record products with the pipelines of single rows, which give the same bits

	embed, output *matrix
	outNorm       kernels.View
	layers        []layer
	ropes         map[*arch.Rope]kernels.View
	taps          taps
	head          *head // nil unless the model is a head

	params               int64
	quant                string
	weightBytes, kvBytes int64 // parts of Bytes
}

// layer holds the weights of one block. A vector that the architecture lacks is empty.
type layer struct {
	mixNorm, ffnNorm      kernels.View
	qkv, out, gates, down *matrix
	bias                  kernels.View // of a row of qkv
	qkNorm                kernels.View // of queries, then of keys
	heads                 kernels.Heads
	span                  int // most positions that a row attends to
	width                 int // of the feed-forward network
	rope                  *arch.Rope
}

// attended returns the rows of the attention's output.
func (g *Graph) attended(y *layer) kernels.Rows {
	return kernels.Rows{View: g.Space.att, Stride: y.heads.Query * y.heads.Dim}
}

// matmul records a product with each weight of a matrix.
func (g *Graph) matmul(r *kernels.Recorder, w *matrix, x, out kernels.Rows, rows int, add bool) {
	for i, part := range w.weights {
		o := out
		o.Offset += w.offsets[i]
		matmul.Record(r, g.familyFor(part, rows), part, x, o, rows, add)
	}
}

// Forward records the blocks of a pass of n rows. The residual stream ends up in Space.X, the input of Head in
// Space.Norm.
func (g *Graph) Forward(r *kernels.Recorder, p *kv.Pass, n int) {
	slots := p.Slots()
	var x kernels.Rows
	if g.head == nil {
		x = g.embedTokens(r, p, n)
	} else {
		g.readFeatures(r, p, n)
	}
	for i := range g.layers {
		y, w, after, cache := &g.layers[i], &g.Space, g.outNorm, p.Cache(i)
		if i+1 < len(g.layers) {
			after = g.layers[i+1].mixNorm
		}
		g.project(r, p, y, cache, x, n)
		attention.Record(r, y.heads, slots, w.qkv, cache.Keys, cache.Values, w.scores, w.att, n, y.span)
		x = g.residual(r, y.out, g.attended(y), n, y.ffnNorm)
		x = g.residual(r, y.down, g.activate(r, y, x, n), n, after)
		g.tap(r, p, i, n)
	}
}

// norm records the norm of n rows of the model's width and returns its output.
func (g *Graph) norm(r *kernels.Recorder, x, gain kernels.View, n int) kernels.Rows {
	layerkernel.RecordNorm(r, g.Kernels.Lanes, x, gain, g.Space.Norm, n, g.Arch.Dim, g.Arch.Eps)
	return kernels.Rows{View: g.Space.Norm, Stride: g.Arch.Dim}
}

// scaledRows returns the rows in which a product with a fused norm stores x·gain and sums of squares for the next
// product.
func (g *Graph) scaledRows() kernels.Rows {
	return kernels.Rows{View: g.Space.Norm, Stride: matmul.NextStride(g.Arch.Dim)}
}

// embedTokens records the embedding and returns the input of the next product.
func (g *Graph) embedTokens(r *kernels.Recorder, p *kv.Pass, n int) kernels.Rows {
	w, gain := &g.Space, g.layers[0].mixNorm
	if e := g.embed.weights[0]; len(g.embed.weights) == 1 && layerkernel.CanEmbedNext(e) {
		return layerkernel.RecordEmbedNext(r, e, p.Tokens, w.X, n, 1, gain, g.scaledRows(), g.Arch.Eps)
	}
	for _, e := range g.embed.weights {
		layerkernel.RecordEmbed(r, e, p.Tokens, w.X, n, 1)
	}
	return g.norm(r, w.X, gain, n)
}

// project records a layer's queries, which go to Space.qkv, and its keys and values, which go to the cache.
func (g *Graph) project(r *kernels.Recorder, p *kv.Pass, y *layer, cache kv.Layer, x kernels.Rows, n int) {
	w, h, rope := &g.Space, y.heads, g.ropes[y.rope]
	if q := y.qkv.weights[0]; len(y.qkv.weights) == 1 && y.bias.Buffer == 0 && y.qkNorm.Buffer == 0 && g.head == nil &&
		g.Kernels.Family(q).CanRope(q, h) {
		matmul.RecordRope(r, g.familyFor(q, n), q, h, x, p.Rows, rope, w.qkv, cache.Keys, cache.Values, n)
		return
	}
	qkv := kernels.Rows{View: w.qkv, Stride: h.Width()}
	if g.head == nil {
		g.matmul(r, y.qkv, x, qkv, n, false)
	} else {
		g.projectFeatures(r, p, y, qkv, n)
	}
	if y.qkNorm.Buffer != 0 {
		layerkernel.RecordNormHeads(r, g.Kernels.Lanes, h, y.qkNorm, w.qkv, n, g.Arch.Eps)
	}
	attention.RecordRope(r, h, p.Rows, rope, y.bias, w.qkv, cache.Keys, cache.Values, n)
}

// residual records a product that is added to the residual stream and the norm of the stream with gain, and returns
// the input of the next product.
func (g *Graph) residual(r *kernels.Recorder, w *matrix, x kernels.Rows, n int, gain kernels.View) kernels.Rows {
	stream := kernels.Rows{View: g.Space.X, Stride: g.Arch.Dim}
	if g.fusesNorm(w) {
		only := w.weights[0]
		return matmul.RecordNext(r, g.familyFor(only, n), only, x, stream, n, gain, g.scaledRows(), g.Arch.Eps)
	}
	g.matmul(r, w, x, stream, n, true)
	return g.norm(r, g.Space.X, gain, n)
}

// fusesNorm reports whether residual needs no separate dispatch for the norm.
func (g *Graph) fusesNorm(w *matrix) bool {
	return len(w.weights) == 1 && g.Kernels.Family(w.weights[0]).CanNext(w.weights[0])
}

// activate records a layer's gated activation and returns its output.
func (g *Graph) activate(r *kernels.Recorder, y *layer, x kernels.Rows, n int) kernels.Rows {
	w, act := &g.Space, kernels.Rows{View: g.Space.act, Stride: y.width}
	if up := y.gates.weights[0]; len(y.gates.weights) == 1 && g.Kernels.Family(up).CanGate(up) {
		matmul.RecordSiLU(r, g.familyFor(up, n), up, x, act, n)
		return act
	}
	g.matmul(r, y.gates, x, kernels.Rows{View: w.gates, Stride: 2 * y.width}, n, false)
	layerkernel.RecordSiLU(r, w.gates, w.act, n, y.width)
	return act
}

// Normalise records the output norm of a pass's n rows: the final hidden states, (n, Arch.Dim), in Space.Norm.
func (g *Graph) Normalise(r *kernels.Recorder, n int) { g.norm(r, g.Space.X, g.outNorm, n) }

// finalRows returns the input that Forward leaves for products of the final hidden states.
func (g *Graph) finalRows() kernels.Rows {
	if last := g.layers[len(g.layers)-1].down; g.fusesNorm(last) {
		w := last.weights[0]
		return g.Kernels.Family(w).Next(w, g.scaledRows(), g.Arch.Eps)
	}
	return kernels.Rows{View: g.Space.Norm, Stride: g.Arch.Dim}
}

// Head records the logits of rows [from, n) of a pass into rows [to, …) of Space.Logits.
func (g *Graph) Head(r *kernels.Recorder, from, n, to int) {
	w, x := &g.Space, g.finalRows()
	x.Offset = from * x.Stride
	logits := kernels.Rows{View: w.Logits, Offset: to * w.Stride, Stride: w.Stride}
	if g.head != nil {
		g.spread(r, x, logits, n-from)
		return
	}
	g.matmul(r, g.output, x, logits, n-from, false)
}

// LogitRows returns the first n rows of logits.
func (g *Graph) LogitRows(n int) kernels.Logits {
	return kernels.Logits{View: g.Space.Logits, Rows: n, Vocab: g.Options.Vocab, Stride: g.Space.Stride}
}
