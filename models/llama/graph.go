package llama

import (
	"fmt"

	"foretoken/models/arch"
	"foretoken/models/kv"
	"foretoken/models/tune"
	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/attention"
	layerkernel "foretoken/webgpu/kernels/layer"
	"foretoken/webgpu/kernels/matmul"
	"foretoken/webgpu/kernels/sample"
)

// maxPrefill is the largest prefill chunk: two of the widest matrix tiles.
const maxPrefill = 32

// prefillRows returns the prefill chunk. On software adapters one of the widest tiles is as fast and compiles sooner.
func (m *Model) prefillRows() int {
	if m.dev.Info().Software {
		return maxPrefill / 2
	}
	return maxPrefill
}

// onePassRows is the number of rows that every model can run at once. A larger tree runs in parts as large as
// passBytes allows.
const onePassRows = 64

// passBytes bounds each buffer of a workspace for more than onePassRows rows.
const passBytes = 64 << 20

// passRows returns how many rows of a tree run through the blocks at once. Parents precede children, so the keys of
// a part's ancestors are in the cache when the part runs; a larger tree needs no larger workspace.
func (m *Model) passRows() int {
	c, most := m.cfg, min(passBytes, m.dev.Info().Limits.MaxBindingSize)
	widest := max(webgpu.AlignWords(c.Vocab), 2*c.Layers[0].FFN.Width, m.heads.Width(), c.Dim)
	rows := min(m.opts.MaxRows, onePassRows)
	for _, n := range []int{128, 256, 512, m.opts.MaxRows} {
		if n <= m.opts.MaxRows && 4*n*widest <= most && (m.opts.passRows == 0 || n <= m.opts.passRows) {
			rows = max(rows, n)
		}
	}
	return rows
}

// ancestorStride returns the length of a row's list of ancestors, itself included, in the batch pass.
func (m *Model) ancestorStride() int { return min(m.batchRows(), spec.MaxDepth+2) }

// workspace is device memory that the passes share.
type workspace struct {
	x, norm, qkv, att, gates, act kernels.View // activations (passRows, …)
	rounded                       kernels.View // the input of a packed product
	scores                        kernels.View // partial attention results, for as many rows as passBytes allows
	logits                        kernels.View // (passRows, stride)
	stride                        int          // floats per row of logits, a multiple of the binding alignment
	scratch                       kernels.View // of the sampling kernels
	draw                          kernels.View // kernels.DrawParams
	inputs                        kernels.View // input of the batch pass
}

// span returns the most positions that a row attends to in a layer.
func (m *Model) span(layer arch.Layer) int {
	if w := layer.Mix.Window; w > 0 {
		return min(w, m.opts.Context)
	}
	return m.opts.Context
}

// widestSpan returns the most positions that a row attends to in any layer.
func (m *Model) widestSpan() int {
	widest := 0
	for _, layer := range m.cfg.Layers {
		widest = max(widest, m.span(layer))
	}
	return widest
}

func (m *Model) attention(r *kernels.Recorder, layer int, slots kernels.Slots, n int) {
	c, cache, w := m.cfg.Layers[layer], m.seq.Layers[layer], &m.work
	attention.Record(r, headsOf(c.Mix, m.opts.KV), slots, w.qkv, cache.Keys, cache.Values, w.scores, w.att, n,
		m.span(c))
}

// allocate makes the KV cache and the workspace. Their sizes depend only on the configuration, the options and the
// device's limits, so that Plan can compute them without loading.
func (m *Model) allocate() error {
	c, rows, w := m.cfg, max(m.passRows(), maxPrefill), &m.work
	w.stride = webgpu.AlignWords(c.Vocab)
	m.seq = kv.NewSequence(m.dev, m.opts.Context+m.spareSlots())
	if err := m.allocateKV(); err != nil {
		return err
	}
	var err error
	view := func(label string, words int) kernels.View {
		if err != nil {
			return kernels.View{}
		}
		var v kernels.View
		v, err = m.newBinding(label, 4*words)
		return v
	}
	w.x, w.norm = view("residual", rows*c.Dim), view("normalised", rows*matmul.NextStride(c.Dim))
	w.qkv = view("queries, keys, values", rows*m.heads.Width())
	w.att = view("attention", rows*m.heads.Query*m.heads.Dim)
	ffn := c.Layers[0].FFN.Width
	w.gates, w.act = view("gates", rows*2*ffn), view("activations", rows*ffn)
	if widest := m.widestPacked(); widest > 0 {
		w.rounded = view("rounded activations", rows*matmul.PackedWords(widest))
	}
	parts := attention.Scratch(m.heads, m.opts.Context, m.widestSpan())
	scored := min(rows, max(min(passBytes, m.dev.Info().Limits.MaxBindingSize)/(4*max(parts, 1)), 1)) // rows at a time
	w.scores = view("parts of attention", max(scored*parts, tune.TimedRows*kernels.SampleWords(m.opts.TopK)))
	w.logits = view("logits", m.passRows()*w.stride)
	w.scratch = view("sampling scratch", sample.Scratch(m.passRows(), m.opts.Vocab)/4)
	m.seq.Table, w.draw = view("slot table", m.opts.Context), view("draw parameters", kernels.DrawWords)
	m.rope = view("rotary table", m.opts.Context*m.heads.Rotary)
	if err != nil {
		return err
	}
	if w.inputs, err = m.newBuffer("inputs", 4*kv.PassWords(m.batchRows(), m.ancestorStride())); err != nil ||
		m.planning() {
		return err
	}
	rope := c.Layers[0].Mix.Rope
	return m.dev.Write(m.rope.Buffer, 0,
		webgpu.F32Bytes(attention.RopeTable(m.opts.Context, rope.Inverse, rope.Magnitude)))
}

