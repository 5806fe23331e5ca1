package spec

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
)

// MostEstimatorLayers bounds the residual layers of an Estimator.
const MostEstimatorLayers = 2

// Estimator estimates the probability that a drafted token is accepted, given that its parent is. Its input is the
// draft's final hidden state h (after the output norm) of the pass that consumed the token:
//
//	σ(w·(h + SiLU(W h + b)) + c)
//
// It has up to two residual layers, each with its own weights; without one it is σ(w·h + c).
type Estimator struct {
	Dim    int              `json:"dim"` // width of the draft's hidden states
	Layers []EstimatorLayer `json:"layers"`
	Weight Floats           `json:"weight"` // w (dim)
	Bias   float32          `json:"bias"`   // c
}

// EstimatorLayer is a residual layer: h + SiLU(W h + b).
type EstimatorLayer struct {
	Weight Floats `json:"weight"` // W (dim, dim), by output: element n·dim+k weighs input k in output n
	Bias   Floats `json:"bias"`   // b (dim)
}

// Apply returns the estimate for a hidden state (Dim), computed in float64.
func (e *Estimator) Apply(hidden []float32) float64 {
	x := make([]float64, e.Dim)
	for i, v := range hidden[:e.Dim] {
		x[i] = float64(v)
	}
	for _, l := range e.Layers {
		y := make([]float64, e.Dim)
		for n := range y {
			sum := float64(l.Bias[n])
			for k, v := range x {
				sum += float64(l.Weight[n*e.Dim+k]) * v
			}
			y[n] = x[n] + sum/(1+math.Exp(-sum))
		}
		x = y
	}
	sum := float64(e.Bias)
	for k, v := range x {
		sum += float64(e.Weight[k]) * v
	}
	return 1 / (1 + math.Exp(-sum))
}

// Validate returns an error that names the first wrong field.
func (e *Estimator) Validate() error {
	if e.Dim < 1 {
		return fmt.Errorf("field dim is %d, want the width of the draft's hidden states", e.Dim)
	}
	if n := len(e.Layers); n > MostEstimatorLayers {
		return fmt.Errorf("field layers has %d layers, want 0 to %d", n, MostEstimatorLayers)
	}
	check := func(field string, w []float32, want int) error {
		if len(w) != want {
			return fmt.Errorf("field %s has %d weights, want %d for hidden states of %d", field, len(w), want, e.Dim)
		}
		for i, v := range w {
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("field %s: weight %d is %g", field, i, v)
			}
		}
		return nil
	}
	for i, l := range e.Layers {
		if err := check(fmt.Sprintf("layers[%d].weight", i), l.Weight, e.Dim*e.Dim); err != nil {
			return err
		}
		if err := check(fmt.Sprintf("layers[%d].bias", i), l.Bias, e.Dim); err != nil {
			return err
		}
	}
	if err := check("weight", e.Weight, e.Dim); err != nil {
		return err
	}
	return check("bias", []float32{e.Bias}, 1)
}

// Floats encodes as base64 of little-endian f32.
type Floats []float32

// MarshalText implements encoding.TextMarshaler.
func (f Floats) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, 4*len(f))
	for _, v := range f {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Floats) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("weights are not base64: %w", err)
	}
	if len(raw)%4 != 0 {
		return fmt.Errorf("%d bytes of weights, not a multiple of 4", len(raw))
	}
	*f = make(Floats, len(raw)/4)
	for i := range *f {
		(*f)[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return nil
}
