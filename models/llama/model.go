// Package llama runs models of the Llama family on a webgpu.Device: it repacks their weights for the device, records
// the forward passes and manages the KV cache through a slot table. Target implements spec.Target, Draft implements
// spec.DraftModel, and EAGLE3 drafts with an EAGLE-3 head.
package llama

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"foretoken/internal/quote"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/kv"
	"foretoken/models/tune"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Options of LoadTarget and LoadDraft. The zero value uses the file's context length, up to 4096, and an f32 KV
// cache.
type Options struct {
	Context int              // positions of the KV cache; 0: the file's context length, at most 4096
	KV      kernels.KVFormat // f16 changes log-probabilities by up to 0.03 nats, q8 by up to 0.3
	Vocab   int              // ids in use, if the matrix is padded; 0: all rows
	MaxRows int              // target: nodes of a tree, up to 1024; draft: rows of a pass, up to 64; 0: 64
	TopK    int              // candidates per row, and so the widest beam; 0: 2 for a target, 16 for a draft
	// Tuning holds choices timed before on the same adapter, see Model.Tuning.
	Tuning map[string]string
	// Progress is called with the bytes of weights loaded; may be nil.
	Progress func(done, total int64)
	// Preparing is called with each step of compiling and timing kernels; may be nil.
	Preparing func(step string)

	// Lean makes loading compile only the kernels of single rows. Warm compiles the rest.
	Lean bool

	trees    bool // MaxRows may exceed onePassRows
	timed    bool // for tests: time software adapters too
	passRows int  // for tests: most rows above onePassRows that run at once; 0: as many as fit
}

// treeSlots is the number of KV slots in addition to the context's, for drafted tokens that are not committed.
const treeSlots = 272

// spareSlots returns the number of KV slots in addition to the context's. A tree of MaxRows nodes fits at any
// length of the sequence.
func (m *Model) spareSlots() int { return max(treeSlots, m.opts.MaxRows) }

// decoderLayer holds the weights of one block.
type decoderLayer struct {
	attnNorm, ffnNorm     kernels.View
	qkv, out, gates, down *matrix
	bias                  kernels.View // of a row of qkv; empty if the family has none
	headNorm              kernels.View // (2, head): of queries and keys; empty if the family has none
}

// Model is one model on one device, with one sequence. It is not safe for concurrent use.
type Model struct {
	dev    webgpu.Device
	cfg    *arch.Model
	opts   Options
	heads  kernels.Heads
	file   string
	quant  string
	params int64

	embed, output *matrix
	outNorm       kernels.View
	layers        []decoderLayer
	rope          kernels.View
	extra         []tune.Matrix // matrices in addition to those of the blocks
	taps          taps

	tuning    *tune.Tuning
	single    bool // record products with the pipelines of single rows, which give the same bits
	work      workspace
	prefill   prefillPrograms
	norms     map[int]webgpu.Program // by bucket, of Hidden
	seq       kv.Sequence
	drawWords [kernels.DrawWords]uint32 // content of work.draw; zeros before the first draw

	buffers  []webgpu.Buffer
	built    []*kernels.Built
	bytes    int64
	waited   time.Duration
	unsynced bool // nothing was read back since the last run

	weightBytes, kvBytes int64 // parts of bytes
}

