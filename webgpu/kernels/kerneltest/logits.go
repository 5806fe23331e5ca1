package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"foretoken/webgpu/kernels"
)

// SamplingRows is the number of kinds of row that Logits makes, in turn.
const SamplingRows = 8

// Logits returns (rows, vocab) logits: typical rows and degenerate ones.
func Logits(seed uint64, rows, vocab int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 9))
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	x := make([]float32, rows*vocab)
	for row := range rows {
		in := x[row*vocab:][:vocab]
		for i := range in {
			in[i] = float32(3 * rng.NormFloat64())
			switch row % SamplingRows {
			case 1: // ties, zeros of both signs among them
				in[i] = float32(math.Round(float64(in[i]) / 2))
			case 2: // masked tokens
				if rng.IntN(3) == 0 {
					in[i] = -inf
				}
			case 3:
				if rng.IntN(5) == 0 {
					in[i] = nan
				}
			case 4:
				in[i] = nan
			case 5: // outliers
				if rng.IntN(97) == 0 {
					in[i] *= 30
				}
			case 6:
				in[i] = 2.5
			case 7: // nearly flat, far from zero
				in[i] = 100 + in[i]/100
			}
		}
	}
	if rows >= SamplingRows && vocab > 7 {
		x[3*vocab+7] = inf
	}
	return x
}

// Exact holds the distribution of a row in float64, computed by the definition.
type Exact struct {
	Z      []float64
	key    kernels.DrawKey
	Scale  float64 // 1/temperature, 0 for argmax
	Argmax int
}

func Exactly(in []float32, draw []uint32, position uint32) *Exact {
	e := &Exact{key: kernels.RowKey(draw, draw[3], position), Scale: kernels.Float(draw[0])}
	for i, v := range in {
		e.Z = append(e.Z, kernels.Finite(v))
		if e.Z[i] > e.Z[e.Argmax] {
			e.Argmax = i
		}
	}
	return e
}

// score returns the perturbed score that draws maximise.
func (e *Exact) score(id int) float64 { return e.Z[id]*e.Scale + e.key.Gumbel(uint32(id)) }

// LogSumExp returns the log-sum-exp of x over the kept ids, and the entropy.
func LogSumExp(x []float64, kept func(int) bool) (lse, entropy float64) {
	most := math.Inf(-1)
	for i, v := range x {
		if kept(i) {
			most = max(most, v)
		}
	}
	sum, moment := 0.0, 0.0
	for i, v := range x {
		if kept(i) {
			e := math.Exp(v - most)
			sum += e
			moment += (v - most) * e
		}
	}
	return most + math.Log(sum), math.Log(sum) - moment/sum
}

func (e *Exact) Scaled() []float64 {
	x := make([]float64, len(e.Z))
	for i, z := range e.Z {
		x[i] = z * e.Scale
	}
	return x
}

func (e *Exact) Scores() []float64 {
	x := make([]float64, len(e.Z))
	for i := range e.Z {
		x[i] = e.score(i)
	}
	return x
}

func Everything(int) bool { return true }

// Drawn checks that y has the best perturbed score among the kept ids, up to f32 rounding.
func (e *Exact) Drawn(t testing.TB, what string, y int, kept func(int) bool) {
	t.Helper()
	if y < 0 || y >= len(e.Z) {
		t.Fatalf("%s: drew %d of %d ids", what, y, len(e.Z))
	}
	if e.Scale == 0 {
		if y != e.Argmax {
			t.Fatalf("%s: drew %d at temperature 0, the argmax is %d", what, y, e.Argmax)
		}
		return
	}
	if !kept(y) {
		t.Fatalf("%s: drew %d, which the filters drop", what, y)
	}
	best := math.Inf(-1)
	for i := range e.Z {
		if kept(i) && e.Z[i]*e.Scale+23 > best {
			best = max(best, e.score(i))
		}
	}
	if s := e.score(y); s < best-Nearby(best) {
		t.Fatalf("%s: drew %d with score %g, the best is %g", what, y, s, best)
	}
}

// Nearby returns the f32 rounding error of a score.
func Nearby(s float64) float64 { return 1e-4 + 3e-7*math.Abs(s) }

func Near(t testing.TB, what string, got float32, want, tol float64) {
	t.Helper()
	if math.IsNaN(float64(got)) || math.Abs(float64(got)-want) > tol+2e-6*math.Abs(want) {
		t.Fatalf("%s = %g, exactly it is %g", what, got, want)
	}
}

// Words encodes p as a slice.
func Words(p kernels.DrawParams) []uint32 { w := p.Words(); return w[:] }

func PositionsFrom(start, n int) []uint32 {
	p := make([]uint32, n)
	for i := range p {
		p[i] = uint32(start + i)
	}
	return p
}

// SpreadRuns returns the number of runs; it is lower for kernels with barriers, which are slow on software adapters.
func SpreadRuns(lanes kernels.Lanes) int {
	if lanes == kernels.Serial {
		return 160
	}
	return 32
}

// Distribution returns softmax(z·scale) over the kept ids.
func (e *Exact) Distribution(kept func(int) bool) []float64 {
	x := e.Scaled()
	lse, _ := LogSumExp(x, kept)
	for i := range x {
		if kept(i) {
			x[i] = math.Exp(x[i] - lse)
		} else {
			x[i] = 0
		}
	}
	return x
}

// Vocabularies returns the tested sizes: small, just off a power of two, and as models have them.
func Vocabularies() []int {
	if testing.Short() {
		return []int{32, 511, 512, 2048}
	}
	if Full() {
		return []int{32, 511, 512, 2048, 5000, 32003, 151936}
	}
	return []int{32, 511, 512, 2048, 32003, 151936}
}
