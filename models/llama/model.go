package llama

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"foretoken/models/gguf"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Options of LoadTarget and LoadDraft. The zero value loads with the file's own context and f32 KV.
type Options struct {
	Context int              // positions of the KV cache; 0: the file's context length, at most 4096
	Beyond  bool             // Context may be longer than the model was trained for: to time it, the text there is worth nothing
	KV      kernels.KVFormat // f16 moves log-probabilities by up to 0.03 nats, q8 by up to 0.3
	Vocab   int              // ids that take part, where the matrix is padded; 0: all rows
	MaxRows int              // nodes of a tree to verify, up to 1024 for a target; rows of a draft's pass, up to 64. 0: 64
	TopK    int              // candidates a row returns, and so the largest beam; 0: 2 for a target, 16 for a draft
	Memory  int64            // bytes that loading may allocate on the device, see Plan; 0: as many as the device gives
	// Tuning holds choices measured before on the same adapter, see Model.Tuning.
	Tuning map[string]string
	// Progress is told the bytes of weights loaded.
	Progress func(done, total int64)
	// Preparing is told of each step of compiling and timing kernels.
	Preparing func(step string)

	// Lean has loading make what plain decoding needs and no more: a target's programs of single rows, of a draft none.
	// Warm makes the rest.
	Lean bool

	trees    bool // MaxRows may exceed mostTogether
	timed    bool // for tests: choices are timed though they are known for this adapter
	passRows int  // for tests: the most rows above mostTogether that run at once; 0: as many as fit
}

// treeSlots is how many KV slots there are beside those of the context, for
// tokens that are drafted and not committed.
const treeSlots = 272

// spareSlots is how many slots there are beside the context's: a tree of MaxRows nodes fits
// however long the sequence is.
func (m *Model) spareSlots() int { return max(treeSlots, m.opts.MaxRows) }

// layer is one block's weights and its part of the KV cache.
type layer struct {
	attnNorm, ffnNorm     kernels.View
	qkv, out, gates, down *matrix
	bias                  kernels.View // of a row of qkv; nothing where the family has none
	headNorm              kernels.View // (2, head): of queries and keys; likewise
	keys, values          kernels.View
}

// Model is one model on one device, with one sequence. Its methods must be called
// from one goroutine at a time.
type Model struct {
	dev    webgpu.Device
	cfg    *Config
	opts   Options
	heads  kernels.Heads
	file   string
	quant  string
	params int64

	embed, output *matrix
	outNorm       kernels.View
	layers        []layer
	rope          kernels.View
	extra         []extra
	taps          taps

	tuning  tuning
	single  bool // products are recorded with the pipelines of single rows, which have the same bits
	work    workspace
	feeding feeding
	seq     sequence
	drawing [kernels.DrawWords]uint32 // what work.draw holds; zeros before the first draw

	buffers []webgpu.Buffer
	built   []*kernels.Built
	bytes   int64
	waited  time.Duration
	behind  bool // nothing was read since the last run

	weightBytes, kvBytes int64 // of bytes
}

