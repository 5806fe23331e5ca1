package runner

import (
	"math"
	"slices"
	"testing"

	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/spec"
)

// refHead is a head on the host in float64.
type refHead struct {
	*arch.Model
	*arch.Attention
	w     map[string][]float64
	embed func(id int32) []float64
	tol   float64 // of log-probabilities
}

func newRefHead(t *testing.T, target, file *gguf.File) *refHead {
	t.Helper()
	m, err := arch.ReadHead(file)
	if err != nil {
		t.Fatal(err)
	}
	h := &refHead{Model: m, Attention: m.Layers[0].Mix, w: map[string][]float64{}, tol: 5e-5}
	for want := range m.Tensors() {
		if want.Kind != arch.Header {
			h.w[want.GGUF] = hostMatrix(t, file, want.GGUF)
		}
	}
	if !m.Features.Output { // the target's, which is tied to its embedding
		h.w["output.weight"] = hostMatrix(t, target, "token_embd.weight")
	}
	table := h.w["token_embd.weight"]
	if table == nil {
		table = hostMatrix(t, target, "token_embd.weight")
	}
	h.embed = func(id int32) []float64 { return table[int(id)*m.Dim:][:m.Dim] }
	return h
}

func hostMatrix(t *testing.T, f *gguf.File, name string) []float64 {
	t.Helper()
	info, err := f.Tensor(name)
	if err != nil {
		t.Fatal(err)
	}
	raw, x := make([]byte, info.Size), make([]float32, info.Elements())
	if err := f.ReadTensor(info, raw, 0); err != nil {
		t.Fatal(err)
	}
	if err := quant.Dequantize(info.Type, raw, x); err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func product(w, x []float64) []float64 {
	out := make([]float64, len(w)/len(x))
	for i := range out {
		for k, v := range x {
			out[i] += w[i*len(x)+k] * v
		}
	}
	return out
}

func normed(x, w []float64, eps float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v / math.Sqrt(sum/float64(len(x))+eps) * w[i]
	}
	return out
}

func plus(x, y []float64) []float64 {
	out := make([]float64, len(x))
	for i := range x {
		out[i] = x[i] + y[i]
	}
	return out
}

// fuse returns the feature of a position from those of its taps.
func (h *refHead) fuse(taps []float64) []float64 {
	if h.Features.NormFused {
		taps = normed(taps, h.w["enc.output_norm.weight"], h.Eps)
	}
	return product(h.w["fc.weight"], taps)
}

// logProbs runs tokens[1:] through the head and returns ln q of each target id after the last. A token uses the
// target's feature for the token before it if there is one, otherwise the head's own output.
func (h *refHead) logProbs(features [][]float64, tokens []int32) map[int32]float64 {
	layer := func(name string) []float64 { return h.w["blk.0."+name+".weight"] }
	dim := h.Attention.Dim
	var keys, values [][]float64
	var x []float64
	for p, token := range tokens[1:] {
		if p < len(features) {
			x = h.fuse(features[p])
		} else if h.Features.NormedNext {
			x = normed(x, h.w["output_norm.weight"], h.Eps)
		}
		feature := normed(x, layer("attn_norm_2"), h.Eps)
		if h.Features.NormedSkip {
			x = feature
		}
		in := append(normed(h.embed(token), layer("attn_norm"), h.Eps), feature...)
		turn := func(v []float64) []float64 {
			for at := 0; at < len(v); at += dim {
				for i, f := range h.Rope.Inverse {
					s, c := math.Sincos(float64(p) * f)
					i, j := at+2*i, at+2*i+1
					if h.HalfSplit {
						i, j = at+(i-at)/2, at+(i-at)/2+dim/2
					}
					v[i], v[j] = v[i]*c-v[j]*s, v[j]*c+v[i]*s
				}
			}
			return v
		}
		q := turn(product(layer("attn_q"), in))
		keys, values = append(keys, turn(product(layer("attn_k"), in))), append(values, product(layer("attn_v"), in))
		att := make([]float64, len(q))
		for head := range h.Query {
			kv := head / (h.Query / h.KV) * dim
			weights, sum := make([]float64, len(keys)), 0.0
			for i := range keys {
				for d := range dim {
					weights[i] += q[head*dim+d] * keys[i][kv+d]
				}
				weights[i] = math.Exp(weights[i] / math.Sqrt(float64(dim)))
				sum += weights[i]
			}
			for i := range keys {
				for d := range dim {
					att[head*dim+d] += weights[i] / sum * values[i][kv+d]
				}
			}
		}
		x = plus(x, product(layer("attn_output"), att))
		in = normed(x, layer("ffn_norm"), h.Eps)
		gate, up := product(layer("ffn_gate"), in), product(layer("ffn_up"), in)
		for i, g := range gate {
			up[i] *= g / (1 + math.Exp(-g))
		}
		x = plus(x, product(layer("ffn_down"), up))
	}
	logits := product(h.w["output.weight"], normed(x, h.w["output_norm.weight"], h.Eps))
	sum := 0.0
	for _, z := range logits {
		sum += math.Exp(z)
	}
	out := map[int32]float64{}
	for i, z := range logits {
		out[h.Features.Targets[i]] = z - math.Log(sum)
	}
	return out
}

// checkTree compares the levels of a tree with the reference: the candidates of every beam are its best by ln q,
// and the best candidates by V became the next beams.
func (h *refHead) checkTree(t *testing.T, what string, features [][]float64, tokens []int32, levels []spec.Level,
	k int) {
	t.Helper()
	tol := h.tol
	type beam struct {
		path []int32
		v    float64
	}
	beams := []beam{{}}
	for depth, l := range levels {
		var values []float64
		for i, b := range beams {
			want := h.logProbs(features, append(slices.Clone(tokens), b.path...))
			entropy, ids := 0.0, []int32{}
			for id, q := range want {
				entropy -= math.Exp(q) * q
				ids = append(ids, id)
			}
			slices.SortFunc(ids, func(x, y int32) int {
				if want[x] > want[y] {
					return -1
				}
				return 1
			})
			if math.Abs(float64(l.Entropies[i])-entropy) > tol {
				t.Fatalf("%s: level %d beam %d: entropy %g, want %g", what, depth, i, l.Entropies[i], entropy)
			}
			for rank := range k {
				c := l.Candidates[i*k+rank]
				q, known := want[c.Token]
				if !known || math.Abs(float64(c.LogQ)-q) > tol || q < want[ids[rank]]-2*tol || int(c.Beam) != i {
					t.Fatalf("%s: level %d beam %d rank %d: %+v, but ln q is %g (known %v), "+
						"and the best has %d with %g", what, depth, i, rank, c, q, known, ids[rank], want[ids[rank]])
				}
				values = append(values, b.v+q)
			}
		}
		if depth == len(levels)-1 {
			break
		}
		ranked := slices.Clone(values)
		slices.Sort(ranked)
		slices.Reverse(ranked)
		var next []beam
		for rank, at := range l.Beams {
			if values[at] < ranked[rank]-3*tol {
				t.Fatalf("%s: level %d: beam %d has V %g, want %g", what, depth, rank, values[at], ranked[rank])
			}
			c := l.Candidates[at]
			next = append(next, beam{append(slices.Clone(beams[c.Beam].path), c.Token), values[at]})
		}
		beams = next
	}
}
