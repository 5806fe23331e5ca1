package matmul

import (
	"fmt"

	"foretoken/webgpu/kernels"
)

const (
	packedSteps  = 4  // that a lane of a packed product takes in a turn: sixteen weights of each part
	packedBlock  = 32 // activations that share a scale
	packedVector = 5  // vectors of four words of a block: 32 numbers in 16 bits, their scale and sums
)

// PackedWords returns how many words a packed row of so many activations takes.
func PackedWords(cols int) int { return cols / packedBlock * packedVector * 4 }

// pack records the rounding of m rows of x, see pack.wgsl, and returns them in r.Rounded, in words.
func pack(r *kernels.Recorder, x kernels.Rows, cols, m int) kernels.Rows {
	packed := kernels.Rows{View: r.Rounded, Stride: PackedWords(cols)}
	if r.Rounded.Size < 4*m*packed.Stride {
		panic(fmt.Sprintf("matmul: %d packed rows of %d columns in %d bytes", m, cols, r.Rounded.Size))
	}
	blocks := cols / packedBlock
	r.Add(shaders.Source("pack", kernels.Inputs(1), kernels.Host{}), [3]int{(blocks + 63) / 64, m, 1},
		kernels.Params(blocks, x.Stride/4, x.Offset/4, x.Squares, int(kernels.Word(x.Eps))), x.View, packed.View)
	return packed
}
