package sample

import (
	"fmt"
	"math"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
)

func TestScore(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		for _, lanes := range kerneltest.Ways(dev) {
			for _, vocab := range kerneltest.Vocabularies() {
				for _, rows := range []int{1, 17} {
					x := kerneltest.Logits(100, rows, vocab)
					stride := vocab + 64
					padded := make([]float32, rows*stride)
					next := make([]uint32, rows)
					for row := range rows {
						copy(padded[row*stride:], x[row*vocab:][:vocab])
						for i := vocab; i < stride; i++ {
							padded[row*stride+i] = 1000 // the padding must be ignored
						}
						next[row] = uint32(row * 7919 % vocab)
					}
					logits, tokens, out := b.F32(padded), b.U32(next), b.Poisoned(rows)
					got := b.Thrice(func(r *kernels.Recorder) {
						RecordScore(r, lanes, kernels.Logits{View: logits, Rows: rows, Vocab: vocab, Stride: stride},
							tokens, out)
					}, out)[0].F32()
					for row := range rows {
						e := kerneltest.Exactly(x[row*vocab:][:vocab], kerneltest.Words(kernels.DrawParams{}), 0)
						lse, _ := kerneltest.LogSumExp(e.Z, kerneltest.Everything)
						want := e.Z[next[row]] - lse
						if kernels.Overflowed(e.Z[e.Argmax]) {
							want, lse = Unscored, 0
						}
						kerneltest.Near(t, fmt.Sprintf("lanes %d vocab %d row %d of %d, token %d", lanes, vocab, row,
							rows, next[row]), got[row], want, 2e-5+1e-6*math.Abs(lse))
					}
					b.Free(logits, tokens, out)
				}
			}
		}
	})
}

func TestScoreBatchInvariant(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		const vocab = 300
		x, next := kerneltest.Logits(105, 64, vocab), kerneltest.PositionsFrom(11, 64)
		for _, lanes := range kerneltest.Ways(dev) {
			kerneltest.Invariant(t, 1, func(order []int) []uint32 {
				logits, tokens := b.F32(kerneltest.Gather(x, vocab, order)), b.U32(kerneltest.Gather(next, 1, order))
				out := b.Poisoned(len(order))
				defer b.Free(logits, tokens, out)
				return b.Run(func(r *kernels.Recorder) {
					RecordScore(r, lanes, kernels.Logits{View: logits, Rows: len(order), Vocab: vocab}, tokens, out)
				}, out)[0]
			})
		}
	})
}
