package graph

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"foretoken/internal/quote"
	"foretoken/models/arch"
	"foretoken/models/gguf"
	"foretoken/models/quant"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels"
)

// chunkBytes bounds the part of a tensor that is in host memory at a time.
const chunkBytes = 4 << 20

// matrix is one or more weights whose outputs lie side by side in a row. Matrices that a file stores separately
// (query, key, value) run as one product if their formats agree.
type matrix struct {
	weights []*kernels.Weight
	offsets []int // first output of each weight
	rows    int   // outputs in total
}

// loading is the state of loading a model from a file.
type loading struct {
	ctx         context.Context
	graph       *Graph
	done, total int64 // bytes of the file
}

// advance reports n more bytes.
func (l *loading) advance(n int64) {
	if l.done += n; l.graph.Options.Progress != nil {
		l.graph.Options.Progress(l.done, l.total)
	}
}

// loader uploads tensors from a GGUF file to a device.
type loader struct {
	loading
	file *gguf.File
	used map[string]bool

	// Buffers for one chunk, as stored and as uploaded.
	raw            []byte
	quants, scales []uint32
}

// matrix loads tensors of the same number of columns as one matrix.
func (l *loader) matrix(tensors []arch.Tensor) (*matrix, error) {
	m, cols, from := &matrix{}, tensors[0].Cols, tensors[0].From
	for i := 0; i < len(tensors); {
		first, err := l.tensor(tensors[i])
		if err != nil {
			return nil, err
		}
		format, err := l.formatOf(first)
		if err != nil {
			return nil, err
		}
		if cols%format.Block() != 0 {
			return nil, fmt.Errorf("graph: %s: tensor %s has rows of %d weights; "+
				"%s on the device takes multiples of %d: use a file in another format",
				l.file.Name(), quote.Name(first.Name), cols, format, format.Block())
		}
		group, total := []*gguf.TensorInfo{first}, tensors[i].Shape[0]
		for i++; i < len(tensors); i++ {
			next, err := l.tensor(tensors[i])
			if err != nil {
				return nil, err
			}
			if next.Type != first.Type || l.hasScale(next) != l.hasScale(first) {
				break
			}
			group = append(group, next)
			total += tensors[i].Shape[0]
		}
		w, err := l.weight(format, total, cols, from, group)
		if err != nil {
			return nil, err
		}
		m.weights, m.offsets = append(m.weights, w), append(m.offsets, m.rows)
		m.rows += total
	}
	return m, nil
}

// tensor finds a tensor and checks its shape.
func (l *loader) tensor(want arch.Tensor) (*gguf.TensorInfo, error) {
	t, err := l.file.Tensor(want.GGUF)
	if err != nil {
		return nil, err
	}
	l.used[want.GGUF] = true
	dims := make([]uint64, len(want.Shape))
	for i, n := range want.Shape {
		dims[len(dims)-1-i] = uint64(n)
	}
	if !slices.Equal(t.Dims, dims) {
		return nil, fmt.Errorf("graph: %s: tensor %s has dimensions %v, want %v: the file is damaged, take another one",
			l.file.Name(), quote.Name(want.GGUF), t.Dims, dims)
	}
	return t, nil
}

// weight uploads cols columns, from a first one on, of tensors of one format, stacked, and splits them by rows if they
// exceed a binding.
func (l *loader) weight(format kernels.Format, rows, cols, from int,
	tensors []*gguf.TensorInfo) (*kernels.Weight, error) {
	w, err := l.newWeight(tensors[0].Name, format, rows, cols)
	if err != nil {
		return nil, err
	}
	at := 0
	for _, t := range tensors {
		if err := l.upload(w, t, at, from); err != nil {
			return nil, err
		}
		at += int(t.Dims[1])
	}
	return w, nil
}

// newWeight makes the buffers of a weight, split by rows if they exceed a binding.
func (l *loader) newWeight(name string, format kernels.Format, rows, cols int) (*kernels.Weight, error) {
	w := &kernels.Weight{Format: format, Rows: rows, Cols: cols}
	rowBytes := 4 * format.WordsPerRow(cols)
	most := l.graph.maxBinding() / rowBytes
	if most < 1 {
		return nil, fmt.Errorf("graph: %s: a row of tensor %s takes %d bytes, more than a binding of the device",
			l.file.Name(), quote.Name(name), rowBytes)
	}
	for row := 0; row < rows; row += most {
		p := kernels.WeightPart{Row0: row, Rows: min(most, rows-row)}
		var err error
		if p.Quants, err = l.graph.Buffer(name, p.Rows*rowBytes); err != nil {
			return nil, err
		}
		if format.Quantised() {
			if p.Scales, err = l.graph.Buffer(name+" scales", p.Rows*format.ScalesPerRow(cols)*4); err != nil {
				return nil, err
			}
		}
		w.Parts = append(w.Parts, p)
	}
	return w, nil
}

// writeRows uploads n rows of a weight from row at on.
func (l *loader) writeRows(w *kernels.Weight, at, n int, quants, scales []uint32) error {
	for _, p := range w.Parts {
		lo, hi := max(at, p.Row0), min(at+n, p.Row0+p.Rows)
		write := func(v kernels.View, all []uint32, words int) error { // words per row
			return l.graph.Dev.Write(v.Buffer, 4*words*(lo-p.Row0), webgpu.U32Bytes(all[words*(lo-at):words*(hi-at)]))
		}
		var err error
		if lo < hi {
			err = write(p.Quants, quants, w.Format.WordsPerRow(w.Cols))
		}
		if lo < hi && err == nil && w.Format.Quantised() {
			err = write(p.Scales, scales, w.Format.ScalesPerRow(w.Cols))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// upload streams a tensor's rows, from column from on, into a weight from row at on.
func (l *loader) upload(w *kernels.Weight, t *gguf.TensorInfo, at, from int) error {
	if l.graph.planning() {
		return nil
	}
	rows := int(t.Dims[1])
	stored := int(t.Size) / rows
	step := max(chunkBytes/stored, 1)
	for row := 0; row < rows; row += step {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		n := min(step, rows-row)
		l.raw = slices.Grow(l.raw[:0], n*stored)[:n*stored]
		if err := l.file.ReadTensor(t, l.raw, int64(row)*int64(stored)); err != nil {
			return err
		}
		if err := checkFinite(l.file, t, l.raw, row*int(t.Dims[0])); err != nil {
			return err
		}
		kept := l.raw
		if all := int(t.Dims[0]); w.Cols < all {
			kept = l.raw[:0]
			for i := range n {
				kept = append(kept, l.raw[i*stored+stored*from/all:][:stored*w.Cols/all]...)
			}
		}
		if err := l.repack(w.Format, t, kept); err != nil {
			return err
		}
		if err := l.writeRows(w, at+row, n, l.quants, l.scales); err != nil {
			return err
		}
		l.advance(int64(len(kept)))
	}
	return nil
}

// checkFinite returns an error if stored weights of a tensor, the first of them element first, are infinite or NaN.
// Such a weight turns every logit into NaN.
func checkFinite(f *gguf.File, t *gguf.TensorInfo, raw []byte, first int) error {
	if err := quant.CheckFinite(t.Type, raw, first); err != nil {
		return fmt.Errorf("graph: %s: tensor %s: %w: the file is damaged or was converted wrongly; use another one",
			f.Name(), quote.Name(cmp.Or(f.Origins[t.Name], t.Name)), err)
	}
	return nil
}
