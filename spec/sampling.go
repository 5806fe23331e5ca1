package spec

import "cmp"

// Validate refuses settings that define no distribution, or one that single-precision kernels cannot tell from greedy
// decoding or from noise.
func (s Sampling) Validate() error {
	return cmp.Or(LimitTemperature.Check(s.Temperature), LimitTopK.Check(float64(s.TopK)), LimitTopP.Check(s.TopP),
		LimitMinP.Check(s.MinP))
}

// Streams of the counter-based noise. Positions are below 2^28, so the stream
// number rides in the upper bits of the position word.
const (
	StreamTarget   uint32 = 0 // the target's draws, and coupled drafting
	StreamDraft    uint32 = 1 // a sampled draft's own draws
	StreamAccept   uint32 = 2 // the uniform of the rejection test
	StreamResidual uint32 = 3 // draws from the residual distribution
)
