package modeltest

import (
	"math"
	"math/rand/v2"
	"slices"

	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/webgpu"
)

// Weights are the tensors of a model in float32, by their names in GGUF.
type Weights map[string][]float32

// RandomWeights returns weights for every tensor that a model lists. Norms are about 1, and products keep the size of
// their inputs.
func RandomWeights(m *arch.Model, seed uint64) Weights {
	rng, w := rand.New(rand.NewPCG(seed, seed)), Weights{}
	for t := range m.Tensors() {
		n, mean, spread := 1, 0.0, 1.0
		for _, side := range t.Shape {
			n *= side
		}
		switch {
		case t.Kind == arch.Embedding || t.Kind == arch.Output:
			spread = 0.3
		case len(t.Shape) == 2:
			spread = 1.5 / math.Sqrt(float64(t.Shape[1]))
		case t.Kind != arch.QKVBias:
			mean, spread = 1, 0.3
		}
		if t.Kind == arch.Header || w[t.GGUF] != nil {
			continue
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(mean + spread*rng.NormFloat64())
		}
		w[t.GGUF] = x
	}
	return w
}

// File returns the tensors of a model as a GGUF file without metadata.
func (w Weights) File(m *arch.Model) ([]byte, error) {
	var tensors []gguf.WriteTensor
	seen := map[string]bool{}
	for t := range m.Tensors() {
		if x := w[t.GGUF]; x != nil && !seen[t.GGUF] {
			seen[t.GGUF] = true
			dims := make([]uint64, len(t.Shape))
			for i, n := range t.Shape {
				dims[len(dims)-1-i] = uint64(n)
			}
			tensors = append(tensors, gguf.WriteTensor{Name: t.GGUF, Dims: dims, Type: gguf.F32,
				Data: webgpu.F32Bytes(x)})
		}
	}
	return gguf.Bytes(nil, tensors)
}

// Run is a forward pass in float64 over a description, which shares no code with package graph.
type Run struct {
	Logits [][]float64   // (positions, vocabulary)
	Hidden [][]float64   // (positions, dim), after the output norm
	Inputs [][][]float64 // (positions, layers+1, dim): of each layer, and of the output norm

	keys, values [][][]float64 // (layer, position, heads·dim)
}

// Evaluate runs tokens. Layers that share a cache attend to all positions of lender, and position from+i is token i's.
func Evaluate(m *arch.Model, w Weights, tokens []int32, from int, lender *Run) *Run {
	e := evaluator{m: m, parts: map[place][]float64{}}
	for t := range m.Tensors() {
		key := place{t.Kind, t.Layer}
		for _, x := range w[t.GGUF] {
			e.parts[key] = append(e.parts[key], float64(x)*or(m.Scales[t.GGUF], 1))
		}
	}
	run := &Run{keys: make([][][]float64, len(m.Layers)), values: make([][][]float64, len(m.Layers))}
	residual := m.Residual
	for i, token := range tokens {
		x := slices.Clone(e.parts[place{arch.Embedding, 0}][int(token)*m.Dim:][:m.Dim])
		for j := range x {
			x[j] *= m.Embed
		}
		inputs := [][]float64{slices.Clone(x)}
		for l, y := range m.Layers {
			mixed := e.attend(run, lender, l, y.Mix, from+i, e.norm(arch.MixNorm, l, x, len(x)))
			mixed = e.norm(arch.MixInnerNorm, l, mixed, len(mixed))
			e.add(x, e.norm(arch.MixPostNorm, l, e.product(arch.MixOut, l, mixed), len(x)), residual)
			both := e.product(arch.Gates, l, e.norm(arch.FFNNorm, l, x, len(x)))
			gate, up := both[:y.FFN.Width], both[y.FFN.Width:]
			for j, g := range gate {
				up[j] *= g / (1 + math.Exp(-g))
			}
			up = e.norm(arch.FFNInnerNorm, l, up, len(up))
			e.add(x, e.norm(arch.FFNPostNorm, l, e.product(arch.Down, l, up), len(x)), residual)
			inputs = append(inputs, slices.Clone(x))
		}
		x = e.norm(arch.OutputNorm, 0, x, len(x))
		output := arch.Output
		if m.Tied {
			output = arch.Embedding
		}
		logits := e.product(output, 0, x)
		for j := range logits {
			logits[j] *= m.Logit
		}
		run.Hidden, run.Logits = append(run.Hidden, x), append(run.Logits, logits)
		run.Inputs = append(run.Inputs, inputs)
	}
	return run
}

// place is a kind of tensor in a layer.
type place struct {
	kind  arch.Kind
	layer int
}

type evaluator struct {
	m     *arch.Model
	parts map[place][]float64
}

