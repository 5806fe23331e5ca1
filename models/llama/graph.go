package llama

import (
	"fmt"

	"foretoken/spec"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// buckets are the row counts that programs are recorded for.
var buckets = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024}

// mostPrefill is the largest chunk of a prefill: the widest matrix tile.
const mostPrefill = 32

// prefillRows is the chunk of a prefill: the widest matrix tile. On software adapters
// that tile gains nothing over half of it and takes a quarter of a second to compile.
func (m *Model) prefillRows() int {
	if m.dev.Info().Software {
		return mostPrefill / 2
	}
	return mostPrefill
}

// bucket is the index of the smallest bucket that holds n rows.
func bucket(n int) int {
	for i, b := range buckets {
		if n <= b {
			return i
		}
	}
	panic(fmt.Sprintf("llama: no bucket for %d rows", n))
}

// pass is the input of one forward pass: small buffers written before the run.
// They lie in one buffer, so that one write fills them.
type pass struct {
	seq       *sequence    // whose table the rows attend through
	tokens    kernels.View // u32 (rows)
	drawn     kernels.View // u32 (rows): the position each row draws for
	rows      kernels.View // u32 (rows, kernels.RowWords)
	ancestors kernels.View // u32 (rows, stride)
	stride    int
	words     []uint32 // the host's copy, in the layout of the buffer
	at        int      // byte offset of the pass in the input buffer
	capacity  int
}

// mostTogether is the most rows that every model runs at once. Larger trees go through the
// blocks in as large parts as passBytes allow.
const mostTogether = 64

// passBytes bounds each buffer of a workspace that holds more rows than mostTogether.
const passBytes = 64 << 20

// passRows is how many rows of a tree go through the blocks at once. Parents precede children, so
// the keys of a part's ancestors are in the cache when its turn comes, and a larger tree needs no
// larger workspace.
func (m *Model) passRows() int {
	c, most := m.cfg, min(passBytes, m.dev.Info().Limits.MaxBindingSize)
	widest := max(alignWords(c.Vocab), 2*c.FFN, m.heads.Width(), c.Dim)
	rows := min(m.opts.MaxRows, mostTogether)
	for _, n := range []int{128, 256, 512, m.opts.MaxRows} {
		if n <= m.opts.MaxRows && 4*n*widest <= most && (m.opts.passRows == 0 || n <= m.opts.passRows) {
			rows = max(rows, n)
		}
	}
	return rows
}

// ancestorStride is how many slots a row of the batch pass has for its ancestors and itself.
func (m *Model) ancestorStride() int { return min(m.batchRows(), spec.MaxDepth+2) }

// alignWords rounds words up to a binding's alignment.
func alignWords(n int) int {
	const a = webgpu.BindingAlign / 4
	return (n + a - 1) / a * a
}

// passWords is the size of a pass of capacity rows.
func passWords(capacity, stride int) int {
	return 2*alignWords(capacity) + alignWords(capacity*kernels.RowWords) + alignWords(capacity*stride)
}

// newPass lays a pass of capacity rows over a sequence out at byte offset at of a buffer.
func newPass(seq *sequence, buffer webgpu.Buffer, at, capacity, stride int) pass {
	p := pass{seq: seq, at: at, capacity: capacity, stride: stride, words: make([]uint32, passWords(capacity, stride))}
	view := func(words int) kernels.View {
		v := kernels.View{Buffer: buffer, Offset: at, Size: 4 * words}
		at += 4 * alignWords(words)
		return v
	}
	p.tokens, p.drawn = view(capacity), view(capacity)
	p.rows, p.ancestors = view(capacity*kernels.RowWords), view(capacity*stride)
	return p
}

// set fills row i. ancestors are the slots of positions from shared on, the row's own last.
func (p *pass) set(i int, token int32, position int, slot uint32, shared int, ancestors ...uint32) {
	row := alignWords(p.capacity)
	p.words[i] = uint32(token)
	p.words[row+i] = uint32(position + 1)
	copy(p.words[2*row+i*kernels.RowWords:], []uint32{uint32(position), slot, uint32(shared), uint32(min(shared, p.seq.straight()))})
	list := 2*row + alignWords(p.capacity*kernels.RowWords) + i*p.stride
	copy(p.words[list:list+p.stride], ancestors)
}

