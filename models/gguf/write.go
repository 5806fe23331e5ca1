package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"foretoken/internal/quote"
)

// KV is one metadata entry to write. Value is a bool, string, int8 to int64, uint8 to uint64, float32, float64, a
// slice of one of these types, or what [File.Metadata] gave.
type KV struct {
	Key   string
	Value any
}

// WriteTensor is one tensor to write.
type WriteTensor struct {
	Name string
	Dims []uint64 // Dims[0] is the length of a row
	Type Type
	Data []byte // as stored
}

// Bytes returns a GGUF file of version 3, for tests and small files: Layout is for large ones. The data is aligned to
// the uint32 in general.alignment, or to 32 bytes without it.
func Bytes(kv []KV, tensors []WriteTensor) ([]byte, error) {
	out, _, align, err := encodeHeader(kv, tensors)
	if err != nil {
		return nil, fmt.Errorf("gguf: write: %w", err)
	}
	for _, t := range tensors {
		size, _ := tensorBytes(t.Type, t.Dims)
		if uint64(len(t.Data)) != size {
			return nil, fmt.Errorf("gguf: write: tensor %s: the data is not of %d bytes", quote.Text(t.Name), size)
		}
		out = append(append(out, t.Data...), make([]byte, padding(size, align))...)
	}
	return out, nil
}

func padding(n, align uint64) uint64 { return (align - n%align) % align }

// Layout describes the file that Bytes returns without making it: the bytes before the tensor data, where each tensor's
// data begins, counted from the start of the file, and the size of the file. Between the data of two tensors, and after
// the last, are zero bytes. The tensors' Data may be nil.
func Layout(kv []KV, tensors []WriteTensor) (head []byte, offsets []int64, size int64, err error) {
	head, starts, align, err := encodeHeader(kv, tensors)
	if err != nil {
		return nil, nil, 0, fmt.Errorf("gguf: write: %w", err)
	}
	size = int64(len(head))
	offsets = make([]int64, len(tensors))
	for i, t := range tensors {
		n, _ := tensorBytes(t.Type, t.Dims)
		offsets[i] = int64(len(head)) + int64(starts[i])
		size = offsets[i] + int64(n+padding(n, align))
	}
	return head, offsets, size, nil
}

// encodeHeader gives the bytes before the data, where each tensor begins in the data, and the alignment.
func encodeHeader(kv []KV, tensors []WriteTensor) ([]byte, []uint64, uint64, error) {
	le := binary.LittleEndian
	b := append([]byte("GGUF"), 3, 0, 0, 0)
	b = le.AppendUint64(b, uint64(len(tensors)))
	b = le.AppendUint64(b, uint64(len(kv)))
	align := uint64(32)
	seen := map[string]bool{}
	for _, e := range kv {
		if e.Key == "" || len(e.Key) > maxKeyBytes || seen[e.Key] {
			return nil, nil, 0, fmt.Errorf("the key %s is empty, too long or occurs twice", quote.Text(e.Key))
		}
		seen[e.Key] = true
		if e.Key == "general.alignment" {
			a, ok := e.Value.(uint32)
			if !ok || a == 0 || a&(a-1) != 0 || a > maxAlign {
				return nil, nil, 0, fmt.Errorf("general.alignment is %v, want a uint32 power of two up to %d",
					e.Value, maxAlign)
			}
			align = uint64(a)
		}
		b = appendString(b, e.Key)
		var err error
		if b, err = appendValue(b, e.Value); err != nil {
			return nil, nil, 0, fmt.Errorf("%s: %w", quote.Text(e.Key), err)
		}
	}
	names, off, starts := map[string]bool{}, uint64(0), make([]uint64, 0, len(tensors))
	for _, t := range tensors {
		size, err := tensorBytes(t.Type, t.Dims)
		if err == nil && (t.Name == "" || len(t.Name) > maxName || names[t.Name]) {
			err = fmt.Errorf("the name is empty, too long or occurs twice")
		}
		if err == nil && off > math.MaxInt64-size-align {
			err = fmt.Errorf("the file becomes too large")
		}
		if err != nil {
			return nil, nil, 0, fmt.Errorf("tensor %s: %w", quote.Text(t.Name), err)
		}
		names[t.Name] = true
		b = appendString(b, t.Name)
		b = le.AppendUint32(b, uint32(len(t.Dims)))
		for _, d := range t.Dims {
			b = le.AppendUint64(b, d)
		}
		b = le.AppendUint32(b, uint32(t.Type))
		b = le.AppendUint64(b, off)
		starts = append(starts, off)
		off += size + padding(size, align)
	}
	return append(b, make([]byte, padding(uint64(len(b)), align))...), starts, align, nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// goKinds are the kinds of Go's types with the same representation.
var goKinds = map[reflect.Kind]kind{reflect.Uint8: kindU8, reflect.Int8: kindI8, reflect.Uint16: kindU16,
	reflect.Int16: kindI16, reflect.Uint32: kindU32, reflect.Int32: kindI32, reflect.Uint64: kindU64,
	reflect.Int64: kindI64, reflect.Float32: kindF32, reflect.Float64: kindF64, reflect.Bool: kindBool}

func appendValue(b []byte, v any) ([]byte, error) {
	le := binary.LittleEndian
	array := func(k kind, n int) []byte {
		b = le.AppendUint32(le.AppendUint32(b, uint32(kindArray)), uint32(k))
		return le.AppendUint64(b, uint64(n))
	}
	switch x := v.(type) {
	case string:
		return appendString(le.AppendUint32(b, uint32(kindString)), x), nil
	case []string:
		b = array(kindString, len(x))
		for _, s := range x {
			b = appendString(b, s)
		}
		return b, nil
	case value:
		return x.encode(b), nil
	}
	r := reflect.ValueOf(v)
	if k, ok := goKinds[r.Kind()]; ok {
		return binary.Append(le.AppendUint32(b, uint32(k)), le, v)
	}
	if r.Kind() == reflect.Slice {
		if k, ok := goKinds[r.Type().Elem().Kind()]; ok {
			return binary.Append(array(k, r.Len()), le, v)
		}
	}
	return nil, fmt.Errorf("a value of type %T cannot be written", v)
}

// Metadata lists the metadata as Bytes takes it, in the file's order. Values are
// written again with the types that the file has them in.
func (f *File) Metadata() []KV {
	kv := make([]KV, len(f.order))
	for i, key := range f.order {
		kv[i] = KV{key, f.values[key]}
		if key == "general.alignment" { // Open has read it, of whatever type
			kv[i].Value, _ = f.Uint32(key)
		}
	}
	return kv
}

// encode appends the value and its type, as the file has them.
func (v value) encode(b []byte) []byte {
	le := binary.LittleEndian
	if v.array {
		b = le.AppendUint32(b, uint32(kindArray))
	}
	b = le.AppendUint32(b, uint32(v.kind))
	switch {
	case v.array:
		b = le.AppendUint64(b, v.count)
	case v.kind == kindString:
		return appendString(b, v.text)
	}
	for _, part := range v.parts {
		b = append(b, part...)
	}
	return b
}
