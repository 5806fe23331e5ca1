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
	Layers    []int   // the target's layers whose inputs are fused, counted from 0; nil: as in the authors' code
	Targets   []int32 // the target's id of each that the head proposes
	Embedding bool    // the head has an embedding; otherwise it uses the target's
}

// Taps is the number of the target's layers that a head reads.
const Taps = 3

// eagle3 reads a head. rope.half_split is this project's own: converted heads keep the rows of their checkpoint.
func eagle3(r *fields) *Model {
	m := r.model()
	m.Vocab = r.count("vocab_size", 1<<24)
	m.Layers[0].Mix.HalfSplit = r.number("rope.half_split", 0, 0, 1) == 1
	f := &Features{Dim: m.Dim, Embedding: r.f.HasTensor("token_embd.weight")}
	if r.has("target_hidden_size") {
		f.Dim = r.count("target_hidden_size", 1<<16)
	}
	if r.read[targetLayers] = true; r.f.Has(r.arch + "." + targetLayers) {
		layers := get(r, targetLayers, r.f.Int32s)
		for _, l := range layers {
			f.Layers = append(f.Layers, int(l))
		}
		if len(layers) != Taps {
			r.fail(targetLayers, "names %d layers; want %d", len(layers), Taps)
		}
	}
	switch width := m.Layers[0].FFN.Width; {
	case len(m.Layers) != 1:
		r.fail("block_count", "is %d; heads of one layer can be run", len(m.Layers))
	case f.Dim%4 != 0 || width%4 != 0:
		r.fail("target_hidden_size", "is %d and feed_forward_length %d; want multiples of 4", f.Dim, width)
	case !f.Embedding && f.Dim != m.Dim:
		r.fail("embedding_length", "is %d, and token_embd.weight is missing; the head cannot take the embedding of a "+
			"target of width %d", m.Dim, f.Dim)
	}
	f.Targets = r.targets(m.Vocab)
	m.Features = f
	return m
}

const (
	targetLayers = "target_layers"
	draftIDs     = "d2t" // (proposed ids): the target's id of each
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
// of layers: those before f.Layers or, as in the authors' code, the inputs of layers 2, n/2 and n-3. A checkpoint can
// name the output of the last layer, which becomes the input n: the stream before the last norm.
func (f *Features) TapsOf(file string, layers int) ([]int, error) {
	inputs := f.Layers
	if inputs == nil {
		inputs = []int{2, layers / 2, layers - 3}
	}
	taps := make([]int, Taps)
	for i, input := range inputs {
		taps[i] = input - 1
	}
	for i, l := range taps {
		switch {
		case l >= 0 && l < layers && (i == 0 || l > taps[i-1]):
		case f.Layers == nil:
			return nil, fmt.Errorf("arch: %s: the head names no layers of its target, and one of %d layers is too "+
				"small for the usual ones", file, layers)
		default:
			return nil, fmt.Errorf("arch: %s: the head reads its target after the layers %v (a config.json's "+
				"eagle_aux_hidden_state_layer_ids, or one less than GGUF's %s); a target of %d layers has 0 to %d, "+
				"ascending", file, taps, targetLayers, layers, layers-1)
		}
	}
	return taps, nil
}
