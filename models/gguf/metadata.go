package gguf

import (
	"fmt"
	"math"
	"strings"
	"unicode"
)

// Has reports whether the metadata has the key.
func (f *File) Has(key string) bool { _, ok := f.values[key]; return ok }

// Keys lists the metadata keys in the file's order.
func (f *File) Keys() []string { return append([]string(nil), f.order...) }

// Describe shows the value of a key on one line, for listings: scalars and short strings in full, arrays by type
// and length. It is empty for a key that is not there.
func (f *File) Describe(key string) string {
	v, ok := f.values[key]
	if !ok {
		return ""
	}
	switch {
	case v.array:
		return fmt.Sprintf("%d × %s", v.count, v.kind)
	case v.kind == kindString:
		return Quote(v.text)
	case v.kind == kindBool:
		return fmt.Sprint(v.parts[0][0] != 0)
	}
	if x, ok := v.float(0); ok {
		return fmt.Sprintf("%.7g", x)
	}
	n, huge, _ := v.integer(0)
	if huge {
		return fmt.Sprint(uint64(n))
	}
	return fmt.Sprint(n)
}

// get finds a key of the wanted shape.
func (f *File) get(key, want string, array bool) (*value, error) {
	v, ok := f.values[key]
	if !ok {
		return nil, fmt.Errorf("gguf: %s: %s is missing, want %s: the file is incomplete or of another kind",
			f.Name(), key, want)
	}
	if v.array != array {
		return nil, f.mistyped(key, want, &v)
	}
	return &v, nil
}

func (f *File) mistyped(key, want string, v *value) error {
	return fmt.Errorf("gguf: %s: %s is of type %s, want %s", f.Name(), key, v, want)
}

// Uint32 reads a count or an id. Any integer type that holds the value will do, because converters differ; a
// negative value or one that does not fit is an error.
func (f *File) Uint32(key string) (uint32, error) {
	const want = "uint32"
	v, err := f.get(key, want, false)
	if err != nil {
		return 0, err
	}
	if v.kind == kindString {
		return 0, f.mistyped(key, want, v)
	}
	n, huge, ok := v.integer(0)
	if !ok {
		return 0, f.mistyped(key, want, v)
	}
	if huge || n < 0 || n > math.MaxUint32 {
		return 0, fmt.Errorf("gguf: %s: %s is %s, which does not fit in %s", f.Name(), key, f.Describe(key), want)
	}
	return uint32(n), nil
}

// Float32 reads a finite number stored as a 32 or 64 bit float.
func (f *File) Float32(key string) (float32, error) {
	const want = "float32"
	v, err := f.get(key, want, false)
	if err != nil {
		return 0, err
	}
	if v.kind == kindString {
		return 0, f.mistyped(key, want, v)
	}
	x, ok := v.float(0)
	if !ok {
		return 0, f.mistyped(key, want, v)
	}
	if y := float32(x); !math.IsNaN(x) && !math.IsInf(float64(y), 0) {
		return y, nil
	}
	return 0, fmt.Errorf("gguf: %s: %s is %v, want a finite %s", f.Name(), key, x, want)
}

// Bool reads a bool.
func (f *File) Bool(key string) (bool, error) {
	const want = "bool"
	v, err := f.get(key, want, false)
	if err != nil {
		return false, err
	}
	if v.kind != kindBool {
		return false, f.mistyped(key, want, v)
	}
	return v.parts[0][0] != 0, nil
}

// String reads a string, which need not be UTF-8.
func (f *File) String(key string) (string, error) {
	const want = "string"
	v, err := f.get(key, want, false)
	if err != nil {
		return "", err
	}
	if v.kind != kindString {
		return "", f.mistyped(key, want, v)
	}
	return v.text, nil
}

