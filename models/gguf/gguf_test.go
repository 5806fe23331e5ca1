package gguf

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
)

// sample is a small file with every kind of value and several tensors.
func sample(t testing.TB) []byte {
	t.Helper()
	b, err := Bytes([]KV{
		{"general.architecture", "llama"},
		{"general.name", "sample"},
		{"a.u8", uint8(200)}, {"a.i8", int8(-3)}, {"a.u16", uint16(60000)}, {"a.i16", int16(-300)},
		{"a.u32", uint32(4e9)}, {"a.i32", int32(-7)}, {"a.u64", uint64(1) << 63}, {"a.i64", int64(-1) << 62},
		{"a.f32", float32(0.5)}, {"a.f64", 1e-6}, {"a.nan", float32(math.NaN())}, {"a.yes", true}, {"a.no", false},
		{"s.strings", []string{"", "one", "zwölf", "\xff"}}, {"s.none", []string{}},
		{"s.i32", []int32{1, -2, 3}}, {"s.u32", []uint32{7}}, {"s.i64", []int64{1 << 40}}, {"s.u64", []uint64{9}},
		{"s.f32", []float32{1, 2.5}}, {"s.f64", []float64{-1}}, {"s.bool", []bool{true, false}},
	}, []WriteTensor{
		{"first", []uint64{4, 3}, F32, bytes.Repeat([]byte{1}, 48)},
		{"second", []uint64{32, 2}, Q8_0, bytes.Repeat([]byte{2}, 68)},
		{"third", []uint64{5}, F16, bytes.Repeat([]byte{3}, 10)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustOpen(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := Open(files.FromBytes("x.gguf", b))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestValuesRoundTrip(t *testing.T) {
	f := mustOpen(t, sample(t))
	check := func(name string, got any, err error, want any) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
	}
	for key, want := range map[string]uint32{"a.u8": 200, "a.u16": 60000, "a.u32": 4e9} {
		got, err := f.Uint32(key)
		check(key, got, err, want)
	}
	for key, want := range map[string]float32{"a.f32": 0.5, "a.f64": 1e-6} {
		got, err := f.Float32(key)
		check(key, got, err, want)
	}
	for key, want := range map[string]bool{"a.yes": true, "a.no": false} {
		got, err := f.Bool(key)
		check(key, got, err, want)
	}
	name, err := f.String("general.name")
	check("general.name", name, err, "sample")
	ss, err := f.Strings("s.strings")
	check("s.strings", ss, err, []string{"", "one", "zwölf", "\xff"})
	ss, err = f.Strings("s.none")
	check("s.none", ss, err, []string{})
	for key, want := range map[string][]int32{"s.i32": {1, -2, 3}, "s.u32": {7}, "s.u64": {9}} {
		got, err := f.Int32s(key)
		check(key, got, err, want)
	}
	for key, want := range map[string][]float32{"s.f32": {1, 2.5}, "s.f64": {-1}} {
		got, err := f.Float32s(key)
		check(key, got, err, want)
	}
	if f.Version != 3 || len(f.Keys()) != 24 || f.Keys()[0] != "general.architecture" {
		t.Errorf("version %d, keys %v", f.Version, f.Keys())
	}
	for key, want := range map[string]string{
		"a.u64": "9223372036854775808", "a.i8": "-3", "a.f32": "0.5", "a.yes": "true", "general.name": `"sample"`,
		"s.strings": "4 × string", "missing": "",
	} {
		if got := f.Describe(key); got != want {
			t.Errorf("%s is described as %s, want %s", key, got, want)
		}
	}
	if !f.IsArray("s.i32") || f.IsArray("a.u8") || f.IsArray("missing") {
		t.Error("IsArray is wrong")
	}
}

func TestDefaultsOnlyForMissingKeys(t *testing.T) {
	f := mustOpen(t, sample(t))
	if v, err := f.Uint32Or("missing", 7); v != 7 || err != nil {
		t.Error(v, err)
	}
	if v, err := f.BoolOr("missing", true); !v || err != nil {
		t.Error(v, err)
	}
	if v, err := f.StringOr("missing", "x"); v != "x" || err != nil {
		t.Error(v, err)
	}
	if v, err := f.Int32sOr("missing", nil); v != nil || err != nil {
		t.Error(v, err)
	}
	if v, err := f.Uint32Or("a.u8", 7); v != 200 || err != nil {
		t.Error(v, err)
	}
	if _, err := f.Uint32Or("general.name", 7); err == nil {
		t.Error("a key of another type is taken for a missing one")
	}
}

// oneLine checks what every error of the package promises.
func oneLine(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one about %q", want)
		return
	}
	msg := err.Error()
	if !strings.HasPrefix(msg, "gguf: ") || strings.Contains(msg, "\n") || len(msg) > 400 {
		t.Errorf("error %q", msg)
	}
	for _, w := range append(want, "x.gguf") {
		if !strings.Contains(msg, w) {
			t.Errorf("error %q does not mention %q", msg, w)
		}
	}
}

func TestGettersNameFileKeyAndType(t *testing.T) {
	f := mustOpen(t, sample(t))
	_, err := f.Uint32("llama.block_count")
	oneLine(t, err, "llama.block_count is missing", "want uint32")
	for _, key := range []string{"general.name", "a.f32", "a.yes", "s.i32", "s.strings"} {
		_, err = f.Uint32(key)
		oneLine(t, err, key+" is of type", "want uint32")
	}
	for _, key := range []string{"a.i8", "a.u64", "a.i64"} {
		_, err = f.Uint32(key)
		oneLine(t, err, key, "does not fit in uint32")
	}
	for _, key := range []string{"general.name", "a.u8", "a.yes", "s.f32"} {
		_, err = f.Float32(key)
		oneLine(t, err, key+" is of type", "want float32")
	}
	_, err = f.Float32("a.nan")
	oneLine(t, err, "a.nan", "finite")
	_, err = f.Bool("a.u8")
	oneLine(t, err, "a.u8 is of type uint8", "want bool")
	_, err = f.String("s.strings")
	oneLine(t, err, "s.strings is of type array of string", "want string")
	_, err = f.String("a.u8")
	oneLine(t, err, "a.u8", "want string")
	_, err = f.Strings("general.name")
	oneLine(t, err, "general.name", "want array of string")
	_, err = f.Strings("s.i32")
	oneLine(t, err, "s.i32 is of type array of int32", "want array of string")
	for _, key := range []string{"s.strings", "s.bool", "s.f32"} {
		_, err = f.Int32s(key)
		oneLine(t, err, key, "want array of int32")
	}
	_, err = f.Int32s("s.i64")
	oneLine(t, err, "element 0 of s.i64", "does not fit")
	_, err = f.Float32s("s.i32")
	oneLine(t, err, "s.i32", "want array of float32")
	_, err = f.Tensor("blk.0.attn_q.weight")
	oneLine(t, err, `tensor "blk.0.attn_q.weight" is missing`)
}

func TestTensorsAreReadByRanges(t *testing.T) {
	b := sample(t)
	f := mustOpen(t, b)
	want := []TensorInfo{
		{"first", []uint64{4, 3}, F32, f.DataStart, 48},
		{"second", []uint64{32, 2}, Q8_0, f.DataStart + 64, 68},
		{"third", []uint64{5}, F16, f.DataStart + 160, 10},
	}
	if !reflect.DeepEqual(f.Tensors, want) {
		t.Fatalf("got %v, want %v", f.Tensors, want)
	}
	if f.DataStart%32 != 0 || int64(len(b)) != f.DataStart+192 {
		t.Errorf("data from %d, file of %d bytes", f.DataStart, len(b))
	}
	info, err := f.Tensor("second")
	if err != nil || info.Elements() != 64 || info.Dims[0] != 32 || !f.HasTensor("second") || f.HasTensor("fourth") {
		t.Fatal(info, err)
	}
	got := make([]byte, 34)
	if err := f.ReadTensor(info, got, 34); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{2}, 34)) {
		t.Error(got, err)
	}
	for _, off := range []int64{-1, 35, 69, math.MaxInt64} {
		oneLine(t, f.ReadTensor(info, got, off), `"second"`)
	}
}

func TestVersion2(t *testing.T) {
	b := sample(t)
	b[4] = 2
	if f := mustOpen(t, b); f.Version != 2 || len(f.Tensors) != 3 {
		t.Error(f.Version, len(f.Tensors))
	}
}

func TestAlignment(t *testing.T) {
	for _, align := range []uint32{1, 8, 64, 4096} {
		b, err := Bytes([]KV{{"general.alignment", align}}, []WriteTensor{
			{"a", []uint64{3}, I8, []byte("abc")},
			{"b", []uint64{2}, I8, []byte("de")},
		})
		if err != nil {
			t.Fatal(err)
		}
		f := mustOpen(t, b)
		got := make([]byte, 2)
		if err := f.ReadTensor(&f.Tensors[1], got, 0); err != nil || string(got) != "de" ||
			f.Tensors[1].Offset%int64(align) != 0 {
			t.Errorf("alignment %d: %q, %v", align, got, err)
		}
	}
}

// counting is a source that counts what is read of it.
type counting struct {
	files.Source
	reads int
	bytes int64
}

func (c *counting) ReadAt(p []byte, off int64) (int, error) {
	c.reads++
	c.bytes += int64(len(p))
	return c.Source.ReadAt(p, off)
}

func TestOpenReadsTheHeaderOnly(t *testing.T) {
	tokens := make([]string, 150_000)
	for i := range tokens {
		tokens[i] = fmt.Sprint("token ", i)
	}
	tokens[77] = strings.Repeat("long", 1<<19) // longer than a part
	b, err := Bytes([]KV{{"tokens", tokens}, {"scores", make([]float32, 500_000)}, {"after", "end"}},
		[]WriteTensor{{"big", []uint64{8 << 20}, I8, make([]byte, 8<<20)}})
	if err != nil {
		t.Fatal(err)
	}
	src := &counting{Source: files.FromBytes("x.gguf", b)}
	f, err := Open(src)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Strings("tokens"); err != nil || !slices.Equal(got, tokens) {
		t.Error("the strings differ", err)
	}
	if s, err := f.String("after"); s != "end" {
		t.Error(s, err)
	}
	if src.bytes > f.DataStart+largeRead || src.reads > 20 {
		t.Errorf("opening took %d reads of %d bytes for a header of %d", src.reads, src.bytes, f.DataStart)
	}
}

// failing is a source of which a part cannot be read.
type failing struct {
	files.Source
	from int64
	err  error
}

func (s failing) ReadAt(p []byte, off int64) (int, error) {
	n := min(int64(len(p)), max(0, s.from-off))
	m, err := s.Source.ReadAt(p[:n], off)
	if err == nil && n < int64(len(p)) {
		err = s.err
	}
	return m, err
}

func TestFailingSources(t *testing.T) {
	b := sample(t)
	offline := errors.New("the connection was lost")
	_, err := Open(failing{files.FromBytes("x.gguf", b), 100, offline})
	if !errors.Is(err, offline) {
		t.Errorf("%v does not wrap the source's error", err)
	}
	oneLine(t, err, "connection")
	// A source that stops without an error must not loop for ever.
	_, err = Open(failing{files.FromBytes("x.gguf", b), 100, nil})
	oneLine(t, err, "gave none")
	f := mustOpen(t, b)
	f.src = failing{f.src, f.DataStart + 10, offline}
	oneLine(t, f.ReadTensor(&f.Tensors[0], make([]byte, 48), 0), `"first"`, "connection")
}

func TestWriteRefuses(t *testing.T) {
	data := []byte("abcd")
	for name, c := range map[string]struct {
		kv      []KV
		tensors []WriteTensor
	}{
		"two equal keys":     {[]KV{{"a", true}, {"a", true}}, nil},
		"an empty key":       {[]KV{{"", true}}, nil},
		"an unknown value":   {[]KV{{"a", struct{}{}}}, nil},
		"an odd alignment":   {[]KV{{"general.alignment", uint32(24)}}, nil},
		"two equal names":    {nil, []WriteTensor{{"a", []uint64{4}, I8, data}, {"a", []uint64{4}, I8, data}}},
		"too little data":    {nil, []WriteTensor{{"a", []uint64{5}, I8, data}}},
		"too much data":      {nil, []WriteTensor{{"a", []uint64{3}, I8, data}}},
		"half a block":       {nil, []WriteTensor{{"a", []uint64{16}, Q8_0, data}}},
		"an unknown type":    {nil, []WriteTensor{{"a", []uint64{4}, Type(4), data}}},
		"no dimensions":      {nil, []WriteTensor{{"a", nil, I8, data}}},
		"sizes out of range": {nil, []WriteTensor{{"a", []uint64{1 << 40, 1 << 40}, I8, data}}},
	} {
		if _, err := Bytes(c.kv, c.tensors); err == nil || !strings.HasPrefix(err.Error(), "gguf: write: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestTypeSizes(t *testing.T) {
	for typ, want := range map[Type]uint64{F32: 1024, F16: 512, BF16: 512, Q8_0: 272, Q4_0: 144, Q4_K: 144,
		Q6_K: 210, IQ4NL: 144} {
		if got, err := typ.RowBytes(256); got != want || err != nil {
			t.Errorf("256 elements of %s take %d bytes, %v, want %d", typ, got, err, want)
		}
	}
	if _, err := Q4_K.RowBytes(128); err == nil {
		t.Error("half a block has a size")
	}
	if s := Type(99).String(); s != "type 99" || Type(99).Known() || Type(99).BlockSize() != 0 ||
		Type(99).BlockBytes() != 0 {
		t.Error(s)
	}
	if Q8_0.BlockSize() != 32 || Q8_0.BlockBytes() != 34 {
		t.Error("Q8_0 blocks")
	}
}
