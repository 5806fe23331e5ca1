// Package modeltest makes the models that tests run: small ones of random weights, in every architecture and every
// storage type that the engine reads, with the same bits on every machine. It also holds their reference
// log-probabilities, and finds the test data that is not part of the repository.
package modeltest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"foretoken/internal/files"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/quant"

	"github.com/x448/float16"
)

// hparams are the hyperparameters of a random model. A name such as "qwen3-q4_k" joins the name of some with the type
// of the matrices.
type hparams struct {
	arch                                 string
	dim, hidden, layers, heads, kv, head int
	vocab, context                       int
	tied, fused                          bool
	embedding, output                    float64   // standard deviations; output counts before the division by √dim
	words                                bool      // byte-level BPE instead of SentencePiece
	fields                               []gguf.KV // in addition, without the architecture's name
	divisors                             []string  // of frequencies: the tensors' names without .weight
	eps                                  float64   // 0: 1e-6
	scaled                               []string  // matrices of layers that have a factor
}

// models holds the hyperparameters by name.
var models = map[string]hparams{
	// The size of the smallest real models: tests of everything but storage types use it.
	"tiny": {arch: "llama", dim: 64, hidden: 192, layers: 5, heads: 8, kv: 4, head: 8, vocab: 512, context: 512,
		tied: true, embedding: 0.35},
	// Rows of ffn_down that are no multiple of 32.
	"uneven": {arch: "llama", dim: 64, hidden: 172, layers: 5, heads: 8, kv: 4, head: 8, vocab: 512, context: 512,
		tied: true, embedding: 0.35},
	"llama": {arch: "llama", dim: 256, hidden: 768, layers: 2, heads: 4, kv: 2, head: 64, vocab: 512, context: 512,
		embedding: 0.06, output: 2},
	// Ministral's heads together are wider than its stream.
	"mistral3": {arch: "mistral3", dim: 256, hidden: 512, layers: 2, heads: 4, kv: 1, head: 128, vocab: 512,
		context:   512,
		embedding: 0.06, output: 2},
	"qwen2": {arch: "qwen2", dim: 256, hidden: 768, layers: 3, heads: 4, kv: 2, head: 64, vocab: 1024, context: 512,
		embedding: 0.06, output: 2, words: true},
	"qwen3": {arch: "qwen3", dim: 256, hidden: 768, layers: 3, heads: 4, kv: 2, head: 64, vocab: 1024, context: 512,
		embedding: 0.06, tied: true, words: true},
	// Three quarters of a head rotate, slower in contexts beyond 64, and the window has no effect.
	"phi3": {arch: "phi3", dim: 128, hidden: 384, layers: 3, heads: 4, kv: 2, head: 32, vocab: 512, context: 512,
		embedding: 0.06, output: 3, words: true, divisors: []string{"rope_factors_short", "rope_factors_long"},
		fields: []gguf.KV{
			{Key: "rope.dimension_count", Value: uint32(24)},
			{Key: "rope.scaling.original_context_length", Value: uint32(64)},
			{Key: "rope.scaling.attn_factor", Value: float32(arch.LongMagnitude(512, 64))},
			{Key: windowSize, Value: uint32(7)}}},
	"smollm3": {arch: "smollm3", dim: 128, hidden: 256, layers: 4, heads: 4, kv: 2, head: 32, vocab: 512, context: 512,
		embedding: 0.06, tied: true},
	"granite": {arch: "granite", dim: 128, hidden: 256, layers: 3, heads: 4, kv: 2, head: 32, vocab: 512, context: 512,
		embedding: 0.05, tied: true, fields: []gguf.KV{{Key: "attention.scale", Value: float32(0.3)},
			{Key: "embedding_scale", Value: float32(3)}, {Key: "residual_scale", Value: float32(0.4)},
			{Key: "logit_scale", Value: float32(0.7)}}},
	"olmo2": {arch: "olmo2", dim: 128, hidden: 384, layers: 3, heads: 4, kv: 2, head: 32, vocab: 512, context: 512,
		embedding: 0.06, output: 3, words: true},
	// Windows, and YaRN in the fourth layer alone.
	"olmo3": {arch: "olmo2", dim: 64, hidden: 128, layers: 5, heads: 4, kv: 2, head: 16, vocab: 512, context: 512,
		embedding: 0.06, output: 3, words: true, fields: []gguf.KV{{Key: windowSize, Value: uint32(6)},
			{Key: "rope.scaling.type", Value: "yarn"}, {Key: "rope.scaling.factor", Value: float32(8)},
			{Key: "rope.scaling.original_context_length", Value: uint32(64)},
			{Key: "rope.scaling.attn_factor", Value: float32(1.2)}}},
	"exaone4": {arch: "exaone4", dim: 64, hidden: 128, layers: 3, heads: 4, kv: 2, head: 16, vocab: 512, context: 512,
		embedding: 0.3, tied: true, words: true, divisors: []string{"rope_freqs"}},
	"ernie4_5": {arch: "ernie4_5", dim: 64, hidden: 128, layers: 3, heads: 4, kv: 2, head: 16, vocab: 512, context: 512,
		embedding: 0.3, tied: true},
	"minicpm": {arch: "minicpm", dim: 64, hidden: 128, layers: 3, heads: 4, kv: 2, head: 16, vocab: 512, context: 512,
		embedding: 0.2, tied: true, fields: []gguf.KV{{Key: "embedding_scale", Value: float32(3)},
			{Key: "residual_scale", Value: float32(0.4)}, {Key: "logit_scale", Value: float32(0.7)}}},
	"hunyuan": {arch: "hunyuan-dense", dim: 64, hidden: 128, layers: 3, heads: 4, kv: 2, head: 16, vocab: 512,
		context: 512, embedding: 0.3, tied: true, words: true},
	"bitnet": {arch: "bitnet", dim: 64, hidden: 128, layers: 3, heads: 4, kv: 2, head: 16, vocab: 512, context: 512,
		embedding: 0.3, tied: true, scaled: []string{"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up",
			"ffn_down"}, fields: []gguf.KV{{Key: "rope.scaling.type", Value: "linear"},
			{Key: "rope.scaling.factor", Value: float32(1)}}},
	// Queries, keys and values of one tensor, as converters write for any architecture.
	"fused": {arch: "qwen2", dim: 64, hidden: 128, layers: 3, heads: 4, kv: 2, head: 16, vocab: 512, context: 512,
		embedding: 0.3, tied: true, words: true, fused: true},
	// llama.cpp 0.5.0 runs qwen2vl without the file's epsilon.
	"qwen2vl": {arch: "qwen2vl", dim: 64, hidden: 128, layers: 3, heads: 4, kv: 2, head: 16, vocab: 512, context: 512,
		embedding: 0.3, tied: true, words: true, eps: 1e-12, fields: []gguf.KV{
			{Key: "rope.dimension_sections", Value: []int32{2, 3, 3, 0}}}},
	"qwen3vl": {arch: "qwen3vl", dim: 64, hidden: 128, layers: 3, heads: 4, kv: 2, head: 16, vocab: 512, context: 512,
		embedding: 0.3, tied: true, words: true, fields: []gguf.KV{{Key: "n_deepstack_layers", Value: uint32(2)},
			{Key: "rope.dimension_sections", Value: []int32{3, 3, 2, 0}}}},
}