// load reads a GGUF file onto a device, after plan has found that its caller can make all that it makes: a dry run
// makes nothing. At most one chunk of a tensor is in host memory at a time.
func load(ctx context.Context, dev webgpu.Device, f *gguf.File, o Options,
	plan func(*gguf.File, Options, webgpu.Limits) (Memory, error)) (*Model, error) {
	if _, ok := dev.(*DryRun); !ok {
		if _, err := plan(f, o, dev.Info().Limits); err != nil {
			return nil, err
		}
	}
	cfg, err := arch.Read(f, o.Context)
	if err != nil {
		return nil, err
	}
	m, err := newModel(dev, cfg, f, o)
	if err != nil {
		return nil, err
	}
	if err = m.loadBuffers(ctx, f); err == nil {
		err = m.tune()
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	m.Reset()
	return m, nil
}

// newModel returns a model without buffers.
func newModel(dev webgpu.Device, cfg *arch.Model, f *gguf.File, o Options) (*Model, error) {
	if err := o.complete(cfg, f.Name()); err != nil {
		return nil, err
	}
	return &Model{dev: dev, cfg: cfg, tuning: &tune.Tuning{Lanes: kernels.Serial}, opts: o, file: f.Name(),
		heads: headsOf(cfg.Layers[0].Mix, o.KV), norms: map[int]webgpu.Program{}}, nil
}

func (o *Options) complete(c *arch.Model, file string) error {
	o.Context = cmp.Or(o.Context, min(c.Usable(), arch.DefaultContext))
	if o.Context < 2 || o.Context > c.Context {
		return fmt.Errorf("llama: %s: a context of %d; the model was trained for 2 to %d positions", file, o.Context,
			c.Context)
	}
	if c.Unscaled > 0 && o.Context >= c.Unscaled {
		return fmt.Errorf("llama: %s: a context of %d; want less than %d, because %s.attention.temperature_scale "+
			"is not supported", file, o.Context, c.Unscaled, c.Architecture)
	}
	o.Vocab = cmp.Or(o.Vocab, c.Vocab)
	if err := c.CheckVocab(file, uint64(o.Vocab)); err != nil {
		return err
	}
	o.MaxRows = cmp.Or(o.MaxRows, 64)
	most := onePassRows
	if o.trees {
		most = kv.Buckets[len(kv.Buckets)-1]
	}
	if o.MaxRows < 1 || o.MaxRows > most {
		return fmt.Errorf("llama: %d rows a pass; want 1 to %d", o.MaxRows, most)
	}
	o.MaxRows = kv.Buckets[kv.Bucket(o.MaxRows)]
	o.TopK = min(cmp.Or(o.TopK, 2), o.Vocab)
	if o.TopK < 1 || o.TopK > 64 {
		return fmt.Errorf("llama: %d candidates a row; want 1 to 64", o.TopK)
	}
	return nil
}

// loadBuffers makes the model's buffers and uploads the weights. On a ledger it only counts bytes.
func (m *Model) loadBuffers(ctx context.Context, f *gguf.File) error {
	if err := m.loadWeights(ctx, f, m.place); err != nil {
		return err
	}
	return m.allocate()
}

// loadWeights loads the tensors that the model's description lists to where place says; those of one kind, layer and
// range of columns become one matrix or vector.
func (m *Model) loadWeights(ctx context.Context, f *gguf.File,
	place func(arch.Tensor) (**matrix, *kernels.View)) error {
	l := &loader{loading: loading{ctx: ctx, model: m}, file: f, used: map[string]bool{}}
	kinds := map[string]uint64{}
	for i := range f.Tensors {
		if t := &f.Tensors[i]; t.Type != gguf.I64 {
			l.total += t.Size
			m.params += int64(t.Elements())
			kinds[t.Type.String()] += t.Elements()
		}
	}
	m.quant = dominantType(kinds)
	m.layers = make([]decoderLayer, len(m.cfg.Layers))
	all := slices.Collect(m.cfg.Tensors())
	for n := 0; len(all) > 0; all = all[n:] {
		first := all[0]
		for n = 1; n < len(all) && all[n].Kind == first.Kind && all[n].Layer == first.Layer &&
			all[n].From == first.From; {
			n++
		}
		var err error
		switch matrix, vector := place(first); {
		case matrix != nil:
			*matrix, err = l.matrix(all[:n])
		case vector != nil:
			*vector, err = l.vectors(all[:n])
		default:
			for _, t := range all[:n] {
				l.used[t.GGUF] = true // read with the description
			}
		}
		if err != nil {
			return err
		}
	}
	if m.cfg.Tied {
		m.output = m.embed
	}
	m.weightBytes = m.bytes
	for i := range f.Tensors {
		if name := f.Tensors[i].Name; !l.used[name] {
			return fmt.Errorf("llama: %s: tensor %s is unknown in a %s model; ignoring it would change the output",
				f.Name(), quote.Name(name), m.cfg.Architecture)
		}
	}
	return nil
}

// place returns where a tensor's matrix or vector belongs.
func (m *Model) place(t arch.Tensor) (**matrix, *kernels.View) {
	y := &m.layers[t.Layer]
	switch t.Kind {
	case arch.Embedding:
		return &m.embed, nil
	case arch.Output:
		return &m.output, nil
	case arch.OutputNorm:
		return nil, &m.outNorm
	case arch.MixNorm:
		return nil, &y.attnNorm
	case arch.QKV:
		return &y.qkv, nil
	case arch.QKVBias:
		return nil, &y.bias
	case arch.QKNorm:
		return nil, &y.headNorm
	case arch.MixOut:
		return &y.out, nil
	case arch.FFNNorm:
		return nil, &y.ffnNorm
	case arch.Gates:
		return &y.gates, nil
	case arch.Down:
		return &y.down, nil
	}
	return nil, nil
}

// headsOf returns a layer's attention for the kernels.
func headsOf(a *arch.Attention, kv kernels.KVFormat) kernels.Heads {
	return kernels.Heads{Query: a.Query, KV: a.KV, Dim: a.Dim, Rotary: a.Rotary, HalfSplit: a.HalfSplit,
		Window: a.Window, Format: kv}
}

// dominantType returns the storage type of most weights.
func dominantType(kinds map[string]uint64) string {
	most := ""
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if most == "" || kinds[kind] > kinds[most] {
			most = kind
		}
	}
	return strings.ToUpper(most)
}

