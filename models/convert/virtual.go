package convert

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/models/gguf"
	"foretoken/models/quant"
)

// chunk is the number of bytes of a tensor converted at once: a call of ReadAt needs a few times as many bytes
// besides its argument.
const chunk = 256 << 10

// virtual is a GGUF file whose tensor data is computed as it is read.
type virtual struct {
	name   string
	head   []byte
	size   int64
	pieces []piece // in the order of their data
}

var _ files.Source = (*virtual)(nil)

type piece struct {
	tensor   string
	at, size int64 // of the data, from the start of the file
	data     ranged
}

// source lays the file out.
func (m *model) source() (files.Source, error) {
	tensors := make([]gguf.WriteTensor, len(m.tensors))
	for i, t := range m.tensors {
		tensors[i] = gguf.WriteTensor{Name: t.name, Dims: t.dims, Type: t.typ}
	}
	head, offsets, size, err := gguf.Layout(m.kv, tensors)
	if err != nil {
		return nil, fmt.Errorf("convert: %s: %w", m.name, err)
	}
	v := &virtual{name: m.name, head: head, size: size}
	for i, t := range m.tensors {
		row, _ := t.typ.RowBytes(t.dims[0]) // Layout has checked it
		for _, d := range t.dims[1:] {
			row *= d
		}
		v.pieces = append(v.pieces, piece{t.name, offsets[i], int64(row), t.data})
	}
	return v, nil
}

func (v *virtual) Name() string { return v.name }

func (v *virtual) Size() int64 { return v.size }

// ReadAt computes the bytes of any range. It may be called from several goroutines.
func (v *virtual) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("convert: a negative offset")
	}
	if off >= v.size {
		return 0, io.EOF
	}
	want := p[:min(int64(len(p)), v.size-off)]
	done := 0
	for done < len(want) {
		rest, at := want[done:], off+int64(done)
		if at < int64(len(v.head)) {
			done += copy(rest, v.head[at:])
			continue
		}
		// The piece that at is in, or that the zeros around it follow.
		i := sort.Search(len(v.pieces), func(i int) bool { return v.pieces[i].at > at }) - 1
		if i >= 0 {
			if t := &v.pieces[i]; at < t.at+t.size {
				rest = rest[:min(int64(len(rest)), t.at+t.size-at)]
				if err := t.data(rest, at-t.at); err != nil {
					return done, fmt.Errorf("convert: tensor %s: %w", quote.Text(t.tensor), err)
				}
				done += len(rest)
				continue
			}
		}
		if i+1 < len(v.pieces) {
			rest = rest[:min(int64(len(rest)), v.pieces[i+1].at-at)]
		}
		clear(rest)
		done += len(rest)
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// memory gives a tensor's data that was computed beforehand.
func memory(data []byte) ranged {
	return func(p []byte, off int64) error {
		copy(p, data[off:])
		return nil
	}
}

// scratch is the memory that a call works in.
type scratch struct {
	raw, out []byte
	floats   []float32
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// grow gives a slice of n elements, in the same memory where that suffices.
func grow[T any](s *[]T, n int) []T {
	if cap(*s) < n {
		*s = make([]T, n)
	}
	return (*s)[:n]
}

// recoded is a tensor stored in another type than its data. A row is an integer number of blocks of either type, so
// the data is one run of units of the larger block.
type recoded struct {
	from       ranged
	stored, to gguf.Type
	times      float32 // factor of the elements; 0: none
}

func (r *recoded) readAt(p []byte, off int64) error {
	unit := int64(max(r.stored.BlockSize(), r.to.BlockSize())) // elements; blocks are powers of two
	in := unit / int64(r.stored.BlockSize()) * int64(r.stored.BlockBytes())
	out := unit / int64(r.to.BlockSize()) * int64(r.to.BlockBytes())
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	step := max(1, chunk/4/unit)
	end := (off + int64(len(p)) + out - 1) / out
	for u := off / out; u < end; u += step {
		n := min(step, end-u)
		raw, floats := grow(&s.raw, int(n*in)), grow(&s.floats, int(n*unit))
		if err := r.from(raw, u*in); err != nil {
			return err
		}
		if err := quant.Dequantize(r.stored, raw, floats); err != nil {
			return err
		}
		for i := range floats {
			if r.times != 0 {
				floats[i] *= r.times
			}
		}
		at := u*out - off // in p
		whole := at >= 0 && at+n*out <= int64(len(p))
		var dst []byte
		if whole {
			dst = p[at : at+n*out]
		} else {
			dst = grow(&s.out, int(n*out))
		}
		if err := quant.Quantize(r.to, floats, dst); err != nil {
			return fmt.Errorf(
				"from element %d on: %w: take another type, or another file if that is no number", u*unit, err)
		}
		if !whole {
			place(p, dst, at)
		}
	}
	return nil
}

// place copies to p what of src, which begins at byte at of p, lies inside of it.
func place(p, src []byte, at int64) {
	if at < 0 {
		src, at = src[min(-at, int64(len(src))):], 0
	}
	if at < int64(len(p)) {
		copy(p[at:], src)
	}
}

// interleaved is a matrix whose rows change places within every head: llama.cpp's graph
// rotates neighbouring elements 2j and 2j+1, the checkpoint has them half a head apart.
type interleaved struct {
	from     ranged
	rowBytes int64
	headRows int64 // even
}

func (r *interleaved) readAt(p []byte, off int64) error {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	half, pair := r.headRows/2, 2*r.rowBytes
	most := max(1, chunk/pair) // pairs at once
	end := off + int64(len(p))
	// k counts pairs over the complete matrix; half of a head's rows are the first of a pair.
	for k := off / pair; k*pair < end; {
		j := k % half
		n := min(most, half-j, (end+pair-1)/pair-k)
		raw := grow(&s.raw, int(n*pair))
		first, second := raw[:n*r.rowBytes], raw[n*r.rowBytes:]
		head := k / half * r.headRows
		if err := r.from(first, (head+j)*r.rowBytes); err != nil {
			return err
		}
		if err := r.from(second, (head+half+j)*r.rowBytes); err != nil {
			return err
		}
		for i := range n {
			at := (k+i)*pair - off
			place(p, first[i*r.rowBytes:][:r.rowBytes], at)
			place(p, second[i*r.rowBytes:][:r.rowBytes], at+r.rowBytes)
		}
		k += n
	}
	return nil
}
