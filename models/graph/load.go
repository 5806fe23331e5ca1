package graph

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"foretoken/internal/quote"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/kv"
	"foretoken/models/tune"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// Options of loading a model. The zero value uses the file's context length, up to 4096, and an f32 KV cache.
type Options struct {
	Context int              // positions of the KV cache; 0: the file's context length, at most 4096
	KV      kernels.KVFormat // f16 changes log-probabilities by up to 0.03 nats, q8 by up to 0.3
	Vocab   int              // ids in use, if the matrix is padded; 0: all rows
	MaxRows int              // target: nodes of a tree, up to 1024; draft: rows of a pass, up to 64; 0: 64
	TopK    int              // candidates per row, and so the widest beam; 0: 2 for a target, 16 for a draft
	// Tuning holds choices timed before on the same adapter, see tune.Tuning.Choices.
	Tuning map[string]string
	// Progress is called with the bytes of weights loaded; may be nil.
	Progress func(done, total int64)
	// Preparing is called with each step of compiling and timing kernels; may be nil.
	Preparing func(step string)

	// FastStart makes loading compile only the kernels of single rows. Warm compiles the rest.
	FastStart bool

	Timed    bool // time kernels on software adapters too
	PassRows int  // most rows above 64 that run at once; 0: as many as fit
}

// Load reads a GGUF file onto a device, and returns the graph and its empty sequence, whose cache Close frees too. A
// ledger gets no kernels chosen. At most one chunk of a tensor is in host memory at a time.
func Load(ctx context.Context, dev webgpu.Device, f *gguf.File, o Options) (*Graph, *kv.Sequence, error) {
	a, err := arch.Read(f, o.Context)
	if err != nil {
		return nil, nil, err
	}
	g, err := newGraph(dev, a, f.Name(), o)
	if err != nil {
		return nil, nil, err
	}
	seq, err := g.finish(ctx, f)
	return g, seq, err
}

// newGraph returns a graph without buffers.
func newGraph(dev webgpu.Device, a *arch.Model, file string, o Options) (*Graph, error) {
	if err := o.complete(a, file); err != nil {
		return nil, err
	}
	g := &Graph{Arch: a, Options: o, Kernels: &tune.Tuning{Lanes: kernels.Serial},
		Resources: &Resources{Dev: dev, File: file, preparing: o.Preparing, smaller: fmt.Sprintf(
			"use a context shorter than %d or trees of fewer than %d nodes", o.Context, o.MaxRows)},
		layers: make([]layer, len(a.Layers))}
	for i, l := range a.Layers {
		h := kernels.Heads{Query: l.Mix.Query, KV: l.Mix.KV, Dim: l.Mix.Dim, Rotary: l.Mix.Rotary,
			HalfSplit: l.Mix.HalfSplit, Window: l.Mix.Window, Scale: l.Mix.Scale, Format: o.KV,
			Shares: l.Mix.Shares > 0}
		g.layers[i] = layer{heads: h, span: min(cmp.Or(h.Window, o.Context), o.Context), width: l.FFN.Width, mix: l.Mix}
	}
	return g, nil
}

