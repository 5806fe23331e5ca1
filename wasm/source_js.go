package main

import (
	"fmt"
	"io"

	"foretoken/models/gguf"

	"github.com/hack-pad/safejs"
)

// source is a model file that JavaScript reads: {name, size, read(offset,
// length) → Promise<Uint8Array>}.
type source struct {
	value safejs.Value
	name  string
	size  int64
}

var _ gguf.Source = (*source)(nil)

func newSource(v safejs.Value) (*source, error) {
	s := &source{value: v}
	name, err := v.Get("name")
	if err != nil {
		return nil, fmt.Errorf("foretoken: a model source: %w", err)
	}
	if s.name, err = name.String(); err != nil {
		return nil, fmt.Errorf("foretoken: a model source's name: %w", err)
	}
	size, err := v.Get("size")
	if err != nil {
		return nil, err
	}
	n, err := size.Float()
	if err != nil || n < 0 || n > 1<<52 {
		return nil, fmt.Errorf("foretoken: %s: the source has no usable size", s.name)
	}
	s.size = int64(n)
	return s, nil
}

func (s *source) Name() string { return s.name }
func (s *source) Size() int64  { return s.size }

func (s *source) ReadAt(p []byte, off int64) (int, error) {
	if off >= s.size {
		return 0, io.EOF
	}
	short := off+int64(len(p)) > s.size
	if short {
		p = p[:s.size-off]
	}
	promise, err := s.value.Call("read", float64(off), len(p))
	if err != nil {
		return 0, fmt.Errorf("%s: reading %d bytes at %d: %w", s.name, len(p), off, err)
	}
	bytes, err := await(promise)
	if err != nil {
		return 0, err // the source's own message names the file
	}
	n, err := safejs.CopyBytesToGo(p, bytes)
	if err != nil {
		return 0, fmt.Errorf("%s: reading %d bytes at %d: %w", s.name, len(p), off, err)
	}
	if n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}