// load reads a GGUF file onto a device, once p has found that there is room for all that its caller makes. It holds at most one chunk of a tensor in host memory.
func load(ctx context.Context, dev webgpu.Device, f *gguf.File, o Options, p planner) (*Model, error) {
	if _, ok := dev.(*Rehearsal); ok {
		o.Memory = 0 // nothing is allocated
	} else if _, err := fitting(f, o, dev.Info().Limits, p); err != nil {
		return nil, err
	}
	cfg, err := ReadConfig(f)
	if err != nil {
		return nil, err
	}
	m, err := newModel(dev, cfg, f, o)
	if err != nil {
		return nil, err
	}
	if i := dev.Info(); i.Software && i.Backend != "cpu" && m.span() > kernels.MostSteps {
		return nil, fmt.Errorf("llama: %s: a context of %d was asked for; the software adapter %s attends to at most %d positions", f.Name(), m.opts.Context, i.Adapter, kernels.MostSteps)
	}
	if err := m.fill(ctx, f); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// newModel is a model of which nothing is loaded.
func newModel(dev webgpu.Device, cfg *Config, f *gguf.File, o Options) (*Model, error) {
	if err := o.complete(cfg, f.Name()); err != nil {
		return nil, err
	}
	return &Model{dev: dev, cfg: cfg, opts: o, file: f.Name(), heads: cfg.heads(o.KV)}, nil
}

func (o *Options) complete(c *Config, name string) error {
	if o.Context == 0 {
		o.Context = min(c.Usable(), 4096)
	}
	if o.Context < 2 || o.Context > c.Context && !o.Beyond {
		return fmt.Errorf("llama: %s: a context of %d was asked for; the model was trained for 2 to %d positions", name, o.Context, c.Context)
	}
	if c.Unscaled > 0 && o.Context >= c.Unscaled {
		return fmt.Errorf("llama: %s: a context of %d was asked for; %s.attention.temperature_scale is not done, so the model runs with less than %d positions only", name, o.Context, c.Architecture, c.Unscaled)
	}
	if o.Vocab == 0 {
		o.Vocab = c.Vocab
	}
	if o.Vocab > c.Vocab {
		return fmt.Errorf("llama: %s: the tokenizer has %d tokens but token_embd.weight only %d rows", name, o.Vocab, c.Vocab)
	}
	if o.MaxRows == 0 {
		o.MaxRows = 64
	}
	most := mostTogether
	if o.trees {
		most = buckets[len(buckets)-1]
	}
	if o.MaxRows < 1 || o.MaxRows > most {
		return fmt.Errorf("llama: %d rows a pass were asked for; want 1 to %d", o.MaxRows, most)
	}
	o.MaxRows = buckets[bucket(o.MaxRows)]
	if o.TopK == 0 {
		o.TopK = 2
	}
	o.TopK = min(o.TopK, o.Vocab)
	if o.TopK < 1 || o.TopK > 64 {
		return fmt.Errorf("llama: %d candidates a row were asked for; want 1 to 64", o.TopK)
	}
	return nil
}

// fill loads the weights and makes the rest of what the model's passes need.
func (m *Model) fill(ctx context.Context, f *gguf.File) error {
	if err := m.lay(ctx, f); err != nil {
		return err
	}
	if err := m.tune(); err != nil {
		return err
	}
	m.Reset()
	return nil
}

// lay makes the model's buffers and fills those of weights; on a ledger it makes none and reads nothing.
func (m *Model) lay(ctx context.Context, f *gguf.File) error {
	l := &loader{ctx: ctx, model: m, dev: m.dev, file: f, progress: m.opts.Progress, used: map[string]bool{ropeFreqs: true}}
	kinds := map[string]uint64{}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		l.total += t.Size
		m.params += int64(t.Elements())
		kinds[t.Type.String()] += t.Elements()
	}
	m.quant = mostly(kinds)
	if err := m.loadWeights(l); err != nil {
		return err
	}
	m.weightBytes = m.bytes
	for i := range f.Tensors {
		if name := f.Tensors[i].Name; !l.used[name] {
			return fmt.Errorf("llama: %s: tensor %s has no place in a %s model; running without it would change the text", f.Name(), name, m.cfg.Architecture)
		}
	}
	return m.allocate()
}