func or(x, missing float64) float64 {
	if x == 0 {
		return missing
	}
	return x
}

func (e *evaluator) add(x, y []float64, times float64) {
	for i, v := range y {
		x[i] += times * v
	}
}

func (e *evaluator) product(k arch.Kind, layer int, x []float64) []float64 {
	w := e.parts[place{k, layer}]
	out := make([]float64, len(w)/len(x))
	for i := range out {
		row, sums := w[i*len(x):][:len(x)], [4]float64{}
		for j, v := range x {
			sums[j%4] += row[j] * v
		}
		out[i] = sums[0] + sums[1] + sums[2] + sums[3]
	}
	return out
}

// norm normalises pieces of x if the model has the norm. Its weight has one element for each of x, or is shared by
// the pieces.
func (e *evaluator) norm(k arch.Kind, layer int, x []float64, piece int) []float64 {
	w := e.parts[place{k, layer}]
	if w == nil {
		return x
	}
	return normed(x, w, piece, e.m.Eps)
}

func normed(x, w []float64, piece int, eps float64) []float64 {
	out := make([]float64, len(x))
	for from := 0; from < len(x); from += piece {
		sum := 0.0
		for _, v := range x[from:][:piece] {
			sum += v * v
		}
		for i := from; i < from+piece; i++ {
			out[i] = x[i] / math.Sqrt(sum/float64(piece)+eps) * w[i%len(w)]
		}
	}
	return out
}

// attend returns the values that a token's queries attend to, and appends its keys and values.
func (e *evaluator) attend(run, lender *Run, l int, a *arch.Attention, position int, x []float64) []float64 {
	q, kv := a.Query*a.Dim, a.KV*a.Dim
	qkv := e.product(arch.QKV, l, x)
	for i, b := range e.parts[place{arch.QKVBias, l}] {
		qkv[i] += b
	}
	if !a.NormLate {
		e.normHeads(l, a, qkv)
	}
	e.rotate(a, qkv[:q], position)
	if a.Shares == 0 {
		e.rotate(a, qkv[q:][:kv], position)
	}
	if a.NormLate {
		e.normHeads(l, a, qkv)
	}
	keys, values, first := [][]float64(nil), [][]float64(nil), 0
	if a.Shares > 0 {
		keys, values = lender.keys[a.Shares-1], lender.values[a.Shares-1]
	} else {
		run.keys[l], run.values[l] = append(run.keys[l], qkv[q:][:kv]), append(run.values[l], qkv[q+kv:])
		keys, values = run.keys[l], run.values[l]
	}
	if a.Window > 0 {
		first = max(0, len(keys)-a.Window)
	}
	scale, out := or(a.Scale, 1/math.Sqrt(float64(a.Dim))), make([]float64, q)
	for h := range a.Query {
		from, sum := h/(a.Query/a.KV)*a.Dim, 0.0
		for j := first; j < len(keys); j++ {
			score := 0.0
			for d := range a.Dim {
				score += qkv[h*a.Dim+d] * keys[j][from+d]
			}
			weight := math.Exp(score * scale)
			sum += weight
			for d := range a.Dim {
				out[h*a.Dim+d] += weight * values[j][from+d]
			}
		}
		for d := range a.Dim {
			out[h*a.Dim+d] /= sum
		}
	}
	return out
}

// normHeads normalises the queries and keys of a row, if the layer has norms of them.
func (e *evaluator) normHeads(l int, a *arch.Attention, qkv []float64) {
	w, q, kv := e.parts[place{arch.QKNorm, l}], a.Query*a.Dim, a.KV*a.Dim
	if w == nil {
		return
	}
	pieces, first := [2]int{a.Dim, a.Dim}, a.Dim
	if a.QKNorm == arch.Row {
		pieces, first = [2]int{q, kv}, q
	}
	copy(qkv, normed(qkv[:q], w[:first], pieces[0], e.m.Eps))
	if a.Shares == 0 {
		copy(qkv[q:], normed(qkv[q:][:kv], w[first:], pieces[1], e.m.Eps))
	}
}

func (e *evaluator) rotate(a *arch.Attention, x []float64, position int) {
	if a.Rope == nil {
		return
	}
	for from := 0; from < len(x); from += a.Dim {
		for i, f := range a.Rope.Inverse {
			p, q := from+2*i, from+2*i+1
			if a.HalfSplit {
				p, q = from+i, from+i+a.Rotary/2
			}
			sin, cos := math.Sincos(float64(position) * f)
			x[p], x[q] = a.Rope.Magnitude*(x[p]*cos-x[q]*sin), a.Rope.Magnitude*(x[p]*sin+x[q]*cos)
		}
	}
}
