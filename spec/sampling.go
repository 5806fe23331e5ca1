package spec

import (
	"fmt"
	"math"
)

// The temperatures above 0 that make sense to single-precision kernels.
const (
	MinTemperature = 0.001
	MaxTemperature = 1000
)

// Validate refuses settings that define no distribution.
func (s Sampling) Validate() error {
	if t := s.Temperature; !(t == 0 || t >= MinTemperature && t <= MaxTemperature) {
		return fmt.Errorf("spec: temperature is %v, want 0 (greedy) or %v to %v", t, MinTemperature,
			float64(MaxTemperature))
	}
	if s.TopK < 0 || s.TopK > math.MaxInt32 {
		return fmt.Errorf("spec: top-k sampling is %d, want 0 (off) to %d", s.TopK, math.MaxInt32)
	}
	if !(s.TopP >= 0 && s.TopP <= 1) {
		return fmt.Errorf("spec: top-p is %v, want 0 (off) to 1", s.TopP)
	}
	if !(s.MinP >= 0 && s.MinP <= 1) {
		return fmt.Errorf("spec: min-p is %v, want 0 (off) to 1", s.MinP)
	}
	return nil
}

// Streams of the counter-based noise. Positions are below 2^28, so the stream
// number rides in the upper bits of the position word.
const (
	StreamTarget   uint32 = 0 // the target's draws, and coupled drafting
	StreamDraft    uint32 = 1 // a sampled draft's own draws
	StreamAccept   uint32 = 2 // the uniform of the rejection test
	StreamResidual uint32 = 3 // draws from the residual distribution
)
