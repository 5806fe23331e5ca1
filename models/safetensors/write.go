package safetensors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"foretoken/internal/quote"
)

// Tensor is a tensor to write: Data holds the stored bytes.
type Tensor struct {
	Name  string
	Dtype Dtype
	Shape []uint64
	Data  []byte
}

// Write writes a file of the tensors in their order.
func Write(w io.Writer, metadata map[string]string, tensors ...Tensor) error {
	header := map[string]any{}
	if len(metadata) > 0 {
		header["__metadata__"] = metadata
	}
	at := int64(0)
	for _, t := range tensors {
		info := TensorInfo{Dtype: t.Dtype, Shape: append([]uint64{}, t.Shape...)}
		end := at + int64(len(t.Data))
		if err := info.place([]uint64{uint64(at), uint64(end)}); err != nil {
			return fmt.Errorf("safetensors: tensor %s: %w", quote.Text(t.Name), err)
		}
		if _, ok := header[t.Name]; ok || t.Name == "" {
			return fmt.Errorf("safetensors: tensor %s: the name is empty or occurs twice", quote.Text(t.Name))
		}
		header[t.Name] = map[string]any{"dtype": t.Dtype, "shape": info.Shape, "data_offsets": []int64{at, end}}
		at = end
	}
	text, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	out := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	for _, t := range tensors {
		if _, err := w.Write(t.Data); err != nil {
			return fmt.Errorf("safetensors: %w", err)
		}
	}
	return nil
}
