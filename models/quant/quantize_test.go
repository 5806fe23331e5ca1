package quant

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"foretoken/models/gguf"
)

func encode(t *testing.T, typ gguf.Type, x []float32) []byte {
	t.Helper()
	n, err := RowBytes(typ, len(x))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, n)
	if err := Quantize(typ, x, b); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHalvesSurvive encodes every number that 16 bits hold, which must give the
// same bits again, and numbers between two of them.
func TestHalvesSurvive(t *testing.T) {
	for _, typ := range []gguf.Type{gguf.F16, gguf.BF16} {
		src := make([]byte, 2<<16)
		for h := range 1 << 16 {
			binary.LittleEndian.PutUint16(src[2*h:], uint16(h))
		}
		x := make([]float32, 1<<16)
		if err := Dequantize(typ, src, x); err != nil {
			t.Fatal(err)
		}
		got := encode(t, typ, x)
		for h := range x {
			if x[h] != x[h] { // any code that is no number will do
				if v := binary.LittleEndian.Uint16(got[2*h:]); v&0x7c00 != 0x7c00 {
					t.Fatalf("%s: %#04x, not a number, became %#04x", typ, h, v)
				}
				continue
			}
			if !bytes.Equal(got[2*h:2*h+2], src[2*h:2*h+2]) {
				t.Fatalf("%s: %#04x became % x", typ, h, got[2*h:2*h+2])
			}
		}
	}
	for _, c := range []struct {
		typ  gguf.Type
		x    float32
		want uint16
	}{
		{gguf.F16, 1 + 1.0/2048, 0x3c00}, {gguf.F16, 1 + 3.0/2048, 0x3c02}, // halves to even
		{gguf.F16, 1 + 1.01/2048, 0x3c01}, {gguf.F16, 0x1p-25, 0}, {gguf.F16, 0x1.8p-25, 1}, {gguf.F16, 65519, 0x7bff},
		{gguf.BF16, 1 + 1.0/256, 0x3f80}, {gguf.BF16, 1 + 3.0/256, 0x3f82}, {gguf.BF16, 1 + 1.01/256, 0x3f81},
		{gguf.BF16, 1e-40, 0x0001},
	} {
		if got := binary.LittleEndian.Uint16(encode(t, c.typ, []float32{c.x})); got != c.want {
			t.Errorf("%s of %g is %#04x, want %#04x", c.typ, c.x, got, c.want)
		}
	}
}

// TestBlocksByHand derives two blocks from the formats' definitions.
func TestBlocksByHand(t *testing.T) {
	x := make([]float32, 32)
	x[0], x[1], x[2], x[3], x[31] = 127, -127, 0.5, -1.5, 63.4
	// Q8_0: d = 127/127 = 1, halves go away from zero.
	want := make([]byte, 34)
	copy(want, []byte{0x00, 0x3c, 127, 0x81, 1, 0xfe})
	want[33] = 63
	if got := encode(t, gguf.Q8_0, x); !bytes.Equal(got, want) {
		t.Errorf("Q8_0: % x, want % x", got, want)
	}
	// Q4_0: the largest is 127, the first of two: d = -15.875, which is 0xcbf0; q = ⌊x/d + 8.5⌋ at most 15.
	want = append([]byte{0xf0, 0xcb}, bytes.Repeat([]byte{0x88}, 16)...)
	want[2+0] = 0x80  // 127/d = -8
	want[2+1] = 0x8f  // -127/d = 8, 16 is beyond
	want[2+15] = 0x48 // the upper half: 63.4/d = -3.99
	if got := encode(t, gguf.Q4_0, x); !bytes.Equal(got, want) {
		t.Errorf("Q4_0: % x, want % x", got, want)
	}
	zero := make([]float32, 32)
	for typ, want := range map[gguf.Type][]byte{gguf.Q8_0: make([]byte, 34),
		gguf.Q4_0: append([]byte{0, 0x80}, bytes.Repeat([]byte{0x88}, 16)...)} {
		if got := encode(t, typ, zero); !bytes.Equal(got, want) {
			t.Errorf("%s of zeros: % x, want % x", typ, got, want)
		}
	}
}

