package runner

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/gguf"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// toy is a small model with random weights and two forward passes: the device under test runs the file that bytes
// writes, and forward computes in float64 without sharing code with it.
type toy struct {
	arch                                            string
	dim, layers, ffn, heads, kv, head, rotary, most int // most: context_length
	vocab                                           int
	base                                            float64
	halfSplit, norms, bias, untied                  bool
	window                                          int
	slides                                          []bool  // by layer; nil: all
	linear                                          float64 // factor of all frequencies
	llama3                                          *[4]float64
	yarn                                            *toyYarn
	fields                                          []gguf.KV // additional fields of the file
	freqs                                           bool      // llama3's divisors as a tensor
	cache                                           kernels.KVFormat
	weights                                         map[string][]float32
	stored                                          map[string]stored // matrices of another type than F32
}

// stored is a matrix as the file has it; the toy's weights are its values.
type stored struct {
	t   gguf.Type
	raw []byte
}

// toyYarn holds YaRN's settings; attention is the factor of the table.
type toyYarn struct{ factor, original, fast, slow, attention float64 }

const toyEps = 1e-5

func newToy(change func(*toy)) *toy {
	t := &toy{arch: "llama", dim: 64, layers: 2, ffn: 96, heads: 4, kv: 2, head: 16, most: 64, vocab: 96, base: 10000,
		linear: 1, weights: map[string][]float32{}}
	if change != nil {
		change(t)
	}
	if t.rotary == 0 {
		t.rotary = t.head
	}
	rng := rand.New(rand.NewPCG(uint64(t.head), uint64(len(t.arch))))
	normal := func(name string, n int, mean, spread float64) {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(mean + spread*rng.NormFloat64())
		}
		t.weights[name] = x
	}
	d, q, kv := float64(t.dim), t.heads*t.head, t.kv*t.head
	normal("token_embd.weight", t.vocab*t.dim, 0, 0.3)
	for l := range t.layers {
		p := fmt.Sprintf("blk.%d.", l)
		normal(p+"attn_norm.weight", t.dim, 1, 0.2)
		normal(p+"attn_q.weight", q*t.dim, 0, 2/math.Sqrt(d))
		normal(p+"attn_k.weight", kv*t.dim, 0, 2/math.Sqrt(d))
		normal(p+"attn_v.weight", kv*t.dim, 0, 1/math.Sqrt(d))
		normal(p+"attn_output.weight", t.dim*q, 0, 1/math.Sqrt(float64(q)))
		if t.bias {
			normal(p+"attn_q.bias", q, 0, 1)
			normal(p+"attn_k.bias", kv, 0, 1)
			normal(p+"attn_v.bias", kv, 0, 1)
		}
		if t.norms {
			normal(p+"attn_q_norm.weight", t.head, 1, 0.3)
			normal(p+"attn_k_norm.weight", t.head, 1, 0.3)
		}
		normal(p+"ffn_norm.weight", t.dim, 1, 0.2)
		normal(p+"ffn_gate.weight", t.ffn*t.dim, 0, 1/math.Sqrt(d))
		normal(p+"ffn_up.weight", t.ffn*t.dim, 0, 1/math.Sqrt(d))
		normal(p+"ffn_down.weight", t.dim*t.ffn, 0, 1/math.Sqrt(float64(t.ffn)))
	}
	normal("output_norm.weight", t.dim, 1, 0.2)
	if t.untied {
		normal("output.weight", t.vocab*t.dim, 0, 0.3)
	}
	if t.freqs {
		for _, f := range t.frequencies(false) {
			t.weights["rope_freqs.weight"] = append(t.weights["rope_freqs.weight"], float32(f/t.llama3Frequency(f)))
		}
	}
	return t
}

// file returns the model as GGUF, without the fields of the given keys.
func (t *toy) file(test *testing.T, without ...string) *gguf.File {
	test.Helper()
	f, err := gguf.Open(files.FromBytes("toy.gguf", t.bytes(test, without...)))
	if err != nil {
		test.Fatal(err)
	}
	return f
}

