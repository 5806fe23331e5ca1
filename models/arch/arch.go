// Package arch describes models as data. A function per architecture reads a file's metadata and returns the model's
// layers, made of a few typed parts; Tensors lists the tensors that these parts need. The loader, the planner, the
// converter and the test models all read this description, so that an architecture stands in one place.
package arch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
)

// Model describes a decoder.
type Model struct {
	Name         string
	Architecture string // general.architecture
	Dim          int    // width of the residual stream
	Vocab        int    // rows of the embedding
	Context      int    // positions the model was trained for
	Unscaled     int    // first position whose query would need scaling, which is not implemented; 0: none
	Eps          float64
	Embed        float64 // factor of the embedding
	Residual     float64 // factor of the outputs of mixes and networks; 1 if these have norms
	Logit        float64 // factor of the logits
	Tied         bool    // the output matrix is the embedding
	Pooling      string  // how embeddings are made of the positions: "mean", "last", or "" where the file says nothing
	Layers       []Layer
	Scales       map[string]float64 // factors of matrices, by tensor; one that it does not name has none
	Features     *Features          // of an EAGLE-3 head; nil for a decoder
}

// Layer is one block: a mix over positions and a feed-forward network, each added to the residual stream.
type Layer struct {
	Mix   *Attention
	FFN   *Gated
	Norms Norms
}

// Norms says where a layer has norms: of the inputs of its mix and its network, of their outputs, and of the inputs of
// the last product in each of them.
type Norms struct{ Before, After, Inner bool }

// Attention mixes positions by softmax attention over cached keys and values.
type Attention struct {
	Query, KV int     // heads of queries, and of keys and values
	Dim       int     // elements of a head
	Rotary    int     // leading elements of a head that rotate
	HalfSplit bool    // element i rotates with i+Rotary/2 (NeoX layout); otherwise with its neighbour
	Rope      *Rope   // nil: no rotation. Layers may share it
	Window    int     // positions a token attends to, itself included; 0: all
	Scale     float64 // factor of the scores; 0: 1/√Dim
	Bias      bool    // queries, keys and values have a bias
	Fused     bool    // one tensor holds the projections of queries, keys and values
	QKNorm    Span    // of queries and keys
	NormLate  bool    // the norm of heads follows the rotation
	// Shares is 1 + the layer of the model's target whose keys and values it attends to, of all committed positions; 0:
	// it has its keys and values.
	Shares int
}

// Gated is a feed-forward network with a gate: down(SiLU(gate·x) ⊙ up·x).
type Gated struct {
	Width int
	Fused bool // one tensor holds gate and up
}

// Span says over which elements of queries and keys a norm runs.
type Span int

const (
	None Span = iota
	Head      // over each head
	Row       // over all heads together
)

// ContextOf returns the number of positions to allocate: those asked for, or for 0 at most 4096 of the usable ones.
func ContextOf(asked, usable int) int { return cmp.Or(asked, min(usable, 4096)) }

// Names lists the architectures of decoders.
func Names() []string { return slices.Sorted(maps.Keys(architectures)) }

// Read describes the model in a file. context is the number of positions that will be allocated, 0 for the default.
// It returns an error that names the file and the field if the architecture or a field is not supported.
func Read(f *gguf.File, context int) (*Model, error) {
	if err := refuse(f, Unlike); err != nil {
		return nil, err
	}
	return read(f, context, architectures)
}

// ReadHead describes the head in a file.
func ReadHead(f *gguf.File) (*Model, error) {
	if err := refuse(f, unlikeHead); err != nil {
		return nil, err
	}
	return read(f, 0, heads)
}

// refuse refuses rotated weights, and a file of which other says something.
func refuse(f *gguf.File, other func(*gguf.File) string) error {
	if err := checkRotated(f); err != nil {
		return err
	}
	if why := other(f); why != "" {
		return fmt.Errorf("arch: %s: %s", f.Name(), why)
	}
	return nil
}

func read(f *gguf.File, context int, architectures map[string]func(*fields) *Model) (*Model, error) {
	name, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	describe, ok := architectures[name]
	if !ok {
		return nil, fmt.Errorf("arch: %s: %s", f.Name(), unknown(name, slices.Sorted(maps.Keys(architectures))))
	}
	r := &fields{f: f, arch: name, context: context, read: map[string]bool{}}
	m := describe(r)
	if r.checkUnread(); r.err == nil {
		m.Scales = r.scales(m)
	}
	if r.err != nil {
		return nil, r.err
	}
	for i := range m.Layers {
		l := &m.Layers[i]
		if l.Mix.Window >= m.Context {
			l.Mix.Window = 0 // no token has as many positions before it
		}
		if l.Mix.NormLate && l.Mix.Rope != nil {
			l.Mix.Rope.Magnitude = 1 // the norm takes it out again
		}
		if l.Norms.After && m.Residual != 1 {
			return nil, fmt.Errorf("arch: %s: a residual multiplier with norms of outputs is not supported", f.Name())
		}
	}
	return m, nil
}

// checkRotated refuses files whose weights were stored rotated, as Prism's second Bonsai models are: computed with as
// they are, they give fluent nonsense.
func checkRotated(f *gguf.File) error {
	for _, key := range f.Keys() {
		if strings.HasPrefix(key, "prism.hadamard.") {
			return fmt.Errorf("arch: %s: its weights are rotated (%s), which cannot be undone here; take a Bonsai or "+
				"Ternary Bonsai model of the first generation", f.Name(), quote.Text(key))
		}
	}
	return nil
}

// CheckVocab refuses a tokenizer of more tokens than the embedding has rows.
func (m *Model) CheckVocab(file string, tokens uint64) error {
	if tokens > uint64(m.Vocab) {
		return fmt.Errorf("arch: %s: the tokenizer has %d tokens but token_embd.weight only %d rows: the file is "+
			"damaged, take another one", file, tokens,
			m.Vocab)
	}
	return nil
}

// Usable returns the longest context that the model can run with.
func (m *Model) Usable() int {
	if m.Unscaled > 0 {
		return min(m.Context, m.Unscaled-1)
	}
	return m.Context
}
