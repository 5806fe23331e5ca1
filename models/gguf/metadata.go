package gguf

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"foretoken/internal/quote"
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
		return quote.Text(v.text)
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

// Bounds of the chat templates of one model, far above published ones.
const (
	MaxTemplates     = 64 // the default one and the named ones together
	MaxTemplateBytes = 1 << 20
)

// Blank reports whether a text is empty or white space only, as chat templates of base models often are: such a text
// counts as a missing one.
func Blank(text string) bool {
	return strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' }) == ""
}

// get finds a key, a scalar or an array, and decodes it. decode reports whether the value is of a type that will do.
func get[T any](f *File, key, want string, array bool, decode func(v *value) (T, bool)) (x T, err error) {
	v, ok := f.values[key]
	if !ok {
		return x, fmt.Errorf("gguf: %s: %s is missing, want %s: the file is incomplete or of another kind",
			f.Name(), quote.Name(key), want)
	}
	if v.array == array {
		if x, ok := decode(&v); ok {
			return x, nil
		}
	}
	return x, fmt.Errorf("gguf: %s: %s is of type %s, want %s", f.Name(), quote.Name(key), &v, want)
}

// Uint32 reads a count or an id. Any integer type that holds the value will do, because converters differ; a
// negative value or one that does not fit is an error.
func (f *File) Uint32(key string) (uint32, error) {
	const want = "uint32"
	fits := false
	n, err := get(f, key, want, false, func(v *value) (int64, bool) {
		n, huge, ok := v.integer(0)
		fits = !huge && n >= 0 && n <= math.MaxUint32
		return n, ok
	})
	if err == nil && !fits {
		return 0, fmt.Errorf("gguf: %s: %s is %s, which does not fit in %s", f.Name(), quote.Name(key), f.Describe(key),
			want)
	}
	return uint32(n), err
}

// Float32 reads a finite number stored as a 32 or 64 bit float.
func (f *File) Float32(key string) (float32, error) {
	const want = "float32"
	x, err := get(f, key, want, false, func(v *value) (float64, bool) { return v.float(0) })
	if y := float64(float32(x)); err == nil && (math.IsNaN(y) || math.IsInf(y, 0)) {
		return 0, fmt.Errorf("gguf: %s: %s is %v, want a finite %s", f.Name(), quote.Name(key), x, want)
	}
	return float32(x), err
}

// Bool reads a bool.
func (f *File) Bool(key string) (bool, error) {
	return get(f, key, "bool", false, func(v *value) (bool, bool) {
		ok := v.kind == kindBool
		return ok && v.parts[0][0] != 0, ok
	})
}

// String reads a string, which need not be UTF-8.
func (f *File) String(key string) (string, error) {
	return get(f, key, "string", false, func(v *value) (string, bool) { return v.text, v.kind == kindString })
}

// Bools reads an array of bools.
func (f *File) Bools(key string) ([]bool, error) {
	return get(f, key, "array of bool", true, func(v *value) ([]bool, bool) {
		if v.kind != kindBool {
			return nil, false
		}
		out := make([]bool, v.count)
		for i := range out {
			out[i] = v.parts[0][i] != 0
		}
		return out, true
	})
}

// Strings reads an array of strings, which need not be UTF-8.
func (f *File) Strings(key string) ([]string, error) {
	return get(f, key, "array of string", true, func(v *value) ([]string, bool) {
		if v.kind != kindString {
			return nil, false
		}
		return v.strings(v.count), true
	})
}

// Int32s reads an array of integers of any type; one that does not fit is an error.
func (f *File) Int32s(key string) ([]int32, error) {
	odd := -1 // an element that does not fit
	out, err := get(f, key, "array of int32", true, func(v *value) ([]int32, bool) {
		out := make([]int32, v.count)
		for i := range out {
			n, huge, ok := v.integer(uint64(i))
			if !ok {
				return nil, false
			}
			if out[i] = int32(n); odd < 0 && (huge || n != int64(out[i])) {
				odd = i
			}
		}
		return out, v.kind != kindString
	})
	if err == nil && odd >= 0 {
		return nil, fmt.Errorf("gguf: %s: element %d of %s does not fit in int32", f.Name(), odd, quote.Name(key))
	}
	return out, err
}

// Float32s reads an array of 32 or 64 bit floats; they may be infinite or NaN.
func (f *File) Float32s(key string) ([]float32, error) {
	return get(f, key, "array of float32", true, func(v *value) ([]float32, bool) {
		if v.kind != kindF32 && v.kind != kindF64 {
			return nil, false
		}
		out := make([]float32, v.count)
		for i := range out {
			x, _ := v.float(uint64(i))
			out[i] = float32(x)
		}
		return out, true
	})
}

// Elements returns the first elements of an array, at most so many, as string, bool, int64, uint64, float32 or
// float64; nil for a key that holds none.
func (f *File) Elements(key string, most int) []any {
	v, ok := f.values[key]
	if !ok || !v.array {
		return nil
	}
	out := []any{}
	if v.kind == kindString {
		for _, s := range v.strings(uint64(most)) {
			out = append(out, s)
		}
		return out
	}
	for i := range min(v.count, uint64(most)) {
		out = append(out, v.element(i))
	}
	return out
}

// Count returns the number of elements of an array, 0 for a key that holds none.
func (f *File) Count(key string) uint64 { return f.values[key].count }

// IsArray reports whether the key is there and holds an array: some models
// store one number per layer where others store one for all.
func (f *File) IsArray(key string) bool { return f.values[key].array }

// Uint32Or is Uint32 with a value for a key that is not there. A key that is there with another type is still an error.
func (f *File) Uint32Or(key string, missing uint32) (uint32, error) {
	return or(f, key, missing, f.Uint32)
}

// BoolOr is Bool with a value for a key that is not there.
func (f *File) BoolOr(key string, missing bool) (bool, error) {
	return or(f, key, missing, f.Bool)
}

// StringOr is String with a value for a key that is not there.
func (f *File) StringOr(key, missing string) (string, error) {
	return or(f, key, missing, f.String)
}

// Int32sOr is Int32s with a value for a key that is not there.
func (f *File) Int32sOr(key string, missing []int32) ([]int32, error) {
	return or(f, key, missing, f.Int32s)
}

func or[T any](f *File, key string, missing T, get func(string) (T, error)) (T, error) {
	if !f.Has(key) {
		return missing, nil
	}
	return get(key)
}