func (t *toy) bytes(test *testing.T, without ...string) []byte {
	test.Helper()
	a := t.arch + "."
	kv := []gguf.KV{{Key: "general.architecture", Value: t.arch}, {Key: a + "context_length", Value: uint32(t.most)},
		{Key: a + "embedding_length", Value: uint32(t.dim)}, {Key: a + "block_count", Value: uint32(t.layers)},
		{Key: a + "feed_forward_length", Value: uint32(t.ffn)},
		{Key: a + "attention.head_count", Value: uint32(t.heads)},
		{Key: a + "attention.head_count_kv", Value: uint32(t.kv)},
		{Key: a + "attention.layer_norm_rms_epsilon", Value: float32(toyEps)},
		{Key: a + "attention.key_length", Value: uint32(t.head)},
		{Key: a + "attention.value_length", Value: uint32(t.head)},
		{Key: a + "rope.dimension_count", Value: uint32(t.rotary)}, {Key: a + "rope.freq_base", Value: float32(t.base)}}
	if t.window > 0 {
		kv = append(kv, gguf.KV{Key: a + "attention.sliding_window", Value: uint32(t.window)})
	}
	if t.slides != nil {
		kv = append(kv, gguf.KV{Key: a + "attention.sliding_window_pattern", Value: t.slides})
	}
	for _, e := range t.fields { // a repeated field replaces the first
		kv = append(slices.DeleteFunc(kv, func(old gguf.KV) bool { return old.Key == e.Key }), e)
	}
	kv = slices.DeleteFunc(kv, func(e gguf.KV) bool { return slices.Contains(without, e.Key) })
	var tensors []gguf.WriteTensor
	for _, name := range slices.Sorted(maps.Keys(t.weights)) {
		x := t.weights[name]
		dims := []uint64{uint64(len(x))}
		if cols := t.columns(name); cols > 0 {
			dims = []uint64{uint64(cols), uint64(len(x) / cols)}
		}
		data := stored{gguf.F32, webgpu.F32Bytes(x)}
		if s, ok := t.stored[name]; ok {
			data = s
		}
		if !slices.Contains(without, name) {
			tensors = append(tensors, gguf.WriteTensor{Name: name, Dims: dims, Type: data.t, Data: data.raw})
		}
	}
	b, err := gguf.Bytes(kv, tensors)
	if err != nil {
		test.Fatal(err)
	}
	return b
}

// columns returns the row length of a matrix, 0 for a vector.
func (t *toy) columns(name string) int {
	var layer int
	var rest string
	if n, _ := fmt.Sscanf(name, "blk.%d.%s", &layer, &rest); n < 2 {
		rest = name
	}
	switch rest {
	case "token_embd.weight", "output.weight", "attn_q.weight", "attn_k.weight", "attn_v.weight",
		"ffn_gate.weight", "ffn_up.weight":
		return t.dim
	case "attn_output.weight":
		return t.heads * t.head
	case "ffn_down.weight":
		return t.ffn
	}
	return 0
}

// llama3Frequency scales a frequency as transformers does for rope_type llama3, by wavelength.
func (t *toy) llama3Frequency(f float64) float64 {
	factor, low, high, original := t.llama3[0], t.llama3[1], t.llama3[2], t.llama3[3]
	wavelength := 2 * math.Pi / f
	if wavelength < original/high {
		return f
	}
	if wavelength > original/low {
		return f / factor
	}
	smooth := (original/wavelength - low) / (high - low)
	return (1-smooth)*f/factor + smooth*f
}

// frequencies returns the inverse frequencies, scaled or not.
func (t *toy) frequencies(scaled bool) []float64 {
	out := make([]float64, t.rotary/2)
	for i := range out {
		out[i] = 1 / math.Pow(t.base, float64(2*i)/float64(t.rotary))
		if !scaled {
			continue
		}
		if t.llama3 != nil {
			out[i] = t.llama3Frequency(out[i])
		}
		out[i] /= t.linear
		if y := t.yarn; y != nil { // as transformers does for rope_type yarn
			correction := func(rotations float64) float64 {
				return float64(t.rotary) * math.Log(y.original/(rotations*2*math.Pi)) / (2 * math.Log(t.base))
			}
			low := math.Max(math.Floor(correction(y.fast)), 0)
			high := math.Min(math.Ceil(correction(y.slow)), float64(t.rotary-1))
			if low == high {
				high += 0.001
			}
			extrapolation := 1 - math.Min(math.Max((float64(i)-low)/(high-low), 0), 1)
			out[i] = out[i]/y.factor*(1-extrapolation) + out[i]*extrapolation
		}
	}
	return out
}