// Info describes a loaded model.
type Info struct {
	Name         string            `json:"name"`
	File         string            `json:"file"`
	Architecture string            `json:"architecture"`
	Parameters   int64             `json:"parameters"`
	Quant        string            `json:"quant"`
	Width        int               `json:"width"` // of the residual stream and of embeddings
	Context      int               `json:"context"`
	Vocab        int               `json:"vocab"`
	GPUBytes     int64             `json:"gpu_bytes"`
	Kernels      map[string]string `json:"kernels"`
}

// Info describes the model as loaded.
func (m *Model) Info() Info {
	return Info{Name: m.cfg.Name, File: m.file, Architecture: m.cfg.Architecture, Parameters: m.params, Quant: m.quant,
		Width: m.cfg.Dim, Context: m.opts.Context, Vocab: m.opts.Vocab, GPUBytes: m.bytes, Kernels: m.Tuning()}
}

// Config describes the model.
func (m *Model) Config() *arch.Model { return m.cfg }

// ReadbackTime returns the total time that runs have waited for the device.
func (m *Model) ReadbackTime() time.Duration { return m.waited }

// newBuffer makes a device buffer that Close frees.
func (m *Model) newBuffer(label string, size int) (kernels.View, error) {
	if most := m.dev.Info().Limits.MaxBufferSize; size > most {
		return kernels.View{}, m.tooLarge(label, size, most)
	}
	b, err := m.dev.NewBuffer(label, size, webgpu.Storage)
	if err != nil {
		return kernels.View{}, fmt.Errorf("llama: %s: %s of %d bytes: %w", m.file, label, size, err)
	}
	m.buffers = append(m.buffers, b)
	m.bytes += int64(size)
	return kernels.View{Buffer: b, Size: size}, nil
}

// Close frees the model's device memory and programs.
func (m *Model) Close() {
	for _, b := range m.built {
		b.Free()
	}
	for _, b := range m.buffers {
		m.dev.FreeBuffer(b)
	}
	m.built, m.buffers = nil, nil
}

// run submits programs and waits for the readback of the regions, if there are any.
func (m *Model) run(programs []webgpu.Program, reads ...webgpu.Region) error {
	begin := time.Now()
	err := m.dev.Run(programs, reads...)
	if m.unsynced = len(reads) == 0; !m.unsynced {
		m.waited += time.Since(begin)
	}
	if err == nil {
		m.seq.MarkWritten()
	}
	return err
}

// Sync waits until the device has finished the prefill.
func (m *Model) Sync() error {
	if !m.unsynced {
		return nil
	}
	return m.run(nil, webgpu.Region{Buffer: m.work.x.Buffer, Offset: m.work.x.Offset, Dst: make([]byte, 4)})
}
