package kernels

import (
	"cmp"
	"math"
)

// LowLogit replaces -inf logits and the logits of missing candidates: a token with a logit at or below it is
// impossible. -LowLogit replaces NaN and +inf, so that the largest logit and the log-sum-exp of a row show them.
const LowLogit = -1e30

// Overflowed reports whether a row's largest logit or log-sum-exp shows that it has a NaN or an infinite logit, or
// that all its tokens are impossible.
func Overflowed(z float64) bool { return !(z > LowLogit/2 && z < -LowLogit/2) }

// Logits is a matrix of raw logits in device memory.
type Logits struct {
	View   View // (Rows, Stride) f32
	Rows   int  // 1 to 64
	Vocab  int  // kernels read ids in [0, Vocab) and ignore the padding
	Stride int  // floats from row to row; 0 means Vocab
}

// RowStride returns the distance between rows in floats.
func (l Logits) RowStride() int { return cmp.Or(l.Stride, l.Vocab) }

// Params returns the parameters that begin every block of a kernel over logits, followed by more.
func (l Logits) Params(more ...int) []uint32 {
	return append(Params(l.Rows, l.Vocab, l.RowStride()), Params(more...)...)
}

// DrawWords is the length of a draw buffer in words.
const DrawWords = 8

// DrawParams configures how the sampling kernels draw. It varies from run to run, so it is no parameter of a program:
// the host writes it before the run to a small storage buffer, the draw view, of DrawWords words:
//
//	0 1/temperature (f32; 0: argmax)   4 top-k (0: off)
//	1 seed, low word                   5 top-p (f32; 1: off)
//	2 seed, high word                  6 min-p as a distance from the largest logit (f32)
//	3 noise stream                     7 flags: 1 coupled ranking
//
// Kernels also bind a positions view, (rows) u32: the absolute position that each row draws the token for, below 2^28.
// The noise of a draw depends only on seed, stream, position and token id.
type DrawParams struct {
	Temperature float64 // below 1e-6: argmax, the lowest id among equals
	TopK        int     // 0: off
	TopP        float64 // 0 or 1: off
	MinP        float64 // 0: off
	Seed        uint64
	Stream      uint32 // one of package spec's streams
	Coupled     bool   // Sample ranks by logit/temperature + Gumbel noise, not by logit
}

// Words encodes p for the draw view.
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
	w := [DrawWords]uint32{Word(inverse), uint32(p.Seed), uint32(p.Seed >> 32), p.Stream,
		uint32(max(p.TopK, 0)), Word(topP), Word(gap)}
	if p.Coupled {
		w[7] = 1
	}
	return w
}
