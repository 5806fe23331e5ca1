package llama

import (
	"context"
	"encoding/binary"
	"math"

	"foretoken/models/eagle3"
	"foretoken/models/gguf"
	"foretoken/models/kv"
	"foretoken/models/quant"
	"foretoken/models/safetensors"
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
	target  *Target
	weights *eagle3.Weights
	draft   *Draft

	fuse       [eagle3.Taps]*matrix // fc, one matrix per tap
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
	sample.RecordSpread(r, e.draftIDs, e.draftLogits, e.stride, e.weights.DraftVocab,
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
	m, w := e.Model, e.weights
	l := &headLoader{loading: loading{ctx: ctx, model: m}, file: w.File}
	for name := range w.Shapes() {
		if t, err := w.File.Tensor(name); err == nil {
			l.total += t.Size
			m.params += int64(t.Elements())
		}
	}
	q, kv := w.Heads*w.HeadDim, w.KV*w.HeadDim
	qkv, widths := []string{eagle3.Query, eagle3.Key, eagle3.Value}, []int{q, kv, kv}
	var y decoderLayer
	for i := range e.fuse {
		l.matrix(&e.fuse[i], i*w.TargetHidden, w.TargetHidden, []string{eagle3.FC}, []int{w.Hidden})
	}
	l.matrix(&y.qkv, 0, w.Hidden, qkv, widths)
	l.matrix(&e.featureQKV, w.Hidden, w.Hidden, qkv, widths)
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
	m.quant = string(l.dtype)
	m.layers, m.weightBytes = []decoderLayer{y}, m.bytes
	if err := m.allocate(); err != nil {
		return err
	}
	return e.allocate()
}

// allocate makes the buffers that only a head needs.
func (e *eagleNet) allocate() error {
	rows := max(e.passRows(), maxPrefill)
	e.stride = webgpu.AlignWords(e.weights.DraftVocab)
	sources := make([]uint32, e.weights.Vocab)
	for i := range sources {
		sources[i] = sample.NoSource
	}
	for i, id := range e.weights.Targets {
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

// headLoader uploads a head's tensors and remembers the first error.
type headLoader struct {
	loading
	file   *safetensors.File
	dtype  safetensors.Dtype
	raw    []byte
	floats []float32
	err    error
}

// matrix loads columns [from, from+cols) of tensors as one matrix, stacking their rows. F16 is stored as F16; BF16
// becomes F32, which is exact.
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
		if l.dtype = t.Dtype; t.Dtype != safetensors.F16 {
			format = kernels.F32
		}
		total += rows[i]
	}
	var w *kernels.Weight
	if w, l.err = l.model.newWeight(names[0], format, total, cols); l.err != nil {
		return
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

// upload streams a tensor's rows, from column from on, into a weight from row at on.
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
			l.checkFinite(t, gguf.F16, l.raw, row*all)
			for i := range n {
				line := l.raw[2*(i*all+from):]
				for k := range words {
					out = append(out, binary.LittleEndian.Uint32(line[4*k:]))
				}
			}
		} else {
			l.floats = resize(l.floats, n*all)
			l.err = l.file.Floats(t, l.floats, int64(row)*int64(all))
			l.checkFinite(t, gguf.F32, webgpu.F32Bytes(l.floats), row*all)
			for i := range n {
				for _, v := range l.floats[i*all+from:][:w.Cols] {
					out = append(out, math.Float32bits(v))
				}
			}
		}
		if l.err == nil {
			l.err = l.model.writeRows(w, at+row, n, out, nil)
		}
		l.advance(int64(n) * int64(w.Cols) * t.Size / int64(t.Elements()))
	}
}

// checkFinite is checkFinite for a head's weights, which the loader has as typ.
func (l *headLoader) checkFinite(t *safetensors.TensorInfo, typ gguf.Type, raw []byte, first int) {
	if l.err != nil {
		return
	}
	if err := quant.CheckFinite(typ, raw, first); err != nil {
		l.err = damaged(l.file.Name(), t.Name, err)
	}
}

// vector loads the weights of a norm.
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
		l.checkFinite(t, gguf.F32, webgpu.F32Bytes(x), 0)
	}
	if l.err != nil {
		return
	}
	if *to, l.err = l.model.newBuffer(name, 4*n); l.err == nil && !l.model.planning() {
		l.advance(t.Size)
		l.err = l.model.dev.Write(to.Buffer, 0, webgpu.F32Bytes(x))
	}
}
