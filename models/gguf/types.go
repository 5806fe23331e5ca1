package gguf

import (
	"fmt"
	"math"
)

// Type is the storage type of a tensor: ggml's numbering, as GGUF files hold
// it. Which types a model can be run from is not decided here.
type Type uint32

// The storage types found in published files, by family. Numbers that are missing were withdrawn from ggml and are
// refused like unknown ones.
const (
	F32, F16, BF16, F64                Type = 0, 1, 30, 28
	I8, I16, I32, I64                  Type = 24, 25, 26, 27
	Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1 Type = 2, 3, 6, 7, 8, 9
	Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, Q8_K Type = 10, 11, 12, 13, 14, 15
	IQ1S, IQ1M, IQ2XXS, IQ2XS, IQ2S    Type = 19, 29, 16, 17, 22
	IQ3XXS, IQ3S, IQ4NL, IQ4XS         Type = 18, 21, 20, 23
	TQ1_0, TQ2_0, MXFP4, NVFP4         Type = 34, 35, 39, 40
	Q1_0, Q2_0                         Type = 41, 42
	PQ2_0, PTQ1_0                      Type = 142, 143 // of Prism's fork of llama.cpp, for its Bonsai models
)

// withdrawn says of types that ggml no longer has what took their places.
var withdrawn = map[Type]string{
	4:  "Q4_2 was withdrawn: take a file of the model in Q4_0",
	5:  "Q4_3 was withdrawn: take a file of the model in Q4_1",
	31: "Q4_0_4_4 was withdrawn: take a file of the model in Q4_0",
	32: "Q4_0_4_8 was withdrawn: take a file of the model in Q4_0",
	33: "Q4_0_8_8 was withdrawn: take a file of the model in Q4_0",
	36: "IQ4_NL_4_4 was withdrawn: take a file of the model in IQ4_NL",
	37: "IQ4_NL_4_8 was withdrawn: take a file of the model in IQ4_NL",
	38: "IQ4_NL_8_8 was withdrawn: take a file of the model in IQ4_NL",
}

// refusal says of a type that is not known what to take instead.
func (t Type) refusal() string {
	if says, ok := withdrawn[t]; ok {
		return says + ", or in Q4_K_M or Q8_0"
	}
	return fmt.Sprintf("type %d is not known: take a file of the model in Q4_K_M, Q8_0 or Q4_0", uint32(t))
}

type layout struct {
	name  string
	elems uint64 // elements of one block
	bytes uint64 // bytes of one block
}

var layouts = map[Type]layout{
	F32: {"F32", 1, 4}, F16: {"F16", 1, 2}, BF16: {"BF16", 1, 2}, F64: {"F64", 1, 8},
	I8: {"I8", 1, 1}, I16: {"I16", 1, 2}, I32: {"I32", 1, 4}, I64: {"I64", 1, 8},
	Q4_0: {"Q4_0", 32, 18}, Q4_1: {"Q4_1", 32, 20}, Q5_0: {"Q5_0", 32, 22}, Q5_1: {"Q5_1", 32, 24},
	Q8_0: {"Q8_0", 32, 34}, Q8_1: {"Q8_1", 32, 36}, IQ4NL: {"IQ4_NL", 32, 18}, MXFP4: {"MXFP4", 32, 17},
	Q2_K: {"Q2_K", 256, 84}, Q3_K: {"Q3_K", 256, 110}, Q4_K: {"Q4_K", 256, 144}, Q5_K: {"Q5_K", 256, 176},
	Q6_K: {"Q6_K", 256, 210}, Q8_K: {"Q8_K", 256, 292},
	IQ1S: {"IQ1_S", 256, 50}, IQ1M: {"IQ1_M", 256, 56}, IQ2XXS: {"IQ2_XXS", 256, 66}, IQ2XS: {"IQ2_XS", 256, 74},
	IQ2S: {"IQ2_S", 256, 82}, IQ3XXS: {"IQ3_XXS", 256, 98}, IQ3S: {"IQ3_S", 256, 110}, IQ4XS: {"IQ4_XS", 256, 136},
	TQ1_0: {"TQ1_0", 256, 54}, TQ2_0: {"TQ2_0", 256, 66}, NVFP4: {"NVFP4", 64, 36},
	Q1_0: {"Q1_0", 128, 18}, Q2_0: {"Q2_0", 64, 18}, PQ2_0: {"PQ2_0", 128, 34}, PTQ1_0: {"PTQ1_0", 128, 28},
}

// Known reports whether this package has a storage type of this number.
func (t Type) Known() bool { _, ok := layouts[t]; return ok }

// String gives ggml's name, such as "Q8_0".
func (t Type) String() string {
	if l, ok := layouts[t]; ok {
		return l.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// BlockSize is the number of elements stored together, 0 for an unknown type.
func (t Type) BlockSize() uint64 { return layouts[t].elems }

// BlockBytes is the number of bytes of one block, 0 for an unknown type.
func (t Type) BlockBytes() uint64 { return layouts[t].bytes }

// RowBytes is the number of bytes that n consecutive elements take. It is an
// error if the type is unknown or n is not a whole number of blocks.
func (t Type) RowBytes(n uint64) (uint64, error) {
	l, ok := layouts[t]
	switch {
	case !ok:
		return 0, fmt.Errorf("unknown tensor type %d", uint32(t))
	case n%l.elems != 0:
		return 0, fmt.Errorf("a row of %d elements is not a whole number of %s blocks of %d", n, l.name, l.elems)
	case n/l.elems > math.MaxInt64/l.bytes:
		return 0, fmt.Errorf("a row of %d elements is too large", n)
	}
	return n / l.elems * l.bytes, nil
}

// tensorBytes is the size of a tensor of the given dimensions, with every
// product checked: the numbers come from a file.
func tensorBytes(t Type, dims []uint64) (uint64, error) {
	if len(dims) == 0 || len(dims) > maxDims {
		return 0, fmt.Errorf("%d dimensions, want 1 to %d", len(dims), maxDims)
	}
	rows := uint64(1)
	for i, d := range dims {
		if d == 0 {
			return 0, fmt.Errorf("dimension %d is zero", i)
		}
		if i > 0 {
			if rows > math.MaxInt64/d {
				return 0, fmt.Errorf("dimensions %v overflow", dims)
			}
			rows *= d
		}
	}
	row, err := t.RowBytes(dims[0])
	if err != nil {
		return 0, err
	}
	// Bytes and elements must both stay in range: a quarter-byte type could overflow the count of its elements alone.
	if rows > math.MaxInt64/row || rows > math.MaxInt64/dims[0] {
		return 0, fmt.Errorf("dimensions %v overflow", dims)
	}
	return rows * row, nil
}