func TestQuantizeRefusesWhatATypeCannotHold(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		typ  gguf.Type
		x    float32
		want string
	}{
		{gguf.F16, 65520, "element 5 is 65520, which F16 cannot hold"}, {gguf.F16, -1e30, "F16 cannot hold"},
		{gguf.BF16, math.MaxFloat32, "BF16 cannot hold"},
		{gguf.Q8_0, inf, "element 5 is +Inf"}, {gguf.Q8_0, nan, "element 5 is NaN"},
		{gguf.Q4_0, -inf, "element 5 is -Inf"}, {gguf.Q4_0, nan, "NaN"},
		{gguf.Q4_K, nan, "element 5 is NaN"}, {gguf.Q4_K, 1e8, "elements 0 to 255 are too large for Q4_K"},
		{gguf.Q8_0, 1e7, "elements 0 to 31 are too large for Q8_0"}, {gguf.Q4_0, 1e6, "too large for Q4_0"},
	} {
		x := make([]float32, 256)
		x[5] = c.x
		n, _ := RowBytes(c.typ, len(x))
		err := Quantize(c.typ, x, make([]byte, n))
		if err == nil || !strings.HasPrefix(err.Error(), "quant: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%g in %s: %v, want an error about %q", c.x, c.typ, err, c.want)
		}
	}
	for _, c := range []struct {
		typ       gguf.Type
		n, bytes_ int
		want      string
	}{{gguf.Q6_K, 256, 210, "cannot be encoded"}, {gguf.Q8_0, 31, 34, "whole number"},
		{gguf.Q8_0, 32, 33, "room for 33"}} {
		if err := Quantize(c.typ, make([]float32, c.n), make([]byte, c.bytes_)); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error about %q", c.typ, err, c.want)
		}
	}
	// What is infinite or no number stays so where the type has it.
	if got := encode(t, gguf.F16, []float32{inf, -inf}); !bytes.Equal(got, []byte{0, 0x7c, 0, 0xfc}) {
		t.Errorf("infinities in F16: % x", got)
	}
	// A scale that half precision rounds to zero, whose inverse is infinite.
	x := make([]float32, 256)
	x[0] = 1e-42
	for _, typ := range []gguf.Type{gguf.Q8_0, gguf.Q4_0, gguf.Q4_K} {
		back := make([]float32, len(x))
		if err := Dequantize(typ, encode(t, typ, x), back); err != nil {
			t.Fatal(err)
		}
		for i, v := range back {
			if v != 0 {
				t.Errorf("%s: element %d of a block of nearly nothing is %g", typ, i, v)
			}
		}
	}
}

// TestQ4_K encodes what a block holds exactly, and compares the error on normal weights with Q4_0's.
func TestQ4_K(t *testing.T) {
	block := make([]byte, 144)
	binary.LittleEndian.PutUint16(block, 0x3c00)     // 1
	binary.LittleEndian.PutUint16(block[2:], 0x3800) // 0.5
	for i := range 8 {                               // the largest scale and least value are 63, which fixes the units
		s, m := byte(63-i), byte(63-2*i)
		if i < 4 {
			block[4+i], block[8+i] = s, m
		} else {
			block[8+i] = s&15 | m<<4
			block[i] |= s >> 4 << 6
			block[4+i] |= m >> 4 << 6
		}
	}
	for i := range 128 {
		block[16+i] = byte(i%16 | (15-i%16)<<4)
	}
	x, back := make([]float32, 256), make([]float32, 256)
	if err := Dequantize(gguf.Q4_K, block, x); err != nil {
		t.Fatal(err)
	}
	if got := encode(t, gguf.Q4_K, x); !bytes.Equal(got, block) {
		t.Errorf("a block became % x, want % x", got, block)
	}
	r, errors := rand.New(rand.NewPCG(1, 2)), map[gguf.Type]float64{}
	for range 100 {
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		for _, typ := range []gguf.Type{gguf.Q4_0, gguf.Q4_K} {
			if err := Dequantize(typ, encode(t, typ, x), back); err != nil {
				t.Fatal(err)
			}
			for i, v := range back {
				errors[typ] += float64((v - x[i]) * (v - x[i]))
			}
		}
	}
	if k, plain := errors[gguf.Q4_K], errors[gguf.Q4_0]; k > 0.75*plain {
		t.Errorf("squared error %g, in Q4_0 %g", k, plain)
	}
}

