package kernels

import "math"

// LowLogit is what NaN and -inf logits count as, and what stands in the place
// of missing candidates: a value at or below it belongs to no possible token.
const LowLogit = -1e30

// maxSteps bounds the loop iterations of one thread: Mesa's software rasteriser leaves
// every loop of a thread, silently, once it has made 65,535 of them in all.
const maxSteps = 64000

// Logits is a matrix of raw logits in device memory.
type Logits struct {
	View   View // (Rows, Stride) f32
	Rows   int  // 1 to 64
	Vocab  int  // ids in [0, Vocab) take part; padding beyond is ignored
	Stride int  // floats from row to row; 0 means Vocab
}

func (l Logits) stride() int {
	if l.Stride == 0 {
		return l.Vocab
	}
	return l.Stride
}

// DrawWords is the length of a draw buffer in words.
const DrawWords = 8

// DrawParams says how a run of the sampling kernels draws. It varies from run to
// run, so it is not a parameter of a program but lies in a small storage buffer, the
// draw view, that the host writes just before: DrawWords words,
//
//	0 1/temperature (f32; 0: argmax)   4 top-k (0: off)
//	1 seed, low word                   5 top-p (f32; 1: off)
//	2 seed, high word                  6 min-p as a distance from the largest logit (f32)
//	3 noise stream                     7 flags: 1 coupled ranking
//
// Beside it goes a positions view, (rows) u32: the absolute position that each
// row draws the token for, below 2^28. The noise of a draw depends on seed,
// stream, position and token id only.
type DrawParams struct {
	Temperature float64 // below 1e-6: argmax, the lowest id among equals
	TopK        int     // 0: off
	TopP        float64 // 0 or 1: off
	MinP        float64 // 0: off
	Seed        uint64
	Stream      uint32 // one of package spec's streams
	Coupled     bool   // Sample ranks by logit/temperature + Gumbel noise, not by logit
}

// Words encodes p as the draw view holds it.
func (p DrawParams) Words() [DrawWords]uint32 {
	inverse, gap, topP := 0.0, 3e38, 1.0
	if p.Temperature >= 1e-6 {
		inverse = 1 / p.Temperature
		if p.MinP > 0 {
			gap = max(-math.Log(p.MinP)*p.Temperature, 0)
		}
	}
	if p.TopP > 0 && p.TopP < 1 {
		topP = p.TopP
	}
	w := [DrawWords]uint32{f32(inverse), uint32(p.Seed), uint32(p.Seed >> 32), p.Stream,
		u32(max(p.TopK, 0)), f32(topP), f32(gap)}
	if p.Coupled {
		w[7] = 1
	}
	return w
}
