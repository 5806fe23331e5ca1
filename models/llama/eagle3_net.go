package llama

import (
	"context"
	"encoding/binary"
	"math"

	"foretoken/models/eagle3"
	"foretoken/models/safetensors"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// eagleNet is the network of an EAGLE-3 head. Its one layer reads two rows side by side,
// so its first projection is the sum of two products: layers[0].qkv is the embedding's half, half the
// feature's. layers[0].attnNorm is the embedding's norm.
type eagleNet struct {
	*Model
	target  *Target
	weights *eagle3.Weights
	draft   *Draft

	fuse     [eagle3.Taps]*matrix // fc, by tap
	half     *matrix
	featNorm kernels.View

	tapped   kernels.View // (rows, target's dim): one tap's rows
	embedded kernels.View // (rows, dim)
	hidden   kernels.View // (slots, dim): the layer's output by KV slot
	some     kernels.View // (rows, stride): logits over the draft vocabulary
	stride   int
	sources  kernels.View // u32 (vocab): the draft id of each token
}

var _ network = (*eagleNet)(nil)

// committed tells passes of committed tokens, whose features are the target's, from those of
// drafted ones, whose features are the head's own output for the token before.
func (e *eagleNet) committed(p *pass) bool {
	return p == &e.feeding.batch || e.draft != nil && p == &e.draft.rootPass
}

// forward records a pass of n rows. It ends with the layer's output in work.x and at the rows' slots.
func (e *eagleNet) forward(r *kernels.Recorder, p *pass, n int) {
	c, w, y, lanes := e.cfg, &e.work, &e.layers[0], e.tuning.lanes
	slots := kernels.Slots{Rows: p.rows, Table: w.table, Ancestors: p.ancestors, Stride: p.stride}
	rows := func(v kernels.View, stride int) kernels.Rows { return kernels.Rows{View: v, Stride: stride} }
	if e.committed(p) {
		t := e.target
		for i, tap := range t.taps.views {
			r.GatherFeatures(p.rows, t.work.table, tap, e.tapped, n, t.cfg.Dim)
			e.matmul(r, e.fuse[i], rows(e.tapped, t.cfg.Dim), rows(w.x, c.Dim), n, i > 0)
		}
	} else {
		r.ParentFeatures(slots, e.hidden, w.x, n, c.Dim)
	}
	for _, part := range e.embed.weights {
		r.Embed(part, p.tokens, e.embedded, n)
	}
	qkv := rows(w.qkv, e.heads.Width())
	e.matmul(r, y.qkv, e.norm(r, e.embedded, y.attnNorm, n), qkv, n, false)
	e.matmul(r, e.half, e.norm(r, w.x, e.featNorm, n), qkv, n, true)
	r.Rope(e.heads, p.rows, e.rope, kernels.View{}, w.qkv, y.keys, y.values, n)
	r.Attention(lanes, e.heads, slots, w.qkv, y.keys, y.values, w.scores, w.att, n, e.span())
	x := e.residual(r, y.out, rows(w.att, c.Heads*c.HeadDim), n, y.ffnNorm)
	e.residual(r, y.down, e.activate(r, y, x, n), n, e.outNorm)
	r.StoreFeatures(p.rows, w.x, e.hidden, n, c.Dim)
}

// head records the logits of rows [from, n): over the draft vocabulary, and then over the
// target's, where tokens that the head does not know are impossible.
func (e *eagleNet) head(r *kernels.Recorder, from, n int, logits kernels.View, to int) {
	w, x := &e.work, e.final()
	x.Offset = from * x.Stride
	e.matmul(r, e.output, x, kernels.Rows{View: e.some, Stride: e.stride}, n-from, false)
	r.Spread(e.sources, e.some, e.stride, e.weights.DraftVocab, kernels.Rows{View: logits, Offset: to * w.stride, Stride: w.stride}, e.opts.Vocab, n-from)
}

// load fills the model.
func (e *eagleNet) load(ctx context.Context) error {
	if err := e.lay(ctx); err != nil {
		return err
	}
	m := e.Model
	m.extra = []extra{{e.half, m.work.norm, m.work.qkv}}
	for _, f := range e.fuse {
		m.extra = append(m.extra, extra{f, e.tapped, m.work.x})
	}
	if err := m.tune(); err != nil {
		return err
	}
	m.Reset()
	return nil
}

// lay makes the model's buffers and fills those of weights, as Model.lay does.
func (e *eagleNet) lay(ctx context.Context) error {
	m, w := e.Model, e.weights
	l := &headLoader{ctx: ctx, model: m, file: w.File}
	for name := range w.Shapes() {
		if t, err := w.File.Tensor(name); err == nil {
			l.total += t.Size
			m.params += int64(t.Elements())
		}
	}
	q, kv := w.Heads*w.HeadDim, w.KV*w.HeadDim
	qkv, widths := []string{eagle3.Query, eagle3.Key, eagle3.Value}, []int{q, kv, kv}
	var y layer
	for i := range e.fuse {
		l.matrix(&e.fuse[i], i*w.TargetHidden, w.TargetHidden, []string{eagle3.FC}, []int{w.Hidden})
	}
	l.matrix(&y.qkv, 0, w.Hidden, qkv, widths)
	l.matrix(&e.half, w.Hidden, w.Hidden, qkv, widths)
	l.matrix(&y.out, 0, q, []string{eagle3.Out}, []int{w.Hidden})
	l.matrix(&y.gates, 0, w.Hidden, []string{eagle3.Gate, eagle3.Up}, []int{w.FFN, w.FFN})
	l.matrix(&y.down, 0, w.FFN, []string{eagle3.Down}, []int{w.Hidden})
	l.matrix(&m.output, 0, w.Hidden, []string{eagle3.LMHead}, []int{w.DraftVocab})
	if m.embed = e.target.embed; w.Embedding {
		l.matrix(&m.embed, 0, w.Hidden, []string{eagle3.Embedding}, []int{w.Vocab})
	}
	l.vector(&y.attnNorm, eagle3.EmbeddingNorm, w.Hidden)
	l.vector(&e.featNorm, eagle3.FeatureNorm, w.Hidden)
	l.vector(&y.ffnNorm, eagle3.FFNNorm, w.Hidden)
	l.vector(&m.outNorm, eagle3.OutNorm, w.Hidden)
	if l.err != nil {
		return l.err
	}
	m.quant = string(l.mostly)
	m.layers, m.weightBytes = []layer{y}, m.bytes
	if err := m.allocate(); err != nil {
		return err
	}
	return e.allocate()
}

// allocate makes the buffers that a model's own graph has no use for.
func (e *eagleNet) allocate() error {
	rows := max(e.passRows(), mostPrefill)
	e.stride = alignWords(e.weights.DraftVocab)
	sources := make([]uint32, e.weights.Vocab)
	for i := range sources {
		sources[i] = kernels.NoSource
	}
	for i, id := range e.weights.Targets {
		sources[id] = uint32(i)
	}
	for _, b := range []struct {
		view  *kernels.View
		label string
		words int
	}{
		{&e.tapped, "tapped features", e.inputWords(rows, e.target.cfg.Dim)},
		{&e.embedded, "embedded tokens", rows * e.cfg.Dim},
		{&e.hidden, "hidden states", (int(e.work.trash) + 1) * e.cfg.Dim},
		{&e.some, "draft logits", rows * e.stride},
		{&e.sources, "draft vocabulary", len(sources)},
	} {
		var err error
		if *b.view, err = e.bound(b.label, 4*b.words); err != nil {
			return err
		}
	}
	if e.planning() {
		return nil
	}
	return e.dev.Write(e.sources.Buffer, 0, webgpu.U32Bytes(sources))
}

// headLoader moves a head's tensors to the device and keeps the first error.
type headLoader struct {
	ctx         context.Context
	model       *Model
	file        *safetensors.File
	done, total int64
	mostly      safetensors.Dtype
	raw         []byte
	floats      []float32
	err         error
}

// matrix loads columns [from, from+cols) of tensors as one matrix, rows of the first on top. F16
// stays as it is; BF16 becomes F32, which holds all of it.
func (l *headLoader) matrix(to **matrix, from, cols int, names []string, rows []int) {
	if l.err != nil {
		return
	}
	format, total := kernels.F16, 0
	for i, name := range names {
		t, err := l.file.Tensor(name)
		if err != nil {
			l.err = err
			return
		}
		if l.mostly = t.Dtype; t.Dtype != safetensors.F16 {
			format = kernels.F32
		}
		total += rows[i]
	}
	w := &kernels.Weight{Format: format, Rows: total, Cols: cols}
	bytes, limits := 4*format.WordsPerRow(cols), l.model.dev.Info().Limits
	most := min(limits.MaxBindingSize, limits.MaxBufferSize) / bytes
	for row := 0; row < total; row += most {
		p := kernels.WeightPart{Row0: row, Rows: min(most, total-row)}
		if p.Quants, l.err = l.model.storage(names[0], p.Rows*bytes); l.err != nil {
			return
		}
		w.Parts = append(w.Parts, p)
	}
	at := 0
	for i, name := range names {
		if l.model.planning() {
			break
		}
		t, _ := l.file.Tensor(name)
		l.upload(w, t, at, rows[i], from)
		at += rows[i]
	}
	*to = &matrix{weights: []*kernels.Weight{w}, offsets: []int{0}, rows: total}
}

// upload streams columns from from on of a tensor's rows into a weight from row at on.
func (l *headLoader) upload(w *kernels.Weight, t *safetensors.TensorInfo, at, rows, from int) {
	all, words := int(t.Elements())/rows, w.Format.WordsPerRow(w.Cols)
	step := max(chunkBytes/(4*all), 1)
	for row := 0; row < rows && l.err == nil; row += step {
		if l.err = l.ctx.Err(); l.err != nil {
			return
		}
		n := min(step, rows-row)
		out := make([]uint32, 0, n*words)
		if w.Format == kernels.F16 {
			l.raw = resize(l.raw, 2*n*all)
			l.err = l.file.Read(t, l.raw, 2*int64(row)*int64(all))
			for i := range n {
				line := l.raw[2*(i*all+from):]
				for k := range words {
					out = append(out, binary.LittleEndian.Uint32(line[4*k:]))
				}
			}
		} else {
			l.floats = resize(l.floats, n*all)
			l.err = l.file.Floats(t, l.floats, int64(row)*int64(all))
			for i := range n {
				for _, v := range l.floats[i*all+from:][:w.Cols] {
					out = append(out, math.Float32bits(v))
				}
			}
		}
		for _, p := range w.Parts {
			lo, hi := max(at+row, p.Row0), min(at+row+n, p.Row0+p.Rows)
			if lo < hi && l.err == nil {
				first := lo - at - row
				l.err = l.model.dev.Write(p.Quants.Buffer, (lo-p.Row0)*words*4, webgpu.U32Bytes(out[first*words:(first+hi-lo)*words]))
			}
		}
		l.advance(int64(n) * int64(w.Cols) * t.Size / int64(t.Elements()))
	}
}

// vector loads a norm's weights.
func (l *headLoader) vector(to *kernels.View, name string, n int) {
	if l.err != nil {
		return
	}
	t, err := l.file.Tensor(name, uint64(n))
	if err != nil {
		l.err = err
		return
	}
	x := make([]float32, n)
	if !l.model.planning() {
		l.err = l.file.Floats(t, x, 0)
	}
	if l.err != nil {
		return
	}
	if *to, l.err = l.model.storage(name, 4*n); l.err == nil && !l.model.planning() {
		l.advance(t.Size)
		l.err = l.model.dev.Write(to.Buffer, 0, webgpu.F32Bytes(x))
	}
}

func (l *headLoader) advance(n int64) {
	if l.done += n; l.model.opts.Progress != nil {
		l.model.opts.Progress(l.done, l.total)
	}
}