const windowSize = "attention.sliding_window"

// notReal are the models that stand for a size, and not for an architecture.
var notReal = []string{"tiny", "uneven"}

// Architectures are the models of Source, in F32, that llama.cpp's answers are for: one of each architecture or more.
func Architectures() (all []string) {
	for name := range models {
		if !slices.Contains(notReal, name) {
			all = append(all, name+"-f32")
		}
	}
	slices.Sort(all)
	return all
}

// storage says how a type's blocks are filled with random bits: where their halves are, how large each is beside the
// first, so that the weights have mean zero, and how widely the weights spread when the first half is 1.
type storage struct {
	typ    gguf.Type
	halves []int
	second float64
	spread float64
}

var storages = map[string]storage{
	"f32": {typ: gguf.F32}, "f16": {typ: gguf.F16}, "bf16": {typ: gguf.BF16},
	"q8_0": {typ: gguf.Q8_0}, "q4_0": {typ: gguf.Q4_0},
	"q4_1":   {gguf.Q4_1, []int{0, 2}, -7.5, 4.6},
	"q5_0":   {gguf.Q5_0, []int{0}, 0, 9.2},
	"q5_1":   {gguf.Q5_1, []int{0, 2}, -15.5, 9.2},
	"iq4_nl": {gguf.IQ4NL, []int{0}, 0, 71},
	"q2_k":   {gguf.Q2_K, []int{80, 82}, 1.5, 14.2},
	"q3_k":   {gguf.Q3_K, []int{108}, 0, 43},
	"q4_k":   {gguf.Q4_K, []int{0, 2}, 7.5, 265},
	"q5_k":   {gguf.Q5_K, []int{0, 2}, 15.5, 540},
	"q6_k":   {gguf.Q6_K, []int{208}, 0, 1370},
}

// Types are the storage types in the names of models.
func Types() []string { return slices.Sorted(maps.Keys(storages)) }

var (
	making sync.Mutex
	made   = map[string][]byte{}
)

