package llama

import (
	"fmt"

	"foretoken/internal/quote"
	"foretoken/models/gguf"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// checkVector finds a one-dimensional tensor of n elements.
func checkVector(f *gguf.File, name string, n int) (*gguf.TensorInfo, error) {
	t, err := f.Tensor(name)
	if err != nil {
		return nil, err
	}
	if len(t.Dims) != 1 || t.Dims[0] != uint64(n) {
		return nil, fmt.Errorf("llama: %s: tensor %s has dimensions %v, want [%d]", f.Name(), quote.Name(name), t.Dims,
			n)
	}
	return t, nil
}

// vectors uploads one-dimensional tensors of the given lengths as f32, concatenated.
func (l *loader) vectors(names []string, sizes []int) (kernels.View, error) {
	var all []float32
	total := 0
	for i, name := range names {
		l.used[name] = true
		total += sizes[i]
		var err error
		if l.model.planning() {
			_, err = checkVector(l.file, name, sizes[i])
		} else {
			var x []float32
			x, err = readVector(l.file, name, sizes[i])
			all = append(all, x...)
		}
		if err != nil {
			return kernels.View{}, err
		}
	}
	v, err := l.model.newBuffer(names[0], 4*total)
	if err != nil || l.model.planning() {
		return v, err
	}
	l.advance(int64(4 * total))
	return v, l.model.dev.Write(v.Buffer, 0, webgpu.F32Bytes(all))
}