// pad fills rows that a bucket has and the pass does not need: they attend to a
// slot that belongs to no position.
func (p *pass) pad(from, to int, trash uint32) {
	for i := from; i < to; i++ {
		p.set(i, 0, 0, trash, 0, trash)
	}
}

// write hands the pass to the device.
func (p *pass) write(dev webgpu.Device, buffer webgpu.Buffer) error {
	return dev.Write(buffer, p.at, webgpu.U32Bytes(p.words))
}

// rowsFrom is the pass without its first rows, for recording. from must be a multiple of 64, so that
// the views are aligned as bindings must be.
func (p *pass) rowsFrom(from int) *pass {
	q := *p
	for v, words := range map[*kernels.View]int{&q.tokens: 1, &q.drawn: 1, &q.rows: kernels.RowWords, &q.ancestors: p.stride} {
		*v = viewFrom(*v, from*words)
	}
	return &q
}

// viewFrom is a view without its first words.
func viewFrom(v kernels.View, words int) kernels.View {
	return kernels.View{Buffer: v.Buffer, Offset: v.Offset + 4*words, Size: v.Size - 4*words}
}

// workspace is the device memory that passes share.
type workspace struct {
	x, norm, qkv, att, gates, act kernels.View // activations (passRows, …)
	scores                        kernels.View // what attention makes of blocks of positions, for the rows that fit passBytes
	logits                        kernels.View // (passRows, stride)
	stride                        int          // floats of a row of logits, a whole number of binding alignments
	scratch                       kernels.View // of the sampling kernels
	table                         kernels.View // the sequence's slots (context)
	draw                          kernels.View // kernels.DrawParams
	inputs                        kernels.View // passes
	trash                         uint32       // the slot that padding rows write to
}

// span is how many positions a row attends to at most.
func (m *Model) span() int {
	if w := m.cfg.Window; w > 0 && m.cfg.Slides == nil {
		return min(w, m.opts.Context)
	}
	return m.opts.Context
}

// attention records a layer's.
func (m *Model) attention(r *kernels.Recorder, layer int, slots kernels.Slots, n int) {
	h, y, w, span := m.heads, &m.layers[layer], &m.work, m.span()
	switch s := m.cfg.Slides; {
	case s != nil && s[layer]:
		span = min(h.Window, span)
	case s != nil:
		h.Window = 0
	}
	r.Attention(m.tuning.lanes, h, slots, w.qkv, y.keys, y.values, w.scores, w.att, n, span)
}

// allocate makes the KV cache and the workspace. What it makes follows from the configuration, the options and the
// device's limits, so that Plan can tell beforehand.
func (m *Model) allocate() error {
	c, rows, w := m.cfg, max(m.passRows(), mostPrefill), &m.work
	w.stride = alignWords(c.Vocab)
	w.trash = uint32(m.opts.Context + m.spareSlots())
	if err := m.allocateKV(); err != nil {
		return err
	}
	var err error
	view := func(label string, words int) kernels.View {
		if err != nil {
			return kernels.View{}
		}
		var v kernels.View
		v, err = m.bound(label, 4*words)
		return v
	}
	w.x, w.norm = view("residual", rows*c.Dim), view("normalised", m.inputWords(rows, kernels.NextStride(c.Dim)))
	w.qkv, w.att = view("queries, keys, values", rows*m.heads.Width()), view("attention", m.inputWords(rows, c.Heads*c.HeadDim))
	w.gates, w.act = view("gates", rows*2*c.FFN), view("activations", m.inputWords(rows, c.FFN))
	parts := m.heads.AttentionScratch(m.opts.Context, m.span())
	scored := min(rows, max(min(passBytes, m.dev.Info().Limits.MaxBindingSize)/(4*max(parts, 1)), 1)) // rows at a time
	w.scores = view("parts of attention", max(scored*parts, tuneRows*kernels.SampleWords(m.opts.TopK)))
	w.logits = view("logits", m.passRows()*w.stride)
	w.scratch = view("sampling scratch", kernels.SampleScratch(m.passRows(), m.opts.Vocab)/4)
	w.table, w.draw = view("slot table", m.opts.Context), view("draw parameters", kernels.DrawWords)
	m.rope = view("rotary table", m.opts.Context*c.Rotary)
	if err != nil {
		return err
	}
	if w.inputs, err = m.storage("inputs", 4*passWords(m.batchRows(), m.ancestorStride())); err != nil || m.planning() {
		return err
	}
	return m.dev.Write(m.rope.Buffer, 0, webgpu.F32Bytes(kernels.RopeTable(m.opts.Context, c.Inverse, c.Magnitude)))
}