// widestPacked returns the longest row of the weights that have packed products, or 0. It does not ask whether the
// device has them, which a plan does not know.
func (m *Model) widestPacked() int {
	widest := 0
	for _, of := range m.matrices() {
		for _, w := range of.Weights {
			if w.Format.Packed() {
				widest = max(widest, w.Cols)
			}
		}
	}
	return widest
}

// allocateKV makes the KV cache, with one buffer each for the keys and the values of a layer.
func (m *Model) allocateKV() error {
	before := m.bytes
	size := 4 * m.heads.CacheWords(int(m.seq.Padding())+1)
	if most := m.maxBinding(); size > most {
		return m.cacheTooLarge(size, most)
	}
	m.seq.Layers = make([]kv.Layer, len(m.layers))
	for i := range m.seq.Layers {
		cache := &m.seq.Layers[i]
		var err error
		if cache.Keys, err = m.newBinding("keys", size); err != nil {
			return err
		}
		if cache.Values, err = m.newBinding("values", size); err != nil {
			return err
		}
	}
	m.kvBytes = m.bytes - before
	return nil
}

// matmul records a product with each weight of a matrix.
func (m *Model) matmul(r *kernels.Recorder, w *matrix, x, out kernels.Rows, rows int, add bool) {
	for i, part := range w.weights {
		o := out
		o.Offset += w.offsets[i]
		matmul.Record(r, m.familyFor(part, rows), part, x, o, rows, add)
	}
}

// forward records the blocks of a pass of n rows. The residual stream ends up in work.x, the input of finalRows in
// work.norm.
func (m *Model) forward(r *kernels.Recorder, p *kv.Pass, n int) {
	w := &m.work
	slots := p.Slots()
	x := m.embedTokens(r, p, n)
	for i := range m.layers {
		y, after := &m.layers[i], m.outNorm
		if i+1 < len(m.layers) {
			after = m.layers[i+1].attnNorm
		}
		m.project(r, p, i, x, n)
		m.attention(r, i, slots, n)
		x = m.residual(r, y.out, kernels.Rows{View: w.att, Stride: m.heads.Query * m.heads.Dim}, n, y.ffnNorm)
		x = m.residual(r, y.down, m.activate(r, y, x, n), n, after)
		m.tap(r, p, i, n)
	}
}

// norm records the norm of n rows of the model's width and returns its output.
func (m *Model) norm(r *kernels.Recorder, x, gain kernels.View, n int) kernels.Rows {
	layerkernel.RecordNorm(r, m.tuning.Lanes, x, gain, m.work.norm, n, m.cfg.Dim, m.cfg.Eps)
	return kernels.Rows{View: m.work.norm, Stride: m.cfg.Dim}
}

// scaledRows returns the rows in which a product with a fused norm stores x·gain and sums of squares for the next
// product.
func (m *Model) scaledRows() kernels.Rows {
	return kernels.Rows{View: m.work.norm, Stride: matmul.NextStride(m.cfg.Dim)}
}

// embedTokens records the embedding and returns the input of the next product.
func (m *Model) embedTokens(r *kernels.Recorder, p *kv.Pass, n int) kernels.Rows {
	c, w, gain := m.cfg, &m.work, m.layers[0].attnNorm
	if e := m.embed.weights[0]; len(m.embed.weights) == 1 && layerkernel.CanEmbedNext(e) {
		return layerkernel.RecordEmbedNext(r, e, p.Tokens, w.x, n, 1, gain, m.scaledRows(), c.Eps)
	}
	for _, e := range m.embed.weights {
		layerkernel.RecordEmbed(r, e, p.Tokens, w.x, n, 1)
	}
	return m.norm(r, w.x, gain, n)
}

// project records a layer's queries, which go to work.qkv, and its keys and values, which go to the cache.
func (m *Model) project(r *kernels.Recorder, p *kv.Pass, layer int, x kernels.Rows, n int) {
	c, w, h, y, cache := m.cfg, &m.work, m.heads, &m.layers[layer], &m.seq.Layers[layer]
	if q := y.qkv.weights[0]; len(y.qkv.weights) == 1 && y.bias.Buffer == 0 && y.headNorm.Buffer == 0 &&
		m.tuning.Family(q).CanRope(q, h) {
		matmul.RecordRope(r, m.familyFor(q, n), q, h, x, p.Rows, m.rope, w.qkv, cache.Keys, cache.Values, n)
		return
	}
	m.matmul(r, y.qkv, x, kernels.Rows{View: w.qkv, Stride: h.Width()}, n, false)
	if y.headNorm.Buffer != 0 {
		layerkernel.RecordNormHeads(r, m.tuning.Lanes, h, y.headNorm, w.qkv, n, c.Eps)
	}
	attention.RecordRope(r, h, p.Rows, m.rope, y.bias, w.qkv, cache.Keys, cache.Values, n)
}