// forward returns the logits after each token.
func (t *toy) forward(tokens []int32) [][]float64 {
	frequencies, magnitude := t.frequencies(true), 1.0
	if t.yarn != nil {
		magnitude = t.yarn.attention
	}
	keys, values := make([][][]float64, t.layers), make([][][]float64, t.layers) // (layer, position, kv·head)
	var logits [][]float64
	for position, token := range tokens {
		x := make([]float64, t.dim)
		for i := range x {
			x[i] = float64(t.weights["token_embd.weight"][int(token)*t.dim+i])
		}
		for l := range t.layers {
			p := fmt.Sprintf("blk.%d.", l)
			h := toyNorm(x, t.weights[p+"attn_norm.weight"])
			q, k, v := t.project(p+"attn_q", h), t.project(p+"attn_k", h), t.project(p+"attn_v", h)
			for i := range t.heads {
				t.turn(q[i*t.head:][:t.head], p+"attn_q_norm.weight", position, frequencies, magnitude)
			}
			for i := range t.kv {
				t.turn(k[i*t.head:][:t.head], p+"attn_k_norm.weight", position, frequencies, magnitude)
			}
			if t.cache == kernels.KVQ8 {
				t.round(k)
				t.round(v)
			}
			keys[l], values[l] = append(keys[l], k), append(values[l], v)
			mixed := make([]float64, t.heads*t.head)
			for i := range t.heads {
				shared := i / (t.heads / t.kv) * t.head
				first := 0
				if t.window > 0 && (t.slides == nil || t.slides[l]) {
					first = max(0, position-t.window+1)
				}
				weights, sum := make([]float64, position+1), 0.0
				for j := first; j <= position; j++ {
					for d := range t.head {
						weights[j] += q[i*t.head+d] * keys[l][j][shared+d]
					}
					weights[j] = math.Exp(weights[j] / math.Sqrt(float64(t.head)))
					sum += weights[j]
				}
				for j := first; j <= position; j++ {
					for d := range t.head {
						mixed[i*t.head+d] += weights[j] / sum * values[l][j][shared+d]
					}
				}
			}
			for i, v := range t.project(p+"attn_output", mixed) {
				x[i] += v
			}
			h = toyNorm(x, t.weights[p+"ffn_norm.weight"])
			gate, up := t.project(p+"ffn_gate", h), t.project(p+"ffn_up", h)
			for i, g := range gate {
				up[i] *= g / (1 + math.Exp(-g))
			}
			for i, v := range t.project(p+"ffn_down", up) {
				x[i] += v
			}
		}
		output := "output"
		if !t.untied {
			output = "token_embd"
		}
		logits = append(logits, t.project(output, toyNorm(x, t.weights["output_norm.weight"])))
	}
	return logits
}

func toyNorm(x []float64, weight []float32) []float64 {
	sum, out := 0.0, make([]float64, len(x))
	for _, v := range x {
		sum += v * v
	}
	for i, v := range x {
		out[i] = v / math.Sqrt(sum/float64(len(x))+toyEps) * float64(weight[i])
	}
	return out
}

// project multiplies by a matrix and adds the bias if there is one.
func (t *toy) project(name string, x []float64) []float64 {
	w := t.weights[name+".weight"]
	out := make([]float64, len(w)/len(x))
	for i := range out {
		for j, v := range x {
			out[i] += v * float64(w[i*len(x)+j])
		}
		if b := t.weights[name+".bias"]; b != nil {
			out[i] += float64(b[i])
		}
	}
	return out
}

// round rounds a row's heads as a q8 cache does.
func (t *toy) round(x []float64) {
	block := 32
	for t.head%block != 0 {
		block /= 2
	}
	for from := 0; from < len(x); from += block {
		most := 0.0
		for _, v := range x[from : from+block] {
			most = math.Max(most, math.Abs(v))
		}
		for i, v := range x[from : from+block] {
			x[from+i] = math.Floor(v/most*127+0.5) * most / 127
		}
	}
}

// turn normalises a head if the model does, and rotates it.
func (t *toy) turn(x []float64, norm string, position int, frequencies []float64, magnitude float64) {
	if w := t.weights[norm]; w != nil {
		copy(x, toyNorm(x, w))
	}
	for i, f := range frequencies {
		a, b := 2*i, 2*i+1
		if t.halfSplit {
			a, b = i, i+t.rotary/2
		}
		sin, cos := math.Sincos(float64(position) * f)
		x[a], x[b] = magnitude*(x[a]*cos-x[b]*sin), magnitude*(x[a]*sin+x[b]*cos)
	}
}
