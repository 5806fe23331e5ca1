package catalog

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/models/arch"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/runner"
	"foretoken/webgpu"
)

// positions is the context that Memory is for.
const positions = 4096

// Fill computes the memory, the device class and the needs of every entry: it loads the models on devices of these
// limits, which count bytes and make no buffer. A model is read from its file if that is built in, which open opens by
// name, or made of its HParams. Without either, it keeps what foretoken inspect said of its file.
func (c *Catalog) Fill(gpu, cpu webgpu.Limits, open func(name string) (files.Source, error)) error {
	byID := map[string]*Model{}
	for _, m := range c.Models {
		byID[m.ID] = m
		f, err := m.open(open)
		if f.File != nil && err == nil {
			plan := runner.Plan
			if m.Drafts {
				plan = runner.PlanDraft
			}
			m.Needs = f.needs
			m.Memory, err = onBoth(gpu, cpu, func(limits webgpu.Limits) (int64, error) {
				memory, err := plan(f.File, graph.Options{}, limits)
				return memory.Total() + f.more, err
			})
		}
		for i := range m.Drafters {
			if head := m.Drafters[i].Head; head != nil && head.Repository == Builtin && err == nil {
				err = head.fill(f.File, gpu, cpu, open)
			}
		}
		if err != nil {
			return fmt.Errorf("models/catalog.json: %s: %w", quote.Name(m.ID), err)
		}
	}
	for _, m := range c.Models {
		all := m.Memory
		if len(m.Drafters) > 0 {
			by := m.Drafters[0].memory(byID)
			all.GPU, all.CPU = all.GPU+by.GPU, all.CPU+by.CPU
		}
		m.Device = DeviceOf(all)
	}
	return nil
}

// fill computes the memory of a head of the model in f, with the features that the model then keeps.
func (h *Head) fill(f *gguf.File, gpu, cpu webgpu.Limits, open func(name string) (files.Source, error)) error {
	weights, err := open(h.Name)
	if err != nil {
		return err
	}
	config, err := open(h.Config)
	if err != nil {
		return err
	}
	head, err := convert.Head(weights, config)
	if err != nil {
		return err
	}
	h.Memory, err = onBoth(gpu, cpu, func(limits webgpu.Limits) (int64, error) {
		memory, features, err := runner.PlanEAGLE3(f, graph.Options{}, head, graph.Options{}, limits)
		return memory.Total() + features, err
	})
	return err
}

func (d *Drafter) memory(byID map[string]*Model) Memory {
	if d.Head != nil {
		return d.Head.Memory
	}
	return byID[d.Model].Memory
}

// onBoth plans for a GPU and for the CPU.
func onBoth(gpu, cpu webgpu.Limits, plan func(webgpu.Limits) (int64, error)) (m Memory, err error) {
	if m.GPU, err = plan(gpu); err == nil {
		m.CPU, err = plan(cpu)
	}
	return m, err
}

// planned is a file for planning. A model that does not run yet is planned as the nearest one that does: a llama for
// another architecture, matrices in Q8_0 for a format that no kernel reads.
type planned struct {
	*gguf.File
	needs string // what does not run yet
	more  int64  // bytes of the model's matrices beyond those of the file
}

// open returns the file of a model for planning; none for a model whose hparams are not known.
func (m *Model) open(open func(name string) (files.Source, error)) (p planned, err error) {
	switch {
	case m.Repository == Builtin:
		var src files.Source
		if src, err = open(m.Name); err == nil {
			p.File, err = gguf.Open(src)
		}
	case m.HParams != nil:
		p, err = m.HParams.file(m.Name, m.Quant)
	}
	return p, err
}

// hollow is a file whose tensors are zeros: planning reads none.
type hollow struct {
	name string
	head []byte
	size int64
}

var _ files.Source = (*hollow)(nil)

func (h *hollow) Name() string { return h.name }

func (h *hollow) Size() int64 { return h.size }

func (h *hollow) ReadAt(p []byte, at int64) (int, error) {
	clear(p)
	copy(p, h.head[min(at, int64(len(h.head))):])
	if n := h.size - at; n < int64(len(p)) {
		return int(max(n, 0)), io.EOF
	}
	return len(p), nil
}