// inputWords is how large a buffer of rows of so many words is made that products read: kernels.Window where all of a model's
// fit into it, so that its products have the same kernels, which know the size.
func (m *Model) inputWords(rows, words int) int {
	widest := max(kernels.NextStride(m.cfg.Dim), m.cfg.Heads*m.cfg.HeadDim, m.cfg.FFN, words)
	if 4*rows*widest <= kernels.Window && kernels.Window <= m.mostBound() {
		return kernels.Window / 4
	}
	return rows * words
}

// allocateKV makes the KV cache: keys and values of each layer are a buffer each.
func (m *Model) allocateKV() error {
	before := m.bytes
	size := 4 * m.heads.CacheWords(int(m.work.trash)+1)
	if most := m.mostBound(); size > most {
		return m.cacheTooLarge(size, most)
	}
	for i := range m.layers {
		var err error
		if m.layers[i].keys, err = m.bound("keys", size); err != nil {
			return err
		}
		if m.layers[i].values, err = m.bound("values", size); err != nil {
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
		r.MatMul(m.familyFor(part, rows), part, x, o, rows, add)
	}
}

// forward records the blocks of a pass of n rows; it ends with the residual stream in work.x and what
// final gives in work.norm.
func (m *Model) forward(r *kernels.Recorder, p *pass, n int) {
	c, w := m.cfg, &m.work
	slots := kernels.Slots{Rows: p.rows, Table: w.table, Ancestors: p.ancestors, Stride: p.stride}
	x := m.look(r, p, n)
	for i := range m.layers {
		y, after := &m.layers[i], m.outNorm
		if i+1 < len(m.layers) {
			after = m.layers[i+1].attnNorm
		}
		m.project(r, p, y, x, n)
		m.attention(r, i, slots, n)
		x = m.residual(r, y.out, kernels.Rows{View: w.att, Stride: c.Heads * c.HeadDim}, n, y.ffnNorm)
		x = m.residual(r, y.down, m.activate(r, y, x, n), n, after)
		m.tap(r, p, i, n)
	}
}

// norm records the norm of rows of the model's width, and is where it lies.
func (m *Model) norm(r *kernels.Recorder, x, gain kernels.View, n int) kernels.Rows {
	r.RMSNorm(m.tuning.lanes, x, gain, m.work.norm, n, m.cfg.Dim, m.cfg.Eps)
	return kernels.Rows{View: m.work.norm, Stride: m.cfg.Dim}
}

// scaled is where products leave what those of their norm read.
func (m *Model) scaled() kernels.Rows {
	return kernels.Rows{View: m.work.norm, Stride: kernels.NextStride(m.cfg.Dim)}
}

// look records the embedding, and is what products of its norm read.
func (m *Model) look(r *kernels.Recorder, p *pass, n int) kernels.Rows {
	c, w, gain := m.cfg, &m.work, m.layers[0].attnNorm
	if e := m.embed.weights[0]; len(m.embed.weights) == 1 && kernels.CanEmbedNext(e) {
		return r.EmbedNext(e, p.tokens, w.x, n, gain, m.scaled(), c.Eps)
	}
	for _, e := range m.embed.weights {
		r.Embed(e, p.tokens, w.x, n)
	}
	return m.norm(r, w.x, gain, n)
}

// project records a layer's queries, which it leaves in work.qkv, keys and values, which go to the cache.
func (m *Model) project(r *kernels.Recorder, p *pass, y *layer, x kernels.Rows, n int) {
	c, w, h := m.cfg, &m.work, m.heads
	if q := y.qkv.weights[0]; len(y.qkv.weights) == 1 && y.bias.Buffer == 0 && !c.HeadNorm && m.tuning.family(q).CanRope(q, h) {
		r.MatMulRope(m.familyFor(q, n), q, h, x, p.rows, m.rope, w.qkv, y.keys, y.values, n)
		return
	}
	m.matmul(r, y.qkv, x, kernels.Rows{View: w.qkv, Stride: h.Width()}, n, false)
	if c.HeadNorm {
		r.NormHeads(m.tuning.lanes, h, y.headNorm, w.qkv, n, c.Eps)
	}
	r.Rope(h, p.rows, m.rope, y.bias, w.qkv, y.keys, y.values, n)
}

// residual records a product that is added to the residual stream, and is what products of the stream's norm
// with that gain read.
func (m *Model) residual(r *kernels.Recorder, w *matrix, x kernels.Rows, n int, gain kernels.View) kernels.Rows {
	stream := kernels.Rows{View: m.work.x, Stride: m.cfg.Dim}
	if m.scales(w) {
		only := w.weights[0]
		return r.MatMulNext(m.familyFor(only, n), only, x, stream, n, gain, m.scaled(), m.cfg.Eps)
	}
	m.matmul(r, w, x, stream, n, true)
	return m.norm(r, m.work.x, gain, n)
}

// scales reports whether residual needs no dispatch for the norm.
func (m *Model) scales(w *matrix) bool {
	return len(w.weights) == 1 && m.tuning.family(w.weights[0]).CanNext(w.weights[0])
}

// activate records a layer's gated activation, and is where it lies.
func (m *Model) activate(r *kernels.Recorder, y *layer, x kernels.Rows, n int) kernels.Rows {
	c, w := m.cfg, &m.work
	act := kernels.Rows{View: w.act, Stride: c.FFN}
	if g := y.gates.weights[0]; len(y.gates.weights) == 1 && m.tuning.family(g).CanGate(g) {
		r.MatMulSiLU(m.familyFor(g, n), g, x, act, n)
		return act
	}
	m.matmul(r, y.gates, x, kernels.Rows{View: w.gates, Stride: 2 * c.FFN}, n, false)
	r.SiLUMul(w.gates, w.act, n, c.FFN)
	return act
}

// normalise records the final hidden states of a pass's n rows, after the output norm, in work.norm.
func (m *Model) normalise(r *kernels.Recorder, n int) { m.norm(r, m.work.x, m.outNorm, n) }

// final is what forward leaves for products of the final hidden states.
func (m *Model) final() kernels.Rows {
	if last := m.layers[len(m.layers)-1].down; m.scales(last) {
		w := last.weights[0]
		return m.tuning.family(w).Next(w, m.scaled(), m.cfg.Eps)
	}
	return kernels.Rows{View: m.work.norm, Stride: m.cfg.Dim}
}

// head records the logits of rows [from, n) of the pass into rows [to, …) of a logits view.
func (m *Model) head(r *kernels.Recorder, from, n int, logits kernels.View, to int) {
	x := m.final()
	x.Offset = from * x.Stride
	m.matmul(r, m.output, x, kernels.Rows{View: logits, Offset: to * m.work.stride, Stride: m.work.stride}, n-from, false)
}

// build makes the programs of recorders and keeps them until Close.
func (m *Model) build(recorders ...*kernels.Recorder) ([]webgpu.Program, error) {
	if err := m.tuning.err; err != nil { // of what was checked while they were recorded
		m.tuning.err = nil
		return nil, fmt.Errorf("llama: %s: %w", m.file, err)
	}
	b, err := kernels.Build(m.dev, recorders...)
	if err != nil {
		return nil, fmt.Errorf("llama: %s: %w", m.file, err)
	}
	m.built = append(m.built, b)
	return b.Programs, nil
}

func (m *Model) recorder(label string) *kernels.Recorder {
	return kernels.NewRecorder(label, m.dev.Info())
}
