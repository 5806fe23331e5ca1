package arch

import (
	"encoding/binary"
	"fmt"
	"math"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
)

// Rope is a rotary embedding.
type Rope struct {
	// Inverse frequencies in radians per position, scaling applied: (Rotary/2).
	Inverse   []float64
	Magnitude float64 // factor of rotated queries and keys; 1 except with YaRN and LongRoPE
	Long      bool    // LongRoPE: the file has divisors for short and for long contexts
}

// The tensors of divisors of its frequencies: for all contexts, or for those up to the original one and beyond.
const (
	ropeFreqs = "rope_freqs.weight"
	ropeShort = "rope_factors_short.weight"
	ropeLong  = "rope_factors_long.weight"
)

// NewRope returns the rotary embedding of a base without scaling.
func NewRope(base float64, rotary int) *Rope {
	r := &Rope{Inverse: make([]float64, rotary/2), Magnitude: 1}
	for i := range r.Inverse {
		r.Inverse[i] = math.Pow(base, -2*float64(i)/float64(rotary))
	}
	return r
}

// Divide divides frequencies by one divisor each.
func (r *Rope) Divide(divisors []float64) {
	for i, d := range divisors {
		r.Inverse[i] /= d
	}
}

// Stretch divides all frequencies: linear scaling.
func (r *Rope) Stretch(factor float64) {
	for i := range r.Inverse {
		r.Inverse[i] /= factor
	}
}

// Llama3 holds the fields of Llama 3.1's scaling.
type Llama3 struct {
	Factor    float64
	Low, High float64 // turns over the original context
	Original  float64 // context length before the scaling
}

// Divisors returns the divisors of frequencies: 1 for wavelengths up to Original/High, Factor from Original/Low on, and
// an interpolation in between. Grattafiori et al. 2024, as published with the weights.
func (s Llama3) Divisors(inverse []float64) []float64 {
	out := make([]float64, len(inverse))
	for i, f := range inverse {
		turns := s.Original * f / (2 * math.Pi) // over the original context
		switch {
		case turns > s.High:
			out[i] = 1
		case turns < s.Low:
			out[i] = s.Factor
		default:
			smooth := (turns - s.Low) / (s.High - s.Low)
			out[i] = 1 / ((1-smooth)/s.Factor + smooth)
		}
	}
	return out
}

// yarn holds the fields of YaRN's scaling.
type yarn struct {
	factor, original         float64 // as Llama3's
	extrapolation            float64 // 0: linear scaling's rotation
	fast, slow               float64 // turns over the original context
	attention, logMultiplier float64
}

// scale divides frequencies with fewer than slow turns over the original context by the factor, leaves those with
// more than fast turns unchanged, and interpolates in between. Peng et al. 2023, section 3.2; the range of
// dimensions is rounded outwards, as in llama.cpp.
//
// The magnitude is 0.1·ln(factor) + 1 (section 3.3), divided by the same expression with the model's own log
// multiplier if it has one. Without extrapolation the rotation is linear scaling's, which has no such factor.
func (s yarn) scale(r *Rope, base float64) {
	rotary := 2 * len(r.Inverse)
	dimension := func(turns float64) float64 {
		return float64(rotary) * math.Log(s.original/(turns*2*math.Pi)) / (2 * math.Log(base))
	}
	first := math.Max(0, math.Floor(dimension(s.fast)))
	last := math.Min(float64(rotary-1), math.Ceil(dimension(s.slow)))
	for i := range r.Inverse {
		ramp := (float64(i) - first) / math.Max(0.001, last-first)
		keep := (1 - math.Min(1, math.Max(0, ramp))) * s.extrapolation
		r.Inverse[i] *= (1-keep)/s.factor + keep
	}
	r.Magnitude = s.attention
	if s.extrapolation != 0 {
		r.Magnitude *= (1 + 0.1*math.Log(s.factor)) / (1 + 0.1*s.logMultiplier*math.Log(s.factor))
	}
}

