package llama

import (
	"fmt"
	"math"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
)

// ropeScaling holds the fields under rope.scaling, 0 where the file has none.
type ropeScaling struct {
	kind                      string
	factor                    float64 // at least 1
	original                  float64 // context length before the scaling
	low, high                 float64 // llama3
	extrapolation, fast, slow float64 // yarn
	attention, logMultiplier  float64 // yarn
}

// readRope computes the rotary embedding's inverse frequencies, with the file's scaling applied, and its magnitude.
// GGUF's default base is 10000.
func (c *Config) readRope(f *gguf.File) error {
	arch := c.Architecture
	base, err := f.Float32Or(arch+".rope.freq_base", 10000)
	if err != nil {
		return err
	}
	if !(base > 1 && base < 1e12) {
		return fmt.Errorf("llama: %s: %s.rope.freq_base is %g; want a number above 1", f.Name(), arch, base)
	}
	c.Magnitude, c.Inverse = 1, make([]float64, c.Rotary/2)
	for i := range c.Inverse {
		c.Inverse[i] = math.Pow(float64(base), -2*float64(i)/float64(c.Rotary))
	}
	s, err := c.readScaling(f)
	if err != nil {
		return err
	}
	divisors, err := c.divisors(f)
	if err != nil {
		return err
	}
	if s.kind == "llama3" {
		own := s.llama3(c.Inverse)
		for i := range divisors {
			if math.Abs(own[i]-divisors[i]) > 1e-3*own[i] {
				return fmt.Errorf("llama: %s: tensor rope_freqs.weight[%d] is %g, but %s.rope.scaling asks for %g; "+
					"the file contradicts itself", f.Name(), i, divisors[i], arch, own[i])
			}
		}
		divisors = own
	}
	for i := range divisors {
		c.Inverse[i] /= divisors[i]
	}
	switch s.kind {
	case "linear":
		for i := range c.Inverse {
			c.Inverse[i] /= s.factor
		}
	case "yarn":
		s.yarn(c.Inverse, float64(base), c.Rotary)
		c.Magnitude = s.magnitude()
	}
	return c.readTemperature(f, int(s.original))
}

// readScaling reads the fields under rope.scaling and checks them.
func (c *Config) readScaling(f *gguf.File) (*ropeScaling, error) {
	prefix := c.Architecture + ".rope.scaling."
	s := &ropeScaling{}
	var err error
	number := func(field string, missing, least, most float64) float64 {
		v := missing
		if key := prefix + field; err == nil && f.Has(key) {
			x, ok := scalar(f, key) // converters write some of them as integers
			if v = x; !ok || !(v >= least && v <= most) {
				err = fmt.Errorf("llama: %s: %s is %s; want %g to %g", f.Name(), key, f.Describe(key), least, most)
			}
		}
		return v
	}
	required := func(field string, least, most float64) float64 {
		if err == nil && !f.Has(prefix+field) {
			err = fmt.Errorf("llama: %s: %s%s is missing; rope.scaling.type %q needs it", f.Name(), prefix, field,
				s.kind)
		}
		return number(field, least, least, most)
	}
	const most = 1e9
	old := c.Architecture + ".rope.scale_linear" // name of the field in older files
	if s.kind, err = f.StringOr(prefix+"type", ""); err != nil {
		return nil, err
	}
	if s.kind == "" {
		s.kind = "none"
		if f.Has(prefix+"factor") || f.Has(old) { // llama.cpp's default for a factor without a type
			s.kind = "linear"
		}
	}
	// Fields of another scaling type must still be valid numbers.
	s.original = number("original_context_length", float64(c.Context), 1, most)
	switch s.kind {
	case "none":
	case "linear":
		if !f.Has(prefix+"factor") && f.Has(old) {
			var x float32
			if x, err = f.Float32(old); err == nil && x == 0 {
				x = 1 // not set
			}
			s.factor = float64(x)
		} else {
			s.factor = required("factor", 0, 1e4)
		}
		if err == nil && !(s.factor >= 1 && s.factor <= 1e4) {
			err = fmt.Errorf("llama: %s: %sfactor is %g; want 1 or more", f.Name(), prefix, s.factor)
		}
	case "llama3":
		s.factor = required("factor", 1, 1e4)
		s.low, s.high = required("low_freq_factor", 1e-6, 1e6), required("high_freq_factor", 1e-6, 1e6)
		s.original = required("original_context_length", 1, most)
		if err == nil && s.high <= s.low {
			err = fmt.Errorf("llama: %s: %shigh_freq_factor is %g, not above low_freq_factor, %g", f.Name(), prefix,
				s.high, s.low)
		}
	case "yarn":
		s.factor = required("factor", 1, 1e4)
		s.extrapolation = number("yarn_ext_factor", -1, -1, 1)
		if s.extrapolation < 0 { // not set
			s.extrapolation = 1
		}
		s.fast, s.slow = number("yarn_beta_fast", 32, 1e-6, 1e6), number("yarn_beta_slow", 1, 1e-6, 1e6)
		s.attention, s.logMultiplier = number("attn_factor", 1, 1e-6, 1e6), number("yarn_log_multiplier", 0, 0, 1e6)
	default:
		err = fmt.Errorf("llama: %s: %stype is %s; supported: none, linear, llama3, yarn", f.Name(), prefix,
			quote.Text(s.kind))
	}
	if s.kind != "yarn" {
		// attn_factor is defined only for YaRN and would change the result.
		if a := number("attn_factor", 1, -most, most); err == nil && a != 1 {
			err = fmt.Errorf("llama: %s: %sattn_factor is %g with scaling %q; only yarn has one", f.Name(), prefix, a,
				s.kind)
		}
	}
	return s, err
}

