package matmul

import (
	"math"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
	"foretoken/webgpu/kernels/kerneltest"
	"foretoken/webgpu/kernels/layer"
)

// TestResidualMultiplier computes a block of a model that multiplies its residuals, x + s·product, and the logits after
// it, with kernels that multiply only the embedding. A residual stream that is divided by s adds plain products, and
// its norms are those of x with eps/s² for eps.
func TestResidualMultiplier(t *testing.T) {
	const dim, rows, eps = 64, 24, 0.5
	const embedding, residual, logit = 12, 0.22, 0.125
	e, block := kerneltest.NewWeight(kernels.F16, 64, dim), kerneltest.NewWeight(kernels.F32, dim, dim)
	output := kerneltest.NewWeight(kernels.F16, rows, dim)
	gains := [][]float32{kerneltest.Normals(41, dim), kerneltest.Normals(42, dim)}
	norm := func(x []float64, gain []float32) []float64 {
		sum, out := 0.0, make([]float64, dim)
		for _, v := range x {
			sum += v * v
		}
		for k, v := range x {
			out[k] = v / math.Sqrt(sum/dim+eps) * float64(gain[k])
		}
		return out
	}
	product := func(w *kerneltest.Weight, x []float64) []float64 {
		out := make([]float64, w.Rows)
		for n := range out {
			for k, v := range x {
				out[n] += w.Floats[n*dim+k] * v
			}
		}
		return out
	}
	var want []float32
	for token := range 64 {
		x := make([]float64, dim)
		for k, v := range e.Floats[token*dim:][:dim] {
			x[k] = embedding * v
		}
		for k, v := range product(block, norm(x, gains[0])) {
			x[k] += residual * v
		}
		for _, v := range product(output, norm(x, gains[1])) {
			want = append(want, float32(logit*v))
		}
	}
	scaled := make([]float32, dim)
	for k, g := range gains[1] {
		scaled[k] = logit * g
	}
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		b := kerneltest.New(t, dev)
		ids := make([]uint32, 64)
		for i := range ids {
			ids[i] = uint32(i)
		}
		tokens, first, last := b.U32(ids), b.F32(gains[0]), b.F32(scaled)
		embed, weight, head := e.Upload(b, 64), block.Upload(b, dim), output.Upload(b, rows)
		x, out := b.Poisoned(64*dim), b.Poisoned(64*rows)
		inputs := []kernels.Rows{{View: b.Poisoned(64 * NextStride(dim)), Stride: NextStride(dim)},
			{View: b.Poisoned(64 * NextStride(dim)), Stride: NextStride(dim)}}
		defer func() {
			b.Free(tokens, first, last, x, out, inputs[0].View, inputs[1].View)
			e.Free(b, embed)
			block.Free(b, weight)
			output.Free(b, head)
		}()
		family := Families(dev.Info(), kernels.F32)[0]
		got := b.Run(func(r *kernels.Recorder) {
			in := layer.RecordEmbedNext(r, embed, tokens, x, 64, embedding/residual, first, inputs[0],
				eps/(residual*residual))
			in = RecordNext(r, family, weight, in, kernels.Rows{View: x, Stride: dim}, 64, last, inputs[1],
				eps/(residual*residual))
			Record(r, family, head, in, kernels.Rows{View: out, Stride: rows}, 64, false)
		}, out)[0]
		kerneltest.CloseTo(t, "logits", got.F32(), want, 2e-5, 1)
	})
}