// Source makes a model by name: tiny, uneven or an architecture's, a hyphen and the type of its matrices. After a
// tilde, as in tiny~-f32, it makes the model's draft, which is right often, but not always: noise is added to the
// matrices of its layers. noisy is tiny~. ok is false for any other name. F32, F16, BF16, Q8_0 and Q4_0 round the same
// numbers; the blocks of the other types are random bits.
func Source(name string) (src files.Source, ok bool) {
	modelName, typeName, _ := strings.Cut(name, "-")
	if modelName == "noisy" {
		modelName = "tiny~"
	}
	modelName, draft := strings.CutSuffix(modelName, "~")
	s, known := models[modelName]
	store, stored := storages[typeName]
	if !known || !stored {
		return nil, false
	}
	making.Lock()
	defer making.Unlock()
	if made[name] == nil {
		b := builder{seed: modelName, hparams: s, store: store}
		if draft {
			b.noise = 0.12
		}
		fields := b.fields(name)
		file, err := gguf.Bytes(fields, b.tensors(fields))
		if err != nil {
			panic(err) // widths that the type's blocks do not divide
		}
		made[name] = file
	}
	return files.FromBytes(name+".gguf", made[name]), true
}

type builder struct {
	seed string
	hparams
	store storage
	noise float64 // added to the matrices of layers, relative to their own spread
	all   []gguf.WriteTensor
}

func (b *builder) fields(name string) []gguf.KV {
	name = strings.Replace(name, "phi3", "phi 3", 1) // by its name llama.cpp would look for Phi-3's special tokens
	kv := []gguf.KV{{Key: "general.architecture", Value: b.arch}, {Key: "general.name", Value: name},
		{Key: "general.quantization_version", Value: uint32(2)}, {Key: "general.alignment", Value: uint32(32)}}
	for _, f := range []struct {
		key   string
		value any
	}{
		{"context_length", uint32(b.context)}, {"embedding_length", uint32(b.dim)}, {"block_count", uint32(b.layers)},
		{"feed_forward_length", uint32(b.hidden)}, {"attention.head_count", uint32(b.heads)},
		{"attention.head_count_kv", uint32(b.kv)}, {"attention.layer_norm_rms_epsilon", float32(cmp.Or(b.eps, 1e-6))},
		{"rope.freq_base", float32(map[bool]float64{true: 1e6, false: 1e4}[b.words])}, {"vocab_size", uint32(b.vocab)},
		{"attention.key_length", uint32(b.head)}, {"attention.value_length", uint32(b.head)},
	} {
		kv = append(kv, gguf.KV{Key: b.arch + "." + f.key, Value: f.value})
	}
	for _, f := range b.hparams.fields {
		kv = append(kv, gguf.KV{Key: b.arch + "." + f.Key, Value: f.Value})
	}
	if b.words {
		return append(kv, bpe(b.vocab)...)
	}
	kv = append(kv, gguf.KV{Key: b.arch + ".rope.dimension_count", Value: uint32(b.head)})
	return append(kv, sentencePiece(b.vocab)...)
}

// spreads are the standard deviations of the tensors of layers, by name: of matrices before the division by the root of
// their columns. Norms have a mean of 1.
var spreads = map[string]float64{"attn_q.weight": 1.5, "attn_k.weight": 1.5, "attn_v.weight": 1,
	"attn_output.weight": 1, "attn_qkv.weight": 1.3, "ffn_gate.weight": 1.5, "ffn_up.weight": 1, "ffn_down.weight": 1,
	"attn_q.bias": 0.5, "attn_k.bias": 0.7, "attn_v.bias": 0.35,
	"attn_qkv.bias": 0.5}

// tensors fills those that the description of the model lists.
func (b *builder) tensors(fields []gguf.KV) []gguf.WriteTensor {
	given := []gguf.WriteTensor{{Name: "token_embd.weight", Dims: []uint64{uint64(b.dim), uint64(b.vocab)},
		Data: make([]byte, 4*b.dim*b.vocab)}}
	if !b.tied {
		given = append(given, gguf.WriteTensor{Name: "output.weight", Dims: []uint64{1}, Data: make([]byte, 4)})
	}
	if b.fused {
		given = append(given, gguf.WriteTensor{Name: "blk.0.attn_qkv.weight", Dims: []uint64{1}, Data: make([]byte, 4)})
	}
	for _, name := range b.divisors {
		mean, spread := 1.0, 0.1 // of short contexts
		if name != "rope_factors_short" {
			mean, spread = 4, 1
		}
		b.vector(name+".weight", b.rotary()/2, mean, spread)
	}
	for layer := range b.layers {
		for _, name := range b.scaled {
			b.vector(fmt.Sprintf("blk.%d.%s.scale", layer, name), 1, 1.2, 0.2)
		}
	}
	m, err := describe(fields, append(given, b.all...))
	if err != nil {
		panic(err) // hparams that no architecture allows
	}
	for t := range m.Tensors() {
		short := t.GGUF
		if _, rest, ok := strings.Cut(strings.TrimPrefix(t.GGUF, "blk."), "."); ok && rest != "weight" {
			short = rest
		}
		switch spread, n := spreads[short], t.Shape[0]; {
		case t.Optional || strings.HasSuffix(short, ".scale"):
		case strings.HasSuffix(short, ".bias"):
			b.vector(t.GGUF, n, 0, spread)
		case len(t.Shape) == 1:
			b.vector(t.GGUF, n, 1, 0.2)
		case t.Kind == arch.Embedding:
			b.matrix(t.GGUF, n, b.dim, b.embedding, 0)
		case t.Kind == arch.Output:
			b.matrix(t.GGUF, n, b.dim, b.output*invRoot(b.dim), 0)
		default:
			b.matrix(t.GGUF, n, t.Shape[1], spread*invRoot(t.Shape[1]), b.noise)
		}
	}
	return b.all
}