// divisors returns the divisors of the frequencies stored in the file, as Llama 3 files have; nil if there are
// none.
func (c *Config) divisors(f *gguf.File) ([]float64, error) {
	if !f.HasTensor(ropeFreqs) {
		return nil, nil
	}
	factors, err := readVector(f, ropeFreqs, c.Rotary/2)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(factors))
	for i, d := range factors {
		if !(d > 0) {
			return nil, fmt.Errorf("llama: %s: tensor %s[%d] is %g; want a positive divisor", f.Name(), ropeFreqs, i, d)
		}
		out[i] = float64(d)
	}
	return out, nil
}

const ropeFreqs = "rope_freqs.weight"

// llama3 returns the divisors of Llama 3.1's scaling: 1 for wavelengths up to original/high, the factor from
// original/low on, and an interpolation in between. Grattafiori et al. 2024, as published with the weights.
func (s *ropeScaling) llama3(inverse []float64) []float64 {
	out := make([]float64, len(inverse))
	for i, f := range inverse {
		turns := s.original * f / (2 * math.Pi) // over the original context
		switch {
		case turns > s.high:
			out[i] = 1
		case turns < s.low:
			out[i] = s.factor
		default:
			smooth := (turns - s.low) / (s.high - s.low)
			out[i] = 1 / ((1-smooth)/s.factor + smooth)
		}
	}
	return out
}

// yarn divides frequencies with fewer than slow turns over the original context by the factor, leaves those with
// more than fast turns unchanged, and interpolates in between. Peng et al. 2023, section 3.2; the range of
// dimensions is rounded outwards, as in llama.cpp.
func (s *ropeScaling) yarn(inverse []float64, base float64, rotary int) {
	dimension := func(turns float64) float64 {
		return float64(rotary) * math.Log(s.original/(turns*2*math.Pi)) / (2 * math.Log(base))
	}
	first := math.Max(0, math.Floor(dimension(s.fast)))
	last := math.Min(float64(rotary-1), math.Ceil(dimension(s.slow)))
	for i := range inverse {
		ramp := (float64(i) - first) / math.Max(0.001, last-first)
		keep := (1 - math.Min(1, math.Max(0, ramp))) * s.extrapolation
		inverse[i] *= (1-keep)/s.factor + keep
	}
}

// magnitude returns YaRN's factor of rotated queries and keys: 0.1·ln(factor) + 1 (Peng et al. 2023, section 3.3),
// divided by the same expression with the model's own log multiplier if it has one. Without extrapolation the
// rotation is linear scaling's, which has no such factor.
func (s *ropeScaling) magnitude() float64 {
	m := s.attention
	if s.extrapolation != 0 {
		m *= (1 + 0.1*math.Log(s.factor)) / (1 + 0.1*s.logMultiplier*math.Log(s.factor))
	}
	return m
}

// readTemperature reads the position from which a model scales its queries, which is not implemented. Ministral 3
// multiplies them by 1 + scale·ln(1 + ⌊position/original⌋), which is 1 within the original context.
func (c *Config) readTemperature(f *gguf.File, original int) error {
	key := c.Architecture + ".attention.temperature_scale"
	scale, err := f.Float32Or(key, 0)
	if err != nil || scale == 0 {
		return err
	}
	if c.Architecture != "mistral3" {
		return fmt.Errorf("llama: %s: %s is %g, which is not supported for %s models", f.Name(), key, scale,
			c.Architecture)
	}
	c.Unscaled = original
	return nil
}