// residual records a product that is added to the residual stream and the norm of the stream with gain, and returns
// the input of the next product.
func (m *Model) residual(r *kernels.Recorder, w *matrix, x kernels.Rows, n int, gain kernels.View) kernels.Rows {
	stream := kernels.Rows{View: m.work.x, Stride: m.cfg.Dim}
	if m.fusesNorm(w) {
		only := w.weights[0]
		return matmul.RecordNext(r, m.familyFor(only, n), only, x, stream, n, gain, m.scaledRows(), m.cfg.Eps)
	}
	m.matmul(r, w, x, stream, n, true)
	return m.norm(r, m.work.x, gain, n)
}

// fusesNorm reports whether residual needs no separate dispatch for the norm.
func (m *Model) fusesNorm(w *matrix) bool {
	return len(w.weights) == 1 && m.tuning.Family(w.weights[0]).CanNext(w.weights[0])
}

// activate records a layer's gated activation and returns its output.
func (m *Model) activate(r *kernels.Recorder, y *decoderLayer, x kernels.Rows, n int) kernels.Rows {
	w, width := &m.work, m.cfg.Layers[0].FFN.Width
	act := kernels.Rows{View: w.act, Stride: width}
	if g := y.gates.weights[0]; len(y.gates.weights) == 1 && m.tuning.Family(g).CanGate(g) {
		matmul.RecordSiLU(r, m.familyFor(g, n), g, x, act, n)
		return act
	}
	m.matmul(r, y.gates, x, kernels.Rows{View: w.gates, Stride: 2 * width}, n, false)
	layerkernel.RecordSiLU(r, w.gates, w.act, n, width)
	return act
}

// normalise records the output norm of a pass's n rows: the final hidden states in work.norm.
func (m *Model) normalise(r *kernels.Recorder, n int) { m.norm(r, m.work.x, m.outNorm, n) }

// finalRows returns the input that forward leaves for products of the final hidden states.
func (m *Model) finalRows() kernels.Rows {
	if last := m.layers[len(m.layers)-1].down; m.fusesNorm(last) {
		w := last.weights[0]
		return m.tuning.Family(w).Next(w, m.scaledRows(), m.cfg.Eps)
	}
	return kernels.Rows{View: m.work.norm, Stride: m.cfg.Dim}
}

// head records the logits of rows [from, n) of the pass into rows [to, …) of a logits view.
func (m *Model) head(r *kernels.Recorder, from, n int, logits kernels.View, to int) {
	x := m.finalRows()
	x.Offset = from * x.Stride
	m.matmul(r, m.output, x, kernels.Rows{View: logits, Offset: to * m.work.stride, Stride: m.work.stride}, n-from,
		false)
}

// build builds the programs of recorders; Close frees them.
func (m *Model) build(recorders ...*kernels.Recorder) ([]webgpu.Program, error) {
	if err := m.tuning.Err(); err != nil { // of proofs that ran while the programs were recorded
		return nil, fmt.Errorf("llama: %s: %w", m.file, err)
	}
	b, err := kernels.Build(m.dev, recorders...)
	if err != nil {
		return nil, fmt.Errorf("llama: %s: %w", m.file, err)
	}
	m.built = append(m.built, b)
	return b.Programs, nil
}

// buildInto builds one program and stores it.
func buildInto[K comparable](m *Model, programs map[K]webgpu.Program, key K,
	r *kernels.Recorder) (webgpu.Program, error) {
	made, err := m.build(r)
	if err != nil {
		return 0, err
	}
	programs[key] = made[0]
	return made[0], nil
}

// programBatch is a list of programs to build together; their kernels compile in parallel if the device can.
type programBatch struct {
	recorders []*kernels.Recorder
	programs  []*webgpu.Program
	then      []func() // called once all programs are built
}

func (b *programBatch) add(r *kernels.Recorder, to *webgpu.Program) {
	b.recorders, b.programs = append(b.recorders, r), append(b.programs, to)
}

// addTo stores the program in a map.
func addTo[K comparable](b *programBatch, programs map[K]webgpu.Program, key K, r *kernels.Recorder) {
	made := new(webgpu.Program)
	b.add(r, made)
	b.then = append(b.then, func() { programs[key] = *made })
}

func (m *Model) buildBatch(b *programBatch) error {
	if len(b.recorders) == 0 {
		return nil
	}
	made, err := m.build(b.recorders...)
	if err != nil {
		return err
	}
	for i, p := range made {
		*b.programs[i] = p
	}
	for _, f := range b.then {
		f()
	}
	return nil
}

func (m *Model) recorder(label string) *kernels.Recorder {
	r := kernels.NewRecorder(label, m.dev.Info())
	r.Rounded = m.work.rounded
	return r
}