// rotary is the number of rotated elements of a head.
func (b *builder) rotary() int {
	for _, f := range b.hparams.fields {
		if f.Key == "rope.dimension_count" {
			return int(f.Value.(uint32))
		}
	}
	return b.head
}

func describe(fields []gguf.KV, given []gguf.WriteTensor) (*arch.Model, error) {
	raw, err := gguf.Bytes(fields, given)
	if err != nil {
		return nil, err
	}
	f, err := gguf.Open(files.FromBytes("model.gguf", raw))
	if err != nil {
		return nil, err
	}
	return arch.Read(f, 0)
}

// invRoot is 1/√n for the widths of the models, to three digits and thus alike everywhere.
func invRoot(n int) float64 {
	for r := 0.001; ; r += 0.001 {
		if r*r*float64(n) >= 1 {
			return r
		}
	}
}

func (b *builder) vector(name string, n int, mean, spread float64) {
	x := b.normal(name, n, spread)
	for i := range x {
		x[i] += float32(mean)
	}
	b.add(name, gguf.F32, []uint64{uint64(n)}, x)
}

func (b *builder) matrix(name string, rows, cols int, spread, noise float64) {
	dims := []uint64{uint64(cols), uint64(rows)}
	if b.store.halves != nil {
		b.addBlocks(name, dims, rows*cols, spread)
		return
	}
	x := b.normal(name, rows*cols, spread)
	if noise > 0 {
		for i, n := range b.normal(name+" noise", len(x), noise*spread) {
			x[i] += n
		}
	}
	typ := b.store.typ
	if typ == gguf.Q4_0 && (name == "output.weight" || b.tied && name == "token_embd.weight") {
		typ = gguf.Q8_0 // as converters do
	}
	b.add(name, typ, dims, x)
}

func (b *builder) random(name string) *rand.PCG {
	h := fnv.New64a()
	h.Write([]byte(b.seed + " " + name))
	return rand.NewPCG(h.Sum64(), 0)
}

// normal returns sums of four uniform numbers each. They are nearly normal, and need no function that machines round
// differently.
func (b *builder) normal(name string, n int, spread float64) []float32 {
	random, x := b.random(name), make([]float32, n)
	const unit = 37837 // the standard deviation of the sums below
	scale := float32(spread / unit)
	for i := range x {
		bits := random.Uint64()
		sum := 0
		for k := range 4 {
			sum += int(int16(bits >> (16 * k)))
		}
		x[i] = float32(sum) * scale
	}
	return x
}

func (b *builder) add(name string, typ gguf.Type, dims []uint64, x []float32) {
	raw := make([]byte, size(typ, len(x)))
	if err := quant.Quantize(typ, x, raw); err != nil {
		panic(err)
	}
	b.all = append(b.all, gguf.WriteTensor{Name: name, Dims: dims, Type: typ, Data: raw})
}

// addBlocks fills blocks with random bits, whose scales lie between three and five quarters of what spread asks for.
func (b *builder) addBlocks(name string, dims []uint64, n int, spread float64) {
	typ, random := b.store.typ, b.random(name)
	raw := make([]byte, size(typ, n)+7)
	for i := 0; i+8 <= len(raw); i += 8 {
		binary.LittleEndian.PutUint64(raw[i:], random.Uint64())
	}
	raw = raw[:size(typ, n)]
	for block := 0; block < len(raw); block += int(typ.BlockBytes()) {
		scale := spread / b.store.spread * (0.75 + float64(random.Uint64()>>54)/2048)
		for k, at := range b.store.halves {
			if k == 1 {
				scale *= b.store.second
			}
			binary.LittleEndian.PutUint16(raw[block+at:], float16.Fromfloat32(float32(scale)).Bits())
		}
	}
	b.all = append(b.all, gguf.WriteTensor{Name: name, Dims: dims, Type: typ, Data: raw})
}

func size(typ gguf.Type, n int) int {
	bytes, err := quant.RowBytes(typ, n)
	if err != nil {
		panic(err)
	}
	return bytes
}