// reference quantises standard input, floats of 32 bits, twice each way: as ggml's reference does, with the inverse
// of the scale and halves away from zero, and as the test models' own writer does.
const reference = `
import sys, numpy as np
x = np.frombuffer(sys.stdin.buffer.read(), '<f4')
b = x.reshape(-1, 32)
f = np.float32
def inverse(d):
    with np.errstate(divide='ignore'):
        return np.where(d == 0, f(0), f(1) / d).astype(f)
def away(v):
    a = np.abs(v); w = np.floor(a)
    return np.sign(v) * (w + np.floor(f(2) * (a - w)))
def q8_0():
    d = (np.abs(b).max(1, keepdims=True) / f(127)).astype(f)
    q = away((b * inverse(d)).astype(f)).astype(np.int8)
    return np.hstack([d.astype('<f2').view(np.uint8), q.view(np.uint8)])
def q4_0():
    m = np.take_along_axis(b, np.abs(b).argmax(1)[:, None], 1)
    d = (m / f(-8)).astype(f)
    q = np.minimum(15, ((b * inverse(d)).astype(f) + f(8.5)).astype(np.int8)).astype(np.uint8)
    return np.hstack([d.astype('<f2').view(np.uint8), q[:, :16] | (q[:, 16:] << 4)])
out = sys.stdout.buffer
for part in (q8_0().tobytes(), q4_0().tobytes(), x.astype('<f2').tobytes()):
    out.write(part)
`

// TestBitsAreThoseOfTheReference compares with ggml's definition written in numpy, bit by bit.
func TestBitsAreThoseOfTheReference(t *testing.T) {
	const python = "/usr/bin/python3"
	if out, err := exec.Command(python, "-c", "import numpy").CombinedOutput(); err != nil {
		if os.Getenv("FORETOKEN_REQUIRE_DATA") == "1" {
			t.Fatalf("%s with numpy is missing: %v %s", python, err, out)
		}
		t.Skipf("NOT RUN: %s: %s with numpy is missing", t.Name(), python)
	}
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, 32*4096)
	for i := range x {
		x[i] = float32(r.NormFloat64() * math.Exp2(float64(i/32%40-28))) // from subnormal scales to large ones
		switch i % 97 {
		case 0:
			x[i] = 0
		case 1:
			x[i] = float32(math.Round(float64(x[i]*64))) / 128 // many halves
		}
	}
	clear(x[320:352])
	raw := encode(t, gguf.F32, x)
	cmd := exec.Command(python, "-c", reference)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(raw), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range []gguf.Type{gguf.Q8_0, gguf.Q4_0, gguf.F16} {
		got := encode(t, typ, x)
		want := out[:len(got)]
		out = out[len(got):]
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%s: byte %d of block %d is %#x, the reference has %#x", typ, uint64(i)%typ.BlockBytes(),
					uint64(i)/typ.BlockBytes(), got[i], want[i])
			}
		}
	}
	if len(out) != 0 {
		t.Errorf("%d bytes of the reference are left over", len(out))
	}
}

func BenchmarkQuantize(b *testing.B) {
	x := make([]float32, 1<<16)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for _, typ := range []gguf.Type{gguf.F16, gguf.BF16, gguf.Q8_0, gguf.Q4_0} {
		n, _ := RowBytes(typ, len(x))
		dst := make([]byte, n)
		b.Run(typ.String(), func(b *testing.B) {
			b.SetBytes(int64(4 * len(x)))
			for b.Loop() {
				if err := Quantize(typ, x, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