// Bools reads an array of bools.
func (f *File) Bools(key string) ([]bool, error) {
	const want = "array of bool"
	v, err := f.get(key, want, true)
	if err != nil {
		return nil, err
	}
	if v.kind != kindBool {
		return nil, f.mistyped(key, want, v)
	}
	out := make([]bool, v.count)
	for i := range out {
		out[i] = v.parts[0][i] != 0
	}
	return out, nil
}

// Strings reads an array of strings, which need not be UTF-8.
func (f *File) Strings(key string) ([]string, error) {
	const want = "array of string"
	v, err := f.get(key, want, true)
	if err != nil {
		return nil, err
	}
	if v.kind != kindString {
		return nil, f.mistyped(key, want, v)
	}
	return v.strings(), nil
}

// Int32s reads an array of integers of any type; one that does not fit is an error.
func (f *File) Int32s(key string) ([]int32, error) {
	const want = "array of int32"
	v, err := f.get(key, want, true)
	if err != nil {
		return nil, err
	}
	if v.kind == kindString {
		return nil, f.mistyped(key, want, v)
	}
	out := make([]int32, v.count)
	for i := range out {
		n, huge, ok := v.integer(uint64(i))
		if !ok {
			return nil, f.mistyped(key, want, v)
		}
		if huge || n != int64(int32(n)) {
			return nil, fmt.Errorf("gguf: %s: element %d of %s does not fit in int32", f.Name(), i, key)
		}
		out[i] = int32(n)
	}
	return out, nil
}

// Float32s reads an array of 32 or 64 bit floats; they may be infinite or NaN.
func (f *File) Float32s(key string) ([]float32, error) {
	const want = "array of float32"
	v, err := f.get(key, want, true)
	if err != nil {
		return nil, err
	}
	if v.kind != kindF32 && v.kind != kindF64 {
		return nil, f.mistyped(key, want, v)
	}
	out := make([]float32, v.count)
	for i := range out {
		x, _ := v.float(uint64(i))
		out[i] = float32(x)
	}
	return out, nil
}

// IsArray reports whether the key is there and holds an array: some models
// store one number per layer where others store one for all.
func (f *File) IsArray(key string) bool { return f.values[key].array }

// Uint32Or is Uint32 with a value for a key that is not there. A key that is
// there with another type is still an error.
func (f *File) Uint32Or(key string, missing uint32) (uint32, error) {
	return or(f, key, missing, f.Uint32)
}

// Float32Or is Float32 with a value for a key that is not there.
func (f *File) Float32Or(key string, missing float32) (float32, error) {
	return or(f, key, missing, f.Float32)
}

// BoolOr is Bool with a value for a key that is not there.
func (f *File) BoolOr(key string, missing bool) (bool, error) {
	return or(f, key, missing, f.Bool)
}

// StringOr is String with a value for a key that is not there.
func (f *File) StringOr(key, missing string) (string, error) {
	return or(f, key, missing, f.String)
}

// StringsOr is Strings with a value for a key that is not there.
func (f *File) StringsOr(key string, missing []string) ([]string, error) {
	return or(f, key, missing, f.Strings)
}

// Int32sOr is Int32s with a value for a key that is not there.
func (f *File) Int32sOr(key string, missing []int32) ([]int32, error) {
	return or(f, key, missing, f.Int32s)
}

// Float32sOr is Float32s with a value for a key that is not there.
func (f *File) Float32sOr(key string, missing []float32) ([]float32, error) {
	return or(f, key, missing, f.Float32s)
}

func or[T any](f *File, key string, missing T, get func(string) (T, error)) (T, error) {
	if !f.Has(key) {
		return missing, nil
	}
	return get(key)
}

// Summary is the architecture and the name, for messages and listings.
func (f *File) Summary() string {
	var words []string
	for _, key := range []string{"general.architecture", "general.name"} {
		if s, err := f.String(key); err == nil {
			words = append(words, strings.Map(func(r rune) rune {
				if !unicode.IsPrint(r) {
					return -1
				}
				return r
			}, s[:min(len(s), 80)]))
		}
	}
	return strings.Join(words, ", ")
}