func (m *Model) loadWeights(l *loader) error {
	c := m.cfg
	var err error
	if m.embed, err = l.matrix(c.Dim, []string{"token_embd.weight"}, []int{c.Vocab}); err != nil {
		return err
	}
	m.output = m.embed
	if !c.Tied {
		if m.output, err = l.matrix(c.Dim, []string{"output.weight"}, []int{c.Vocab}); err != nil {
			return err
		}
	}
	if m.outNorm, err = l.vector("output_norm.weight", c.Dim); err != nil {
		return err
	}
	q, kv := c.Heads*c.HeadDim, c.KV*c.HeadDim
	for i := range c.Layers {
		p := fmt.Sprintf("blk.%d.", i)
		var y layer
		if y.attnNorm, err = l.vector(p+"attn_norm.weight", c.Dim); err != nil {
			return err
		}
		if y.qkv, err = l.matrix(c.Dim, []string{p + "attn_q.weight", p + "attn_k.weight", p + "attn_v.weight"}, []int{q, kv, kv}); err != nil {
			return err
		}
		if c.Bias {
			if y.bias, err = l.vectors([]string{p + "attn_q.bias", p + "attn_k.bias", p + "attn_v.bias"}, []int{q, kv, kv}); err != nil {
				return err
			}
		}
		if c.HeadNorm {
			if y.headNorm, err = l.vectors([]string{p + "attn_q_norm.weight", p + "attn_k_norm.weight"}, []int{c.HeadDim, c.HeadDim}); err != nil {
				return err
			}
		}
		if y.out, err = l.matrix(q, []string{p + "attn_output.weight"}, []int{c.Dim}); err != nil {
			return err
		}
		if y.ffnNorm, err = l.vector(p+"ffn_norm.weight", c.Dim); err != nil {
			return err
		}
		if y.gates, err = l.matrix(c.Dim, []string{p + "ffn_gate.weight", p + "ffn_up.weight"}, []int{c.FFN, c.FFN}); err != nil {
			return err
		}
		if y.down, err = l.matrix(c.FFN, []string{p + "ffn_down.weight"}, []int{c.Dim}); err != nil {
			return err
		}
		m.layers = append(m.layers, y)
	}
	return nil
}

// mostly names the storage type of most weights.
func mostly(kinds map[string]uint64) string {
	names := make([]string, 0, len(kinds))
	for k := range kinds {
		names = append(names, k)
	}
	sort.Slice(names, func(i, j int) bool {
		if kinds[names[i]] != kinds[names[j]] {
			return kinds[names[i]] > kinds[names[j]]
		}
		return names[i] < names[j]
	})
	if len(names) == 0 {
		return ""
	}
	return strings.ToUpper(names[0])
}

// Info is what a model is and takes.
type Info struct {
	Name         string            `json:"name"`
	File         string            `json:"file"`
	Architecture string            `json:"architecture"`
	Parameters   int64             `json:"parameters"`
	Quant        string            `json:"quant"`
	Context      int               `json:"context"`
	Vocab        int               `json:"vocab"`
	GPUBytes     int64             `json:"gpu_bytes"`
	Kernels      map[string]string `json:"kernels"`
}

// Info describes the model as loaded.
func (m *Model) Info() Info {
	return Info{Name: m.cfg.Name, File: m.file, Architecture: m.cfg.Architecture, Parameters: m.params, Quant: m.quant,
		Context: m.opts.Context, Vocab: m.opts.Vocab, GPUBytes: m.bytes, Kernels: m.Tuning()}
}

// Config is the model's shape.
func (m *Model) Config() *Config { return m.cfg }

// ReadbackTime is how long Verify and DraftTree have waited for the device, in total.
func (m *Model) ReadbackTime() time.Duration { return m.waited }

// storage makes a device buffer that Close frees.
func (m *Model) storage(label string, size int) (kernels.View, error) {
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

// Close frees all that the model holds on the device.
func (m *Model) Close() {
	for _, b := range m.built {
		b.Free()
	}
	for _, b := range m.buffers {
		m.dev.FreeBuffer(b)
	}
	m.built, m.buffers = nil, nil
}

// run replays programs and waits for what they leave in the regions.
func (m *Model) run(programs []webgpu.Program, reads ...webgpu.Region) error {
	begin := time.Now()
	err := m.dev.Run(programs, reads...)
	if m.behind = len(reads) == 0; !m.behind {
		m.waited += time.Since(begin)
	}
	if err == nil {
		m.seq.ran()
	}
	return err
}

// Settle waits until the device is done with what the model was prefilled with.
func (m *Model) Settle() error {
	if !m.behind {
		return nil
	}
	return m.run(nil, webgpu.Region{Buffer: m.work.x.Buffer, Offset: m.work.x.Offset, Dst: make([]byte, 4)})
}

var errFull = errors.New("llama: the KV cache has no free slot")
