package spec

import "math"

// SamplingTable has the settings of Sampling.
var SamplingTable = []Setting{
	{Name: "temperature", Group: GroupSampling, Help: "temperature of the draws", Least: 0.001, Most: 2, Zero: "greedy",
		Label: "Temperature", Step: 0.1},
	{Name: "seed", Group: GroupSampling, Label: "Seed",
		Help: "seed of the draws above temperature 0; by every exact method one seed gives one text"},
	{Name: "top_k_sampling", Group: GroupFilters, Help: "sample from the k likeliest tokens only",
		Least: 1, Most: math.MaxInt32, Zero: "off", Unset: "off", Label: "Sample top-k", Unit: "tokens",
		Flag: "sample-top-k", API: "top_k"},
	{Name: "top_p", Group: GroupFilters, Most: 1, Unset: "off", Label: "Top-p",
		Help: "sample from the likeliest tokens whose probabilities sum to this; 0: the likeliest alone; 1: off"},
	{Name: "min_p", Group: GroupFilters, Most: 1, Zero: "off", Unset: "off", Label: "Min-p",
		Help: "sample from tokens with at least this share of the likeliest token's probability"},
}

// Validate refuses settings that define no distribution, or one that single-precision kernels cannot tell from greedy
// decoding or from noise.
func (s Sampling) Validate() error {
	return CheckSettings(SamplingTable, &s)
}

// Streams of the counter-based noise. Positions are below 2^28, so the stream
// number rides in the upper bits of the position word.
const (
	StreamTarget   uint32 = 0 // the target's draws, and coupled drafting
	StreamDraft    uint32 = 1 // a sampled draft's own draws
	StreamAccept   uint32 = 2 // the uniform of the rejection test
	StreamResidual uint32 = 3 // draws from the residual distribution
)
