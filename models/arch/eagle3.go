package arch

import (
	"encoding/binary"
	"fmt"

	"foretoken/models/gguf"
)

// Features describes what an EAGLE-3 head reads of its target and what it proposes (Li et al., "EAGLE-3: Scaling up
// Inference Acceleration of Large Language Models via Training-Time Test", 2025).
//
// A head drafts for one target. It fuses the target's residual stream after three of its layers into a feature (fc),
// runs one decoder layer over [norm(embedding of the next token), norm(feature)] and predicts the token after that one.
// The head may have a smaller vocabulary than the target.
type Features struct {
	Dim       int     // width of the target's residual stream
	Layers    []int   // the target's layers whose inputs or outputs are fused, from 0; nil: as in the authors' code
	Outputs   bool    // Layers names outputs, as a nested field of config.json does; otherwise inputs, as GGUF does
	Targets   []int32 // the target's id of each that the head proposes
	Embedding bool    // the head has an embedding; otherwise it uses the target's
	Output    bool    // the head has an output matrix; otherwise it uses the target's

	NormFused  bool // the features are normed side by side before they are fused
	NormedSkip bool // the normed feature starts the residual stream; otherwise the feature itself does
	NormedNext bool // the normed output is the feature of the next drafted token; otherwise the output itself is
}

// Taps is the number of the target's layers that a head reads.
const Taps = 3

// eagle3 reads a head. These fields are this project's own: rope.half_split, because converted heads keep the rows of
// their checkpoint; target_outputs, which replaces target_layers; and norm_output.
func eagle3(r *fields) *Model {
	m := r.model()
	flag := func(field string) bool { return r.number(field, 0, 0, 1) == 1 }
	f := &Features{Dim: m.Dim, Embedding: r.f.HasTensor("token_embd.weight"), Output: r.f.HasTensor("output.weight"),
		NormFused: flag("norm_before_fc"), NormedSkip: flag("norm_before_residual"), NormedNext: flag("norm_output")}
	m.Vocab = r.headVocab(m.Dim)
	m.Layers[0].Mix.HalfSplit = flag("rope.half_split")
	if r.has("target_hidden_size") {
		f.Dim = r.count("target_hidden_size", 1<<16)
	}
	f.Outputs = r.f.Has(r.arch + "." + targetOutputs)
	f.Layers = r.tapped(targetLayers)
	if outputs := r.tapped(targetOutputs); f.Layers == nil {
		f.Layers = outputs
	} else if outputs != nil {
		r.fail(targetOutputs, "and %s are both there; want one of them", targetLayers)
	}
	switch width := m.Layers[0].FFN.Width; {
	case len(m.Layers) != 1:
		r.fail("block_count", "is %d; heads of one layer can be run", len(m.Layers))
	case f.Dim%4 != 0 || width%4 != 0:
		r.fail("target_hidden_size", "is %d and feed_forward_length %d; want multiples of 4", f.Dim, width)
	case !f.Embedding && f.Dim != m.Dim:
		r.fail("embedding_length", "is %d, and token_embd.weight is missing; the head cannot take the embedding of a "+
			"target of width %d", m.Dim, f.Dim)
	case !f.Output && f.Dim != m.Dim:
		r.fail("embedding_length", "is %d, and output.weight is missing; the head cannot take the output matrix of a "+
			"target of width %d", m.Dim, f.Dim)
	}
	f.Targets = r.targets(m.Vocab)
	if r.err == nil && !f.Output && len(f.Targets) != m.Vocab {
		r.err = fmt.Errorf("arch: %s: tensor d2t has %d ids, and output.weight is missing; the target's gives %d",
			r.f.Name(), len(f.Targets), m.Vocab)
	}
	m.Features = f
	return m
}

// headVocab returns the size of the target's vocabulary: vocab_size, or where the file lacks it, the number of its
// tokens or of the rows of its embedding.
func (r *fields) headVocab(dim int) int {
	const most = 1 << 24
	switch tokens := r.f.Count("tokenizer.ggml.tokens"); {
	case r.has("vocab_size"):
		return r.count("vocab_size", most)
	case tokens > 0 && tokens <= most:
		return int(tokens)
	case r.f.HasTensor("token_embd.weight"):
		return r.vocab(dim)
	}
	return r.count("vocab_size", most)
}

// tapped reads a list of the target's layers; nil where there is none.
func (r *fields) tapped(field string) (all []int) {
	if r.read[field] = true; !r.f.Has(r.arch + "." + field) {
		return nil
	}
	layers := get(r, field, r.f.Int32s)
	for _, l := range layers {
		all = append(all, int(l))
	}
	if len(layers) != Taps {
		r.fail(field, "names %d layers; want %d", len(layers), Taps)
	}
	return all
}

const (
	targetLayers  = "target_layers"
	targetOutputs = "target_outputs"
	draftIDs      = "d2t" // (proposed ids): the target's id of each
)

// targets reads the ids that a head proposes: all of vocab where the file does not say.
func (r *fields) targets(vocab int) []int32 {
	if r.err != nil {
		return nil
	}
	t, err := r.f.Tensor(draftIDs)
	if err != nil {
		all := make([]int32, vocab)
		for i := range all {
			all[i] = int32(i)
		}
		return all
	}
	if len(t.Dims) != 1 || t.Type != gguf.I64 || t.Dims[0] < 1 || t.Dims[0] > uint64(vocab) {
		r.err = fmt.Errorf("arch: %s: tensor d2t is %s of %v; want 1 to %d I64", r.f.Name(), t.Type, t.Dims, vocab)
		return nil
	}
	raw := make([]byte, t.Size)
	r.err = r.f.ReadTensor(t, raw, 0)
	all, used := make([]int32, t.Dims[0]), make([]bool, vocab)
	for i := range all {
		id := binary.LittleEndian.Uint64(raw[8*i:])
		switch {
		case r.err != nil:
			return nil
		case id >= uint64(vocab):
			r.err = fmt.Errorf("arch: %s: tensor d2t: draft id %d stands for token %d of %d", r.f.Name(), i, int64(id),
				vocab)
		case used[id]:
			r.err = fmt.Errorf("arch: %s: tensor d2t: two draft ids stand for token %d", r.f.Name(), id)
		default:
			all[i], used[id] = int32(id), true
		}
	}
	return all
}

// TapsOf returns the target's layers after which a head reads its residual stream, for a target with the given number
// of layers; -1 stands for the embedding. Without f.Layers they are, as in the authors' code, those before the layers
// 2, n/2 and n-3.
func (f *Features) TapsOf(file string, layers int) ([]int, error) {
	if f.Layers == nil {
		taps := []int{1, layers/2 - 1, layers - 4}
		if taps[0] >= taps[1] || taps[1] >= taps[2] {
			return nil, fmt.Errorf("arch: %s: the head names no layers of its target, and one of %d layers is too "+
				"small for the usual ones", file, layers)
		}
		return taps, nil
	}
	taps, of, before := make([]int, Taps), "inputs", 1
	if f.Outputs {
		of, before = "outputs", 0
	}
	for i, l := range f.Layers {
		if l < 0 || l >= layers {
			return nil, fmt.Errorf("arch: %s: the head reads the %s of its target's layers %v (eagle3.target_layers, "+
				"or eagle_aux_hidden_state_layer_ids in config.json); a target of %d layers has 0 to %d", file, of,
				f.Layers, layers, layers-1)
		}
		taps[i] = l - before
	}
	return taps, nil
}