// file returns a GGUF file with the tensors that a model of these hparams has in files of the given type.
func (p *HParams) file(name, quant string) (out planned, err error) {
	architecture := p.Architecture
	if !slices.Contains(arch.Names(), architecture) { // bound: a dozen names
		out.needs, architecture = "the architecture "+architecture, "llama"
	}
	var kv []gguf.KV
	add := func(key string, value any) {
		kv = append(kv, gguf.KV{Key: architecture + "." + key, Value: value})
	}
	add("block_count", uint32(p.Layers))
	add("context_length", uint32(p.Context))
	add("embedding_length", uint32(p.Dim))
	add("feed_forward_length", uint32(p.FFN))
	add("attention.head_count", uint32(p.Heads))
	add("attention.head_count_kv", uint32(p.KVHeads))
	add("attention.key_length", uint32(p.HeadDim))
	add("attention.value_length", uint32(p.HeadDim))
	add("attention.layer_norm_rms_epsilon", float32(1e-5))
	kv = append([]gguf.KV{{Key: "general.architecture", Value: architecture}}, kv...)
	// The description depends on which tensors there are, and lists the others.
	given := []gguf.WriteTensor{{Name: "token_embd.weight", Dims: []uint64{uint64(p.Dim), uint64(p.Vocab)}}}
	if !p.Tied {
		given = append(given, gguf.WriteTensor{Name: "output.weight", Dims: []uint64{1}})
	}
	f, err := layOut(name, kv, given)
	if err != nil {
		return out, err
	}
	model, err := arch.Read(f, positions)
	if err != nil {
		return out, err
	}
	types, err := mixture(quant, model)
	if err != nil {
		return out, err
	}
	var tensors []gguf.WriteTensor
	for t := range model.Tensors() {
		if t.Optional {
			continue
		}
		w := gguf.WriteTensor{Name: t.GGUF, Type: gguf.F32}
		for _, n := range t.Shape {
			w.Dims = append([]uint64{uint64(n)}, w.Dims...)
		}
		if len(t.Shape) == 2 {
			if w.Type = types(t); !graph.Runs(w.Type) {
				out.needs = cmp.Or(out.needs, "the format "+w.Type.String())
				out.more += matrixBytes(w)
				w.Type = gguf.Q8_0
				out.more -= matrixBytes(w)
			}
		}
		tensors = append(tensors, w)
	}
	out.File, err = layOut(name, kv, tensors)
	return out, err
}

func matrixBytes(t gguf.WriteTensor) int64 {
	return int64(t.Dims[0] / t.Type.BlockSize() * t.Type.BlockBytes() * t.Dims[1])
}

func layOut(name string, kv []gguf.KV, tensors []gguf.WriteTensor) (*gguf.File, error) {
	head, _, size, err := gguf.Layout(kv, tensors)
	if err != nil {
		return nil, err
	}
	return gguf.Open(&hollow{name, head, size})
}

// mixture returns the types of matrices in files of the given type, as llama.cpp's quantiser chooses them.
func mixture(quant string, m *arch.Model) (func(arch.Tensor) gguf.Type, error) {
	// Rows that are no multiple of 256 become blocks of 32.
	fits := func(t arch.Tensor, of, small gguf.Type) gguf.Type {
		if t.Shape[1]%256 != 0 {
			return small
		}
		return of
	}
	n := len(m.Layers)
	switch quant {
	case "Q8_0":
		return func(arch.Tensor) gguf.Type { return gguf.Q8_0 }, nil
	case "Q1_0": // Bonsai's files have all matrices in one type
		return func(arch.Tensor) gguf.Type { return gguf.Q1_0 }, nil
	case "Q2_0":
		return func(arch.Tensor) gguf.Type { return gguf.Q2_0 }, nil
	case "Q4_K_M":
		return func(t arch.Tensor) gguf.Type {
			more := t.Layer < n/8 || t.Layer >= 7*n/8 || (t.Layer-n/8)%3 == 2
			values := t.Kind == arch.QKV && strings.HasSuffix(t.GGUF, "attn_v.weight")
			if t.Kind == arch.Output || t.Kind == arch.Embedding && m.Tied || more && (values || t.Kind == arch.Down) {
				return fits(t, gguf.Q6_K, gguf.Q8_0)
			}
			if t.Kind == arch.QKV && strings.HasSuffix(t.GGUF, "attn_qkv.weight") {
				return fits(t, gguf.Q5_K, gguf.Q5_1)
			}
			return fits(t, gguf.Q4_K, gguf.Q5_0)
		}, nil
	}
	return nil, fmt.Errorf("quant: the mixture of %s is not known here: leave the hparams out, and copy the memory "+
		"that foretoken inspect says", quant)
}
