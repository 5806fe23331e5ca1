// Package safetensors reads the files that Hugging Face's checkpoints are published
// in: eight bytes of header length, a JSON header that says where each tensor lies,
// and the data. The format is described in the safetensors repository's README.
//
// A file is read by ranges: opening it fetches its header only. As it may come from anywhere,
// every length in the header is checked against the size of the file before memory is allocated for it. Errors are one
// line, start with "safetensors:" and name the file, the field and the reason.
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
)

// Bounds above any published file.
const (
	maxHeader  = 100_000_000 // bytes; the reference implementation's own
	maxTensors = 1 << 17
	maxDims    = 8
	maxName    = 1024
	// MaxShards bounds the files of one index.
	MaxShards = 1024
)

// Dtype is a storage type, as the header names it.
type Dtype string

// The storage types whose elements this package decodes. Others are listed and can be read as bytes.
const (
	F32  Dtype = "F32"
	F16  Dtype = "F16"
	BF16 Dtype = "BF16"
	I64  Dtype = "I64"
	I32  Dtype = "I32"
	Bool Dtype = "BOOL"
)

var sizes = map[Dtype]uint64{Bool: 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "U16": 2, F16: 2, BF16: 2,
	I32: 4, "U32": 4, F32: 4, "F64": 8, I64: 8, "U64": 8}

// TensorInfo says where a tensor lies and how it is stored.
type TensorInfo struct {
	Name   string
	Dtype  Dtype
	Shape  []uint64 // outermost first, as PyTorch has it; empty for a scalar
	Offset int64    // of the first byte, from the start of its file
	Size   int64    // bytes
	src    files.Source
}

// Elements is the product of the shape.
func (t *TensorInfo) Elements() uint64 { return uint64(t.Size) / sizes[t.Dtype] }

// File is an opened safetensors file, or the files of one index. It is safe for concurrent use if its sources are.
type File struct {
	Tensors []TensorInfo // in the order of their data
	name    string
	byName  map[string]int
}

// Name is the name of the file's source, or of the index.
func (f *File) Name() string { return f.name }

// Open reads a file's header, but no tensor.
func Open(src files.Source) (*File, error) {
	f := &File{name: src.Name(), byName: map[string]int{}}
	return f, f.add(src)
}

// OpenSharded reads an index (model.safetensors.index.json) and the headers of the files that it names, which open
// finds. Every tensor must be in the file that the index says.
func OpenSharded(index files.Source, open func(name string) (files.Source, error)) (*File, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("safetensors: %s: %w", index.Name(), fmt.Errorf(format, args...))
	}
	if index.Size() < 2 || index.Size() > maxHeader {
		return nil, fail("an index of %d bytes; want 2 to %d", index.Size(), maxHeader)
	}
	raw := make([]byte, index.Size())
	if err := files.ReadFull(index, raw, 0); err != nil {
		return nil, fail("%w", err)
	}
	var list struct {
		Weights map[string]string `json:"weight_map"`
	}
	if err := (strictjson.Rules{Foreign: true, Values: maxTensors + maxName}).Decode(raw, &list); err != nil {
		return nil, fail("not an index in JSON: %w", quote.Error(err))
	}
	if len(list.Weights) == 0 {
		return nil, fail("weight_map is missing or empty")
	}
	names := slices.Compact(slices.Sorted(maps.Values(list.Weights)))
	if len(names) > MaxShards {
		return nil, fail("weight_map names %d files; at most %d are read", len(names), MaxShards)
	}
	for _, name := range names {
		if name == "" || strings.ContainsAny(name, "/\\") || strings.HasPrefix(name, ".") {
			return nil, fail("weight_map names the file %s, which is not a plain file name", quote.Text(name))
		}
	}
	f := &File{name: index.Name(), byName: map[string]int{}}
	for _, name := range names {
		src, err := open(name)
		if err != nil {
			return nil, fail("%s: %w", quote.Text(name), err)
		}
		before := len(f.Tensors)
		if err := f.add(src); err != nil {
			return nil, err
		}
		for i := range f.Tensors[before:] {
			if t := &f.Tensors[before+i]; list.Weights[t.Name] != name {
				return nil, fail("tensor %s is in %s, where weight_map does not have it", quote.Text(t.Name),
					quote.Text(name))
			}
		}
	}
	for name, file := range list.Weights {
		if !f.Has(name) {
			return nil, fail("tensor %s is not in %s: the files do not belong together", quote.Text(name),
				quote.Text(file))
		}
	}
	return f, nil
}

