package quant

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"foretoken/models/gguf"
)

// f16 gives the value of a half by its definition (IEEE 754-2008, section 3.4), without the library under test.
func f16(h uint16) float64 {
	sign := 1 - 2*float64(h>>15)
	exp, frac := int(h>>10&31), float64(h&1023)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac == 0 {
			return sign * math.Inf(1)
		}
		return math.NaN()
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}

func same(a float32, b float64) bool {
	return a == float32(b) || a != a && b != b
}

func TestEveryHalf(t *testing.T) {
	src := make([]byte, 2<<16)
	for h := range 1 << 16 {
		binary.LittleEndian.PutUint16(src[2*h:], uint16(h))
	}
	dst := make([]float32, 1<<16)
	if err := Dequantize(gguf.F16, src, dst); err != nil {
		t.Fatal(err)
	}
	for h, got := range dst {
		if want := f16(uint16(h)); !same(got, want) {
			t.Fatalf("half %#04x is %v, want %v", h, got, want)
		}
	}
}

func TestF32(t *testing.T) {
	src := []byte{0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc1}
	var dst [2]float32
	if err := Dequantize(gguf.F32, src, dst[:]); err != nil || dst != [2]float32{1, -10} {
		t.Error(dst, err)
	}
}

// blocks makes n blocks of size bytes with every byte value in them and scales of both signs, subnormal and large.
func blocks(n, size int) []byte {
	scales := []uint16{0x3c00, 0xbc00, 0x0001, 0x2e66, 0x7bff, 0x8000}
	b := make([]byte, n*size)
	for i := range b {
		b[i] = byte(i*7 + i/size)
	}
	for i := range n {
		binary.LittleEndian.PutUint16(b[i*size:], scales[i%len(scales)])
	}
	return b
}

func TestQ8_0(t *testing.T) {
	const n = 24
	src, dst := blocks(n, 34), make([]float32, n*32)
	if err := Dequantize(gguf.Q8_0, src, dst); err != nil {
		t.Fatal(err)
	}
	for i, got := range dst {
		block := src[i/32*34:]
		want := f16(binary.LittleEndian.Uint16(block)) * float64(int8(block[2+i%32]))
		if !same(got, want) {
			t.Fatalf("element %d is %v, want %v", i, got, want)
		}
	}
}

func TestQ4_0(t *testing.T) {
	const n = 24
	src, dst := blocks(n, 18), make([]float32, n*32)
	if err := Dequantize(gguf.Q4_0, src, dst); err != nil {
		t.Fatal(err)
	}
	for i, got := range dst {
		block, j := src[i/32*18:], i%32
		q := block[2+j%16] & 15
		if j >= 16 {
			q = block[2+j%16] >> 4
		}
		want := f16(binary.LittleEndian.Uint16(block)) * (float64(q) - 8)
		if !same(got, want) {
			t.Fatalf("element %d is %v, want %v", i, got, want)
		}
	}
}

func TestWrongSizesAndTypes(t *testing.T) {
	for _, c := range []struct {
		t        gguf.Type
		src, dst int
		want     string
	}{
		{gguf.Q8_0, 33, 32, "take 34 bytes, got 33"},
		{gguf.Q8_0, 68, 32, "take 34 bytes, got 68"},
		{gguf.Q4_0, 18, 31, "whole number"},
		{gguf.Q6_K, 209, 256, "take 210 bytes, got 209"},
		{gguf.Q4_K, 144, 128, "whole number"},
		{gguf.IQ4XS, 135, 256, "take 136 bytes, got 135"},
		{gguf.PTQ1_0, 28, 64, "whole number"},
		{gguf.Q8_K, 292, 256, "Q8_K cannot be decoded"},
		{gguf.Type(200), 4, 1, "type 200 cannot be decoded"},
	} {
		err := Dequantize(c.t, make([]byte, c.src), make([]float32, c.dst))
		if err == nil || !strings.HasPrefix(err.Error(), "quant: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %q", c.t, err, c.want)
		}
	}
	if n, err := RowBytes(gguf.Q4_0, 64); n != 36 || err != nil {
		t.Error(n, err)
	}
	if _, err := RowBytes(gguf.Q4_0, -32); err == nil {
		t.Error("a row of negative length has a size")
	}
	if err := Dequantize(gguf.Q8_0, nil, nil); err != nil {
		t.Error(err)
	}
}
