package graph

import (
	"fmt"
	"slices"

	"foretoken/internal/quote"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// vectors uploads one-dimensional tensors as f32, concatenated and multiplied.
func (l *loader) vectors(tensors []arch.Tensor, times float64) (kernels.View, error) {
	var all []float32
	total := 0
	for _, want := range tensors {
		total += want.Shape[0]
		t, err := l.tensor(want)
		if err == nil && !l.graph.planning() {
			all, err = l.appendVector(all, t)
		}
		if err != nil {
			return kernels.View{}, err
		}
	}
	for i := range all {
		all[i] = float32(float64(all[i]) * times)
	}
	v, err := l.graph.Buffer(tensors[0].GGUF, 4*total)
	if err != nil || l.graph.planning() {
		return v, err
	}
	l.advance(int64(4 * total))
	return v, l.graph.Dev.Write(v.Buffer, 0, webgpu.F32Bytes(all))
}

// ones uploads the gain of norms of heads that follow the rotation, which the rotation multiplies by.
func (l *loader) ones() (err error) {
	g, widest := l.graph, 0
	for _, y := range g.layers {
		if y.mix.NormLate {
			widest = max(widest, y.mix.Dim)
		}
	}
	if widest == 0 {
		return nil
	}
	if g.ones, err = g.Buffer("ones", 4*2*widest); err != nil || g.planning() {
		return err
	}
	return g.Dev.Write(g.ones.Buffer, 0, webgpu.F32Bytes(slices.Repeat([]float32{1}, 2*widest)))
}

// appendVector reads a vector's elements.
func (l *loader) appendVector(to []float32, t *gguf.TensorInfo) ([]float32, error) {
	if t.Type != gguf.F32 && t.Type != gguf.F16 && t.Type != gguf.BF16 {
		return nil, fmt.Errorf("graph: %s: tensor %s is %s; a vector must be F32, F16 or BF16", l.file.Name(),
			quote.Name(t.Name), t.Type)
	}
	raw := make([]byte, t.Size)
	if err := l.file.ReadTensor(t, raw, 0); err != nil {
		return nil, err
	}
	if err := checkFinite(l.file, t, raw, 0); err != nil {
		return nil, err
	}
	from, n := len(to), int(t.Dims[0])
	to = append(to, make([]float32, n)...)
	return to, quant.Dequantize(t.Type, raw, to[from:])
}