// add reads the header of one file.
func (f *File) add(src files.Source) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("safetensors: %s: %w", src.Name(), fmt.Errorf(format, args...))
	}
	if src.Size() < 10 {
		return fail("%d bytes are too few for a safetensors file: download it again", src.Size())
	}
	var head [8]byte
	if err := files.ReadFull(src, head[:], 0); err != nil {
		return fail("header: %w", err)
	}
	n, left := binary.LittleEndian.Uint64(head[:]), uint64(src.Size())-8
	switch {
	case string(head[:4]) == "GGUF":
		return fail("header: this is a GGUF file, not safetensors")
	case bytes.HasPrefix(head[:], []byte("version ")):
		return fail("header: this is a Git LFS pointer, not a model: fetch the file itself with git lfs pull")
	case bytes.HasPrefix(head[:], []byte("PK\x03\x04")):
		return fail("header: this is a zip archive (a PyTorch checkpoint?), not safetensors")
	case n > maxHeader:
		return fail(
			"header: its length is %d bytes; at most %d are read: not a safetensors file, or damaged", n, maxHeader)
	case n > left:
		return fail("header: its length is %d bytes but the file has %d: it is truncated, download it again", n, left)
	}
	raw := make([]byte, n)
	if err := files.ReadFull(src, raw, 8); err != nil {
		return fail("header: %w", err)
	}
	entries, err := f.parse(raw)
	if err != nil {
		return fail("%w", err)
	}
	slices.SortFunc(entries, func(a, b *TensorInfo) int { // an empty tensor before what begins where it lies
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size))
	})
	f.Tensors = slices.Grow(f.Tensors, len(entries))
	if len(f.byName) == 0 {
		f.byName = make(map[string]int, len(entries))
	}
	at := int64(0)
	for i, t := range entries {
		switch {
		case t.Offset < at:
			return fail("tensor %s: its data lies over that of tensor %s: the file is damaged", quote.Text(t.Name),
				quote.Text(entries[i-1].Name))
		case t.Offset > at:
			return fail("tensor %s: the data begins at %d, %d bytes after that of the tensor before it: "+
				"the file is damaged", quote.Text(t.Name), t.Offset, t.Offset-at)
		}
		at = t.Offset + t.Size
		if uint64(at) > left-n {
			return fail("tensor %s: ends at byte %d of %d of data: the file is truncated, download it again",
				quote.Text(t.Name), at, left-n)
		}
		t.Offset += int64(8 + n)
		t.src = src
		if _, ok := f.byName[t.Name]; ok {
			return fail("tensor %s: the name occurs twice", quote.Text(t.Name))
		}
		f.byName[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, *t)
	}
	if uint64(at) != left-n {
		return fail("%d bytes of data follow the last tensor: the file is damaged", left-n-uint64(at))
	}
	return nil
}