// rope reads the rotary embedding with the file's scaling applied. GGUF's default base is 10000.
func (r *fields) rope(rotary, context int) *Rope {
	base := r.base()
	rope := NewRope(base, rotary)
	kind := r.scalingType()
	const prefix = "rope.scaling."
	required := func(field string, least, most float64) float64 {
		if !r.has(prefix + field) {
			r.fail(prefix+field, "is missing; rope.scaling.type %q needs it", kind)
		}
		return r.number(prefix+field, least, least, most)
	}
	original := r.original(context)
	divisors := r.positives(ropeFreqs, rotary/2)
	if kind != "llama3" {
		rope.Divide(divisors)
	}
	switch kind {
	case "none":
	case "longrope":
		name := ropeShort
		if ContextOf(r.context, context) > original {
			name = ropeLong
		}
		if r.err == nil && !r.f.HasTensor(name) {
			_, r.err = r.f.Tensor(name)
		}
		rope.Divide(r.positives(name, rotary/2))
		rope.Magnitude, rope.Long = r.number(prefix+"attn_factor", 1, 1e-6, 1e6), true
	case "linear":
		rope.Stretch(r.linearFactor())
	case "llama3":
		s := Llama3{Factor: required("factor", 1, 1e4), Low: required("low_freq_factor", 1e-6, 1e6),
			High: required("high_freq_factor", 1e-6, 1e6), Original: required("original_context_length", 1, 1e9)}
		if s.High <= s.Low {
			r.fail(prefix+"high_freq_factor", "is %g, not above low_freq_factor, %g", s.High, s.Low)
		}
		own := s.Divisors(rope.Inverse)
		for i := range divisors {
			if math.Abs(own[i]-divisors[i]) > 1e-3*own[i] && r.err == nil {
				r.err = fmt.Errorf("arch: %s: tensor rope_freqs.weight[%d] is %g, but %s.rope.scaling asks for %g; "+
					"the file contradicts itself", r.f.Name(), i, divisors[i], r.arch, own[i])
			}
		}
		rope.Divide(own)
	case "yarn":
		s := yarn{factor: required("factor", 1, 1e4), original: float64(original),
			extrapolation: r.number(prefix+"yarn_ext_factor", -1, -1, 1),
			fast:          r.number(prefix+"yarn_beta_fast", 32, 1e-6, 1e6),
			slow:          r.number(prefix+"yarn_beta_slow", 1, 1e-6, 1e6),
			attention:     r.number(prefix+"attn_factor", 1, 1e-6, 1e6),
			logMultiplier: r.number(prefix+"yarn_log_multiplier", 0, 0, 1e6)}
		if s.extrapolation < 0 { // not set
			s.extrapolation = 1
		}
		s.scale(rope, base)
	default:
		r.fail(prefix+"type", "is %s; supported: none, linear, llama3, yarn, longrope", quote.Text(kind))
	}
	if kind != "yarn" && kind != "longrope" { // others define no attn_factor; it would change the result
		if a := r.number(prefix+"attn_factor", 1, -1e9, 1e9); a != 1 {
			r.fail(prefix+"attn_factor", "is %g with scaling %q; only yarn and longrope have one", a, kind)
		}
	}
	return rope
}

func (r *fields) base() float64 {
	base := r.number("rope.freq_base", 10000, 0, math.MaxFloat32)
	if !(base > 1 && base < 1e12) {
		r.fail("rope.freq_base", "is %g; want a number above 1", base)
	}
	return base
}

// oldFactor is the name of rope.scaling.factor in older files, where 0 says that it is not set.
const oldFactor = "rope.scale_linear"

// scalingType reads rope.scaling.type. As in llama.cpp, a factor without a type is linear scaling's, and files with
// LongRoPE's divisors need not name it.
func (r *fields) scalingType() string {
	const field = "rope.scaling.type"
	kind := ""
	if r.has(field) {
		kind = get(r, field, r.f.String)
	}
	switch {
	case kind == "" && (r.f.Has(r.arch+".rope.scaling.factor") || r.f.Has(r.arch+"."+oldFactor)):
		return "linear"
	case (kind == "" || kind == "none") && (r.f.HasTensor(ropeShort) || r.f.HasTensor(ropeLong)):
		return "longrope"
	case kind == "":
		return "none"
	}
	return kind
}

// original reads the context length before the scaling.
func (r *fields) original(context int) int {
	return int(r.number("rope.scaling.original_context_length", float64(context), 1, 1e9))
}

func (r *fields) linearFactor() float64 {
	field := "rope.scaling.factor"
	if !r.has(field) && r.has(oldFactor) {
		if field = oldFactor; r.number(field, 0, 0, 1e4) == 0 {
			return 1
		}
	}
	if !r.has(field) {
		r.fail(field, `is missing; rope.scaling.type "linear" needs it`)
	}
	return r.number(field, 1, 1, 1e4)
}

// positives reads positive numbers that a file stores: the divisors of frequencies of Llama 3, the factors of matrices.
// It returns nil if the file has none.
func (r *fields) positives(name string, n int) []float64 {
	if !r.f.HasTensor(name) || r.err != nil {
		return nil
	}
	t, err := r.f.Tensor(name)
	switch {
	case err != nil:
		r.err = err
	case len(t.Dims) != 1 || t.Dims[0] != uint64(n):
		r.err = fmt.Errorf("arch: %s: tensor %s has dimensions %v, want [%d]", r.f.Name(), name, t.Dims, n)
	case t.Type != gguf.F32:
		r.err = fmt.Errorf("arch: %s: tensor %s is %s, want F32", r.f.Name(), name, t.Type)
	}
	raw := make([]byte, 4*n)
	if r.err == nil {
		r.err = r.f.ReadTensor(t, raw, 0)
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		if r.err == nil && !(out[i] > 0 && out[i] <= math.MaxFloat32) {
			r.err = fmt.Errorf("arch: %s: tensor %s[%d] is %g; want a positive number", r.f.Name(), name, i, out[i])
		}
	}
	return out
}

// LongMagnitude returns the magnitude of LongRoPE's embedding of a model for context positions, trained for original
// ones before: √(1 + ln(context/original)/ln(original)) (Ding et al. 2024, as published with Phi-3).
func LongMagnitude(context, original float64) float64 {
	if context <= original {
		return 1
	}
	return math.Sqrt(1 + math.Log(context/original)/math.Log(original))
}
