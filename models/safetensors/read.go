package safetensors

import (
	"encoding/binary"
	"fmt"
	"slices"

	"foretoken/internal/files"
	"foretoken/internal/quote"
)

// Has reports whether there is a tensor of that name.
func (f *File) Has(name string) bool { _, ok := f.byName[name]; return ok }

// Tensor finds a tensor by name and checks its shape, outermost dimension first; a shape of nil takes any.
func (f *File) Tensor(name string, shape ...uint64) (*TensorInfo, error) {
	i, ok := f.byName[name]
	if !ok {
		return nil, fmt.Errorf("safetensors: %s: tensor %s is missing: the file is incomplete or of another "+
			"architecture", f.name, quote.Text(name))
	}
	t := &f.Tensors[i]
	if shape == nil {
		return t, nil
	}
	if !slices.Equal(shape, t.Shape) {
		return nil, fmt.Errorf("safetensors: %s: tensor %s has shape %v, want %v", f.name, quote.Text(name),
			t.Shape, shape)
	}
	return t, nil
}

// Read fills dst with the stored bytes of a tensor from byte off of it.
func (f *File) Read(t *TensorInfo, dst []byte, off int64) error {
	if off < 0 || off > t.Size || int64(len(dst)) > t.Size-off {
		return fmt.Errorf("safetensors: %s: tensor %s: bytes %d to %d of %d", f.name, quote.Text(t.Name), off,
			off+int64(len(dst)), t.Size)
	}
	if len(dst) == 0 {
		return nil
	}
	if err := files.ReadFull(t.src, dst, t.Offset+off); err != nil {
		return fmt.Errorf("safetensors: %s: tensor %s: %w", t.src.Name(), quote.Text(t.Name), err)
	}
	return nil
}

func (f *File) wrongType(t *TensorInfo, want string) error {
	return fmt.Errorf("safetensors: %s: tensor %s is %s, want %s", f.name, quote.Text(t.Name), t.Dtype, want)
}

// Ints decodes a complete tensor of I64 or I32.
func (f *File) Ints(t *TensorInfo) ([]int64, error) {
	if t.Dtype != I64 && t.Dtype != I32 {
		return nil, f.wrongType(t, "I64 or I32")
	}
	raw := make([]byte, t.Size)
	if err := f.Read(t, raw, 0); err != nil {
		return nil, err
	}
	out := make([]int64, t.Elements())
	for i := range out {
		if t.Dtype == I64 {
			out[i] = int64(binary.LittleEndian.Uint64(raw[8*i:]))
		} else {
			out[i] = int64(int32(binary.LittleEndian.Uint32(raw[4*i:])))
		}
	}
	return out, nil
}

// Bools decodes a complete tensor of BOOL.
func (f *File) Bools(t *TensorInfo) ([]bool, error) {
	if t.Dtype != Bool {
		return nil, f.wrongType(t, "BOOL")
	}
	raw := make([]byte, t.Size)
	if err := f.Read(t, raw, 0); err != nil {
		return nil, err
	}
	out := make([]bool, len(raw))
	for i, b := range raw {
		if b > 1 {
			return nil, fmt.Errorf("safetensors: %s: tensor %s: element %d is %d, which is not a truth value", f.name,
				quote.Text(t.Name), i, b)
		}
		out[i] = b == 1
	}
	return out, nil
}