// parse reads the header's JSON. Offsets are still relative to the data. __metadata__ says nothing that a program
// needs.
func (f *File) parse(raw []byte) ([]*TensorInfo, error) {
	wrong := func(err error) error {
		return fmt.Errorf("header: not a JSON object of tensors: %w", quote.Error(err))
	}
	if err := strictjson.Check(raw); err != nil {
		return nil, wrong(err)
	}
	if raw = bytes.TrimSpace(raw); raw[0] != '{' {
		return nil, wrong(errors.New("it does not begin with {"))
	}
	n := 0
	for range strictjson.Members(raw) {
		if n++; n > maxTensors+1 { // the metadata is one
			return nil, fmt.Errorf("header: more than %d tensors", maxTensors)
		}
	}
	all := make([]*TensorInfo, 0, n)
	for name, value := range strictjson.Members(raw) {
		if name == "__metadata__" {
			if !texts(value) {
				return nil, errors.New("__metadata__: not an object of texts")
			}
			continue
		}
		if name == "" || len(name) > maxName {
			return nil, fmt.Errorf("tensor %s: the name is empty or longer than %d bytes", quote.Text(name), maxName)
		}
		t := &TensorInfo{Name: strings.Clone(name)}
		offsets, err := t.entry(value)
		if err == nil {
			err = t.place(offsets)
		}
		if err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote.Text(name), err)
		}
		all = append(all, t)
	}
	return all, nil
}

// entry reads a tensor's type, shape and range of the data. Further members are skipped.
func (t *TensorInfo) entry(value []byte) (offsets []uint64, err error) {
	if value[0] != '{' {
		return nil, errors.New("want an object of dtype, shape and data_offsets")
	}
	for name, v := range strictjson.Members(value) {
		switch name {
		case "dtype":
			if v[0] != '"' {
				return nil, errors.New("dtype is no text")
			}
			t.Dtype = Dtype(strings.Clone(strictjson.Text(v)))
		case "shape":
			t.Shape, err = numbers(v, maxDims)
		case "data_offsets":
			offsets, err = numbers(v, 2)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", quote.Name(name), err)
		}
	}
	return offsets, nil
}

// numbers reads a list of at most so many whole numbers, none negative.
func numbers(value []byte, most int) ([]uint64, error) {
	if value[0] != '[' {
		return nil, errors.New("want a list of whole numbers")
	}
	all := []uint64{}
	for v := range strictjson.Elements(value) {
		n, err := strconv.ParseUint(string(v), 10, 63)
		if err != nil {
			return nil, fmt.Errorf("%s is no whole number from 0 to 2^63",
				quote.Escape(string(v[:min(len(v), 40)]), 40))
		}
		if len(all) == most {
			return nil, fmt.Errorf("more than %d numbers", most)
		}
		all = append(all, n)
	}
	return all, nil
}

// texts reports whether a value is an object of texts, or null as some writers put for none.
func texts(value []byte) bool {
	for _, text := range strictjson.Members(value) {
		if text[0] != '"' {
			return false
		}
	}
	return value[0] == '{' || string(value) == "null"
}

// place checks that a tensor's type, shape and range of bytes agree.
func (t *TensorInfo) place(offsets []uint64) error {
	size, ok := sizes[t.Dtype]
	if !ok {
		return fmt.Errorf("dtype %s is unknown", quote.Text(string(t.Dtype)))
	}
	if t.Shape == nil || len(t.Shape) > maxDims {
		return fmt.Errorf("shape is missing or has more than %d dimensions", maxDims)
	}
	for _, d := range t.Shape {
		if d != 0 && size > math.MaxInt64/d {
			return fmt.Errorf("shape %v is too large", t.Shape)
		}
		size *= d
	}
	if len(offsets) != 2 {
		return fmt.Errorf("data_offsets are %d numbers; want the begin and the end of a range", len(offsets))
	}
	if offsets[1] < offsets[0] {
		return fmt.Errorf("data_offsets %v; want the begin and the end of a range", offsets)
	}
	if got := offsets[1] - offsets[0]; got != size {
		return fmt.Errorf("data_offsets span %d bytes, but %s of shape %v takes %d", got, t.Dtype, t.Shape, size)
	}
	t.Offset, t.Size = int64(offsets[0]), int64(offsets[1]-offsets[0])
	return nil
}
