package llama

import (
	"fmt"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// buckets are the row counts that programs are recorded for.
var buckets = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}

// prefillRows is the chunk of a prefill: the widest matrix tile. On software adapters
// that tile gains nothing over half of it and takes a quarter of a second to compile.
func (m *Model) prefillRows() int {
	if m.dev.Info().Software {
		return 16
	}
	return 32
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
	tokens    kernels.View // u32 (rows)
	drawn     kernels.View // u32 (rows): the position each row draws for
	rows      kernels.View // u32 (rows, kernels.RowWords)
	ancestors kernels.View // u32 (rows, stride)
	stride    int
	words     []uint32 // the host's copy, in the layout of the buffer
	at        int      // byte offset of the pass in the input buffer
	capacity  int
}

// alignWords rounds words up to a binding's alignment.
func alignWords(n int) int {
	const a = webgpu.BindingAlign / 4
	return (n + a - 1) / a * a
}

// passWords is the size of a pass of capacity rows.
func passWords(capacity, stride int) int {
	return 2*alignWords(capacity) + alignWords(capacity*kernels.RowWords) + alignWords(capacity*stride)
}

// newPass lays a pass of capacity rows out at byte offset at of a buffer.
func newPass(buffer webgpu.Buffer, at, capacity, stride int) pass {
	p := pass{at: at, capacity: capacity, stride: stride, words: make([]uint32, passWords(capacity, stride))}
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
	copy(p.words[2*row+i*kernels.RowWords:], []uint32{uint32(position), slot, uint32(shared), 0})
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

// workspace is the device memory that passes share.
type workspace struct {
	x, norm, qkv, att, gates, act kernels.View // activations (MaxRows, …)
	scores                        kernels.View // (MaxRows, heads, context)
	logits                        kernels.View // (MaxRows, stride)
	stride                        int          // floats of a row of logits, a whole number of binding alignments
	scratch                       kernels.View // of the sampling kernels
	table                         kernels.View // the sequence's slots (context)
	draw                          kernels.View // kernels.DrawParams
	inputs                        kernels.View // passes
	trash                         uint32       // the slot that padding rows write to
}

// allocate makes the KV cache and the workspace.
func (m *Model) allocate() error {
	c, rows, w := m.cfg, m.batchRows(), &m.work
	w.stride = alignWords(c.Vocab)
	w.trash = uint32(m.opts.Context + treeSlots)
	var err error
	view := func(label string, words int) kernels.View {
		if err != nil {
			return kernels.View{}
		}
		var v kernels.View
		v, err = m.storage(label, 4*words)
		return v
	}
	kvWords := m.heads.Format.Words((int(w.trash) + 1) * c.KV * c.HeadDim)
	for i := range m.layers {
		m.layers[i].keys = view("keys", kvWords)
		m.layers[i].values = view("values", kvWords)
	}
	w.x, w.norm = view("residual", rows*c.Dim), view("normalised", rows*c.Dim)
	w.qkv, w.att = view("queries, keys, values", rows*m.heads.Width()), view("attention", rows*c.Heads*c.HeadDim)
	w.gates, w.act = view("gates", rows*2*c.FFN), view("activations", rows*c.FFN)
	w.scores = view("attention scores", rows*c.Heads*m.opts.Context)
	w.logits = view("logits", m.opts.MaxRows*w.stride)
	w.scratch = view("sampling scratch", kernels.SampleScratch(m.opts.MaxRows, m.opts.Vocab)/4)
	w.table, w.draw = view("slot table", m.opts.Context), view("draw parameters", kernels.DrawWords)
	m.rope = view("rotary table", m.opts.Context*c.Rotary)
	w.inputs = view("inputs", passWords(m.batchRows(), m.batchRows()))
	if err != nil {
		return err
	}
	return m.dev.Write(m.rope.Buffer, 0, webgpu.F32Bytes(kernels.RopeTable(m.opts.Context, c.Inverse)))
}

// matmul records a product with each weight of a matrix.
func (m *Model) matmul(r *kernels.Recorder, w *matrix, x, out kernels.Rows, rows int, add bool) {
	for i, part := range w.weights {
		o := out
		o.Offset += w.offsets[i]
		r.MatMul(m.tuning.family(part), part, x, o, rows, add)
	}
}

// forward records the blocks of a pass of n rows; it ends with the residual stream in work.x.
func (m *Model) forward(r *kernels.Recorder, p *pass, n int) {
	c, w, lanes := m.cfg, &m.work, m.tuning.lanes
	slots := kernels.Slots{Rows: p.rows, Table: w.table, Ancestors: p.ancestors, Stride: p.stride}
	rows := func(v kernels.View, stride int) kernels.Rows { return kernels.Rows{View: v, Stride: stride} }
	for _, e := range m.embed.weights {
		r.Embed(e, p.tokens, w.x, n)
	}
	for i := range m.layers {
		y := &m.layers[i]
		r.RMSNorm(lanes, w.x, y.attnNorm, w.norm, n, c.Dim, c.Eps)
		m.matmul(r, y.qkv, rows(w.norm, c.Dim), rows(w.qkv, m.heads.Width()), n, false)
		r.Rope(m.heads, p.rows, m.rope, w.qkv, y.keys, y.values, n)
		r.Attention(lanes, m.heads, slots, w.qkv, y.keys, y.values, w.scores, w.att, n, m.opts.Context)
		m.matmul(r, y.out, rows(w.att, c.Heads*c.HeadDim), rows(w.x, c.Dim), n, true)
		r.RMSNorm(lanes, w.x, y.ffnNorm, w.norm, n, c.Dim, c.Eps)
		m.matmul(r, y.gates, rows(w.norm, c.Dim), rows(w.gates, 2*c.FFN), n, false)
		r.SiLUMul(w.gates, w.act, n, c.FFN)
		m.matmul(r, y.down, rows(w.act, c.FFN), rows(w.x, c.Dim), n, true)
	}
}

// head records the logits of rows [from, n) of the pass into rows [to, …) of a logits view.
func (m *Model) head(r *kernels.Recorder, from, n int, logits kernels.View, to int) {
	c, w := m.cfg, &m.work
	r.RMSNorm(m.tuning.lanes, w.x, m.outNorm, w.norm, n, c.Dim, c.Eps)
	m.matmul(r, m.output, kernels.Rows{View: w.norm, Offset: from * c.Dim, Stride: c.Dim},
		kernels.Rows{View: logits, Offset: to * w.stride, Stride: w.stride}, n-from, false)
}

// build makes the programs of recorders and keeps them until Close.
func (m *Model) build(recorders ...*kernels.Recorder) ([]webgpu.Program, error) {
	b, err := kernels.Build(m.dev, recorders...)
	if err != nil {
		return nil, fmt.Errorf("llama: %s: %w", m.file, err)
	}
	m.built = append(m.built, b)
	return b.Programs, nil
}

func (m *Model) recorder(label string) *kernels.Recorder {
	return kernels.NewRecorder(label, m.dev.Info().Limits)
}