// finish loads the weights, makes the other buffers and chooses the kernels. It frees all if one of them fails.
func (g *Graph) finish(ctx context.Context, f *gguf.File) (seq *kv.Sequence, err error) {
	if err = g.loadWeights(ctx, f); err == nil {
		g.weightBytes = g.bytes
		seq, err = g.allocate()
	}
	if err == nil && g.head != nil {
		err = g.allocateHead(seq)
	}
	if _, ok := g.Dev.(*ledger); err == nil && !ok {
		err = g.tune()
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	seq.Reset()
	return seq, nil
}

func (o *Options) complete(a *arch.Model, file string) error {
	o.Context = arch.ContextOf(o.Context, a.Usable())
	if o.Context < 2 || o.Context > a.Context {
		return fmt.Errorf("graph: %s: a context of %d; the model was trained for 2 to %d positions", file, o.Context,
			a.Context)
	}
	if a.Unscaled > 0 && o.Context >= a.Unscaled {
		return fmt.Errorf("graph: %s: a context of %d; want less than %d, because %s.attention.temperature_scale "+
			"is not supported", file, o.Context, a.Unscaled, a.Architecture)
	}
	o.Vocab = cmp.Or(o.Vocab, a.Vocab)
	if err := a.CheckVocab(file, uint64(o.Vocab)); err != nil {
		return err
	}
	o.MaxRows = cmp.Or(o.MaxRows, OnePassRows)
	if most := kv.Buckets[len(kv.Buckets)-1]; o.MaxRows < 1 || o.MaxRows > most {
		return fmt.Errorf("graph: %d rows a pass; want 1 to %d", o.MaxRows, most)
	}
	o.MaxRows = kv.Buckets[kv.Bucket(o.MaxRows)]
	o.TopK = min(cmp.Or(o.TopK, 2), o.Vocab)
	if o.TopK < 1 || o.TopK > kernels.MaxTopK {
		return fmt.Errorf("graph: %d candidates a row; want 1 to %d", o.TopK, kernels.MaxTopK)
	}
	return nil
}

// loadWeights loads the tensors that the model's description lists; those of one kind, layer and range of columns
// become one matrix or vector. On a ledger it only counts bytes.
func (g *Graph) loadWeights(ctx context.Context, f *gguf.File) error {
	l := &loader{loading: loading{ctx: ctx, graph: g}, file: f, used: map[string]bool{}}
	kinds := map[string]uint64{}
	for i := range f.Tensors {
		if t := &f.Tensors[i]; t.Type != gguf.I64 {
			g.file.params += int64(t.Elements())
			kinds[t.Type.String()] += t.Elements()
		}
	}
	g.file.quant = dominantType(kinds)
	all := slices.Collect(g.Arch.Tensors())
	for _, want := range all {
		if t, err := f.Tensor(want.GGUF); err == nil && want.Kind != arch.Header && want.From == 0 {
			l.total += t.Size
		}
	}
	for n := 0; len(all) > 0; all = all[n:] {
		first := all[0]
		for n = 1; n < len(all) && all[n].Kind == first.Kind && all[n].Layer == first.Layer &&
			all[n].From == first.From; {
			n++
		}
		var err error
		switch matrix, vector := g.place(first); {
		case matrix != nil:
			*matrix, err = l.matrix(all[:n])
		case vector != nil:
			*vector, err = l.vectors(all[:n], 1)
		default:
			for _, t := range all[:n] {
				l.used[t.GGUF] = true // read with the description
			}
		}
		if first.Kind == arch.OutputNorm && err == nil {
			if g.headNorm = g.outNorm; g.Arch.Logit != 1 {
				l.total += 4 * int64(g.Arch.Dim)
				g.headNorm, err = l.vectors(all[:n], g.Arch.Logit)
			}
		}
		if err != nil {
			return err
		}
	}
	if err := l.ones(); err != nil {
		return err
	}
	if f := g.Arch.Features; f != nil && !f.Embedding {
		g.embed = g.head.target.embed
	}
	switch f := g.Arch.Features; {
	case f != nil && !f.Output:
		g.output = g.head.target.output
	case g.Arch.Tied:
		g.output = g.embed
	}
	for i := range f.Tensors {
		if name := f.Tensors[i].Name; !l.used[name] {
			return fmt.Errorf("graph: %s: tensor %s is unknown in a %s model; ignoring it would change the output: "+
				"take another file of the model",
				f.Name(), quote.Name(name), g.Arch.Architecture)
		}
	}
	return nil
}

// place returns where a tensor's matrix or vector belongs.
func (g *Graph) place(t arch.Tensor) (**matrix, *kernels.View) {
	y := &g.layers[t.Layer]
	switch t.Kind {
	case arch.Embedding:
		return &g.embed, nil
	case arch.Output:
		return &g.output, nil
	case arch.OutputNorm:
		return nil, &g.outNorm
	case arch.MixNorm:
		return nil, &y.mixNorm
	case arch.QKV:
		return &y.qkv, nil
	case arch.QKVBias:
		return nil, &y.bias
	case arch.QKNorm:
		return nil, &y.qkNorm
	case arch.MixOut:
		return &y.out, nil
	case arch.MixInnerNorm:
		return nil, &y.mixInner
	case arch.FFNInnerNorm:
		return nil, &y.ffnInner
	case arch.MixPostNorm:
		return nil, &y.mixPost
	case arch.FFNPostNorm:
		return nil, &y.ffnPost
	case arch.FFNNorm:
		return nil, &y.ffnNorm
	case arch.Gates:
		return &y.gates, nil
	case arch.Down:
		return &y.down, nil
	case arch.Fuse:
		return &g.head.fuse[t.From/t.Cols], nil
	case arch.FeatureQKV:
		return &g.head.qkv, nil
	case arch.FeatureNorm:
		return nil, &g.head.norm
	case arch.FuseNorm:
		return nil, &g.head.side
	}
	return nil, nil
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
func (g *Graph) Info() Info {
	return Info{Name: g.Arch.Name, File: g.File, Architecture: g.Arch.Architecture, Parameters: g.file.params,
		Quant: g.file.quant, Width: g.Arch.Dim, Context: g.Options.Context, Vocab: g.Options.Vocab, GPUBytes: g.bytes,
		Kernels: g.Kernels.Choices()}
}

// Sync waits until the device has finished all runs.
func (g *Graph) Sync() error {
	if !g.unsynced {
		return nil
	}
	return g.Run(nil, webgpu.Region{Buffer: g.Space.X.Buffer, Offset: g.Space.X.Offset, Dst: make([]byte, 4)})
}
