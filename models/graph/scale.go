package graph

import (
	"fmt"
	"math"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// floatScales says where the scales of a device format's block are floats that multiply all of its weights: the words
// of scales of a block, and which of them.
var floatScales = map[kernels.Format]struct {
	words int
	at    []int
}{
	kernels.Q8_0: {1, []int{0}}, kernels.Q4_0: {1, []int{0}}, kernels.Q5_0: {1, []int{0}},
	kernels.Q1_0: {1, []int{0}}, kernels.Q2_0: {1, []int{0}}, kernels.IQ4_NL: {1, []int{0}},
	kernels.Q3_K: {4, []int{0}}, kernels.Q4_K: {6, []int{0, 1}}, kernels.Q5_K: {6, []int{0, 1}},
	kernels.Q6_K: {5, []int{4}},
}

// hasScale reports whether the model's description gives a tensor a factor.
func (l *loader) hasScale(t *gguf.TensorInfo) bool { return l.graph.Arch.Scales[t.Name] != 0 }

// formatOf returns the device format of a tensor. Halves with a factor become floats: rounding the products again would
// change them.
func (l *loader) formatOf(t *gguf.TensorInfo) (kernels.Format, error) {
	if err := CheckType(l.file, t); err != nil {
		return 0, err
	}
	format := blockLayouts[t.Type].format
	if !l.hasScale(t) {
		return format, nil
	}
	if !format.Quantised() {
		return kernels.F32, nil
	}
	if _, ok := floatScales[format]; !ok {
		return 0, fmt.Errorf("graph: %s: tensor %s is %s and has a factor, which is not supported; use a file in "+
			"F32, F16 or Q8_0", l.file.Name(), quote.Name(t.Name), t.Type)
	}
	return format, nil
}

// repack splits raw, complete blocks of a tensor, into l.quants and l.scales, times its factor.
func (l *loader) repack(format kernels.Format, t *gguf.TensorInfo, raw []byte) error {
	if !l.hasScale(t) {
		l.quants, l.scales = repack(t.Type, raw, l.quants[:0], l.scales[:0])
		return nil
	}
	times := float32(l.graph.Arch.Scales[t.Name])
	multiply := func(word *uint32) { *word = math.Float32bits(math.Float32frombits(*word) * times) }
	if format == kernels.F32 {
		n := len(raw) / int(t.Type.BlockBytes())
		l.quants, _ = extend(l.quants[:0], n)
		floats := make([]float32, n)
		if err := quant.Dequantize(t.Type, raw, floats); err != nil {
			return err
		}
		copy(webgpu.U32Bytes(l.quants), webgpu.F32Bytes(floats))
		for i := range l.quants {
			multiply(&l.quants[i])
		}
		return nil
	}
	l.quants, l.scales = repack(t.Type, raw, l.quants[:0], l.scales[:0])
	of := floatScales[format]
	for block := 0; block < len(l.scales); block += of.words {
		for _, at := range of.at {
			multiply(&l.scales[block+at])
		}
	}
	return nil
}
