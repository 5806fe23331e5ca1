package kernels

import (
	"fmt"
	"math"
	"testing"

	"foretoken/webgpu"
)

func TestScore(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		for _, lanes := range ways(dev) {
			for _, vocab := range vocabularies() {
				for _, rows := range []int{1, 17} {
					x := testLogits(100, rows, vocab)
					stride := vocab + 64
					padded := make([]float32, rows*stride)
					next := make([]uint32, rows)
					for row := range rows {
						copy(padded[row*stride:], x[row*vocab:][:vocab])
						for i := vocab; i < stride; i++ {
							padded[row*stride+i] = 1000 // padding takes no part
						}
						next[row] = u32(row * 7919 % vocab)
					}
					logits, tokens, out := b.f32(padded), b.u32(next), b.poisoned(rows)
					got := b.thrice(func(r *Recorder) {
						r.Score(lanes, Logits{View: logits, Rows: rows, Vocab: vocab, Stride: stride}, tokens, out)
					}, out)[0].F32()
					for row := range rows {
						e := exactly(x[row*vocab:][:vocab], words(DrawParams{}), 0)
						lse, _ := logSumExp(e.z, everything)
						if most := e.z[e.argmax]; math.Abs(most) > 1e20 { // float64 loses the sum beside it
							equals := 0.0
							for _, z := range e.z {
								if z == most {
									equals++
								}
							}
							e.z[next[row]], lse = e.z[next[row]]-most, math.Log(equals)
						}
						near(t, fmt.Sprintf("lanes %d vocab %d row %d of %d, token %d", lanes, vocab, row, rows, next[row]),
							got[row], e.z[next[row]]-lse, 2e-5+1e-6*math.Abs(lse))
					}
					b.free(logits, tokens, out)
				}
			}
		}
	})
}

func TestScoreBatchInvariant(t *testing.T) {
	onDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := bench{t, dev}
		const vocab = 300
		x, next := testLogits(105, 64, vocab), positionsFrom(11, 64)
		for _, lanes := range ways(dev) {
			invariant(t, 1, func(order []int) []uint32 {
				logits, tokens, out := b.f32(gather(x, vocab, order)), b.u32(gather(next, 1, order)), b.poisoned(len(order))
				defer b.free(logits, tokens, out)
				return b.run(func(r *Recorder) {
					r.Score(lanes, Logits{View: logits, Rows: len(order), Vocab: vocab}, tokens, out)
				}, out)[0]
			})
		}
	})
}
