package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/fuzztest"
	"foretoken/models/gguf"
	"foretoken/models/quant"
)

func le(vs ...any) []byte {
	var b bytes.Buffer
	for _, v := range vs {
		binary.Write(&b, binary.LittleEndian, v)
	}
	return b.Bytes()
}

// file is a header and data with the right length in front.
func file(header string, data int) []byte {
	return append(append(le(uint64(len(header))), header...), make([]byte, data)...)
}

func open(b []byte) (*File, error) { return Open(files.FromBytes("head.safetensors", b)) }

func written(t *testing.T, tensors ...Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, map[string]string{"format": "pt"}, tensors...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRoundTrip(t *testing.T) {
	f, err := open(written(t,
		Tensor{"a", F32, []uint64{2, 3}, le([]float32{1, -2, 3.5, 0, float32(math.Inf(1)), 1e-30})},
		Tensor{"b", BF16, []uint64{3}, le([]uint16{0x3f80, 0xc000, 0x4049})},
		Tensor{"c", F16, []uint64{3}, le([]uint16{0x3c00, 0xc000, 0x0001})},
		Tensor{"none", F32, []uint64{0, 4}, nil},
		Tensor{"d", I64, []uint64{3}, le([]int64{0, -7, 1 << 40})},
		Tensor{"e", Bool, []uint64{4}, []byte{0, 1, 1, 0}},
		Tensor{"s", I32, nil, le(int32(-3))},
	))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Tensors) != 7 {
		t.Fatalf("%d tensors", len(f.Tensors))
	}
	floats := func(name string, from, n int, want ...float32) {
		t.Helper()
		info, err := f.Tensor(name)
		if err != nil {
			t.Fatal(err)
		}
		size := int(info.Size) / int(info.Elements())
		raw, got := make([]byte, n*size), make([]float32, n)
		if err := f.Read(info, raw, int64(from*size)); err != nil {
			t.Fatal(err)
		}
		typ := map[Dtype]gguf.Type{F32: gguf.F32, F16: gguf.F16, BF16: gguf.BF16}[info.Dtype]
		if err := quant.Dequantize(typ, raw, got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s from %d: %v, %v; want %v", name, from, got, err, want)
		}
	}
	floats("a", 0, 6, 1, -2, 3.5, 0, float32(math.Inf(1)), 1e-30)
	floats("a", 2, 2, 3.5, 0)
	floats("b", 0, 3, 1, -2, 3.140625)
	floats("c", 1, 2, -2, 5.9604645e-08)
	d, _ := f.Tensor("d", 3)
	if got, err := f.Ints(d); err != nil || !slices.Equal(got, []int64{0, -7, 1 << 40}) {
		t.Errorf("d: %v, %v", got, err)
	}
	s, _ := f.Tensor("s")
	if got, err := f.Ints(s); err != nil || !slices.Equal(got, []int64{-3}) {
		t.Errorf("s: %v, %v", got, err)
	}
	e, _ := f.Tensor("e")
	if got, err := f.Bools(e); err != nil || !slices.Equal(got, []bool{false, true, true, false}) {
		t.Errorf("e: %v, %v", got, err)
	}
}

// TestUse asks for missing tensors and wrong types.
func TestUse(t *testing.T) {
	f, err := open(written(t, Tensor{"a", F32, []uint64{2, 3}, make([]byte, 24)},
		Tensor{"n", I64, []uint64{1}, make([]byte, 8)}, Tensor{"e", Bool, []uint64{1}, []byte{7}}))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := f.Tensor("a")
	e, _ := f.Tensor("e")
	check := func(what string, err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "head.safetensors") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", what, err, want)
		}
	}
	_, err = f.Tensor("b")
	check("missing", err, `tensor "b" is missing`)
	_, err = f.Tensor("a", 3, 2)
	check("shape", err, `tensor "a" has shape [2 3], want [3 2]`)
	_, err = f.Tensor("a", 6)
	check("dimensions", err, "want [6]")
	check("past the end", f.Read(a, make([]byte, 8), 20), "bytes 20 to 28 of 24")
	check("before the start", f.Read(a, make([]byte, 2), -1), "bytes -1 to 1")
	_, err = f.Ints(a)
	check("floats as ints", err, "want I64")
	_, err = f.Bools(e)
	check("a bool of 7", err, "element 0 is 7")
}

func TestHostile(t *testing.T) {
	entry := func(dtype, shape string, from, to any) string {
		return fmt.Sprintf(`{"w":{"dtype":%q,"shape":%s,"data_offsets":[%v,%v]}}`, dtype, shape, from, to)
	}
	two := `{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[%d,%d]}}`
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":             {nil, "too few"},
		"short":             {[]byte("\x02\x00\x00"), "too few"},
		"gguf":              {[]byte("GGUF\x03\x00\x00\x00 and so on"), "GGUF file"},
		"lfs pointer":       {[]byte("version https://git-lfs.github.com/spec/v1"), "git lfs pull"},
		"zip":               {[]byte("PK\x03\x04 and more than that"), "zip archive"},
		"absurd header":     {append(le(uint64(1)<<60), make([]byte, 20)...), "1152921504606846976 bytes"},
		"negative header":   {append(le(^uint64(0)), make([]byte, 20)...), "18446744073709551615 bytes"},
		"header past end":   {append(le(uint64(500)), make([]byte, 20)...), "truncated"},
		"not json":          {file("hello, world", 0), "JSON"},
		"an array":          {file("[1, 2]", 0), "does not begin with {"},
		"half json":         {file(`{"w":{"dtype":"F32"`, 0), "the text ends"},
		"after the object":  {file(`{} {}  `, 0), "there is more after"},
		"entry is a number": {file(`{"w":7}`, 0), `tensor "w"`},
		"dtype":             {file(entry("Q9", "[1]", 0, 1), 1), `dtype "Q9"`},
		"no shape":          {file(`{"w":{"dtype":"F32","data_offsets":[0,4]}}`, 4), "shape is missing"},
		"negative shape":    {file(entry("F32", "[-1]", 0, 4), 4), `tensor "w"`},
		"fractional shape":  {file(entry("F32", "[1.5]", 0, 4), 4), `tensor "w"`},
		"shape overflows":   {file(entry("F32", "[4294967296,4294967296,4]", 0, 4), 4), "too large"},
		"many dimensions":   {file(entry("U8", "[1,1,1,1,1,1,1,1,1]", 0, 1), 1), "more than 8"},
		"no offsets":        {file(`{"w":{"dtype":"F32","shape":[1]}}`, 4), "data_offsets are 0 numbers"},
		"offsets backwards": {file(entry("F32", "[1]", 4, 0), 4), "data_offsets [4 0]"},
		"negative offset":   {file(entry("F32", "[1]", -4, 0), 4), "data_offsets: -4 is no whole number"},
		"huge offset": {file(entry("F32", "[1]", "9223372036854775803", "9223372036854775807"), 4),
			"after that of the tensor before"},
		"wrong span":      {file(entry("F32", "[2]", 0, 4), 4), "span 4 bytes, but F32 of shape [2] takes 8"},
		"past the end":    {file(entry("F32", "[4]", 0, 16), 12), "truncated"},
		"bytes left over": {file(entry("F32", "[1]", 0, 4), 5), "1 bytes of data follow"},
		"overlap":         {file(fmt.Sprintf(two, 2, 6), 6), `tensor "b": its data lies over that of tensor "a"`},
		"same place":      {file(fmt.Sprintf(two, 0, 4), 4), "lies over"},
		"hole":            {file(fmt.Sprintf(two, 5, 9), 9), "1 bytes after"},
		"twice": {file(
			`{"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`,
			0), "given twice"},
		"empty name":          {file(`{"":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}`, 0), "name is empty"},
		"long name":           {file(`{"`+strings.Repeat("x", 2000)+`":{}}`, 0), "longer than 1024"},
		"metadata of numbers": {file(`{"__metadata__":{"n":1}}`, 0), "__metadata__"},
	} {
		f, err := open(c.file)
		switch {
		case err == nil:
			t.Errorf("%s: opened with %d tensors", name, len(f.Tensors))
		case !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v; want %q", name, err, c.want)
		case !strings.HasPrefix(err.Error(), "safetensors: head.safetensors: ") ||
			strings.Contains(err.Error(), "\n") || len(err.Error()) > 400:
			t.Errorf("%s: %v: want one line that names the file", name, err)
		}
	}
}

// TestTruncated cuts a good file at every byte.
func TestTruncated(t *testing.T) {
	b := written(t, Tensor{"a", F32, []uint64{2}, make([]byte, 8)}, Tensor{"b", Bool, []uint64{3}, make([]byte, 3)})
	if _, err := open(b); err != nil {
		t.Fatal(err)
	}
	for n := range b {
		if _, err := open(b[:n]); err == nil {
			t.Errorf("a file cut at %d of %d bytes was opened", n, len(b))
		}
	}
}

// TestMetadata: metadata are texts, or none.
func TestMetadata(t *testing.T) {
	for _, metadata := range []string{`null`, `{}`, `{"format":"pt"}`} {
		b := file(`{"__metadata__":`+metadata+`,"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)
		f, err := open(b)
		if err != nil {
			t.Errorf("%s: %v", metadata, err)
		} else if _, err := f.Tensor("w", 1); err != nil {
			t.Errorf("%s: %v", metadata, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte{})
	f.Add(file(`{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4))
	f.Add(file(
		`{"__metadata__":{"a":"b"},"w":{"dtype":"BOOL","shape":[2,2],"data_offsets":[0,4]},"x":{"dtype":"I64",`+
			`"shape":[],"data_offsets":[4,12]}}`,
		12))
	digits := "1" + strings.Repeat("0", 3000) // which a refusal would quote
	for _, field := range []string{`"shape":[` + digits + `]`, `"data_offsets":[` + digits + `]`,
		`"data_offsets":[0` + strings.Repeat(",1", 3000) + `]`, `"` + digits + `":1`} {
		f.Add(file(`{"w":{"dtype":"F32","shape":[1],`+field+`}}`, 4))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var opened *File
		var err error
		fuzztest.Bound(t, len(b), func() { opened, err = open(b) })
		if err != nil {
			fuzztest.Refusal(t, err, "safetensors: head.safetensors")
			return
		}
		var tensors []Tensor // what was read can be written, and is read the same
		for i := range opened.Tensors {
			info := &opened.Tensors[i]
			data := make([]byte, info.Size)
			if err := opened.Read(info, data, 0); err != nil {
				t.Error(err)
			}
			tensors = append(tensors, Tensor{Name: info.Name, Dtype: info.Dtype, Shape: info.Shape, Data: data})
		}
		var written bytes.Buffer
		if err := Write(&written, nil, tensors...); err != nil {
			t.Fatal(err)
		}
		again, err := open(written.Bytes())
		if err != nil || len(again.Tensors) != len(tensors) {
			t.Fatalf("%d tensors were written and read as %+v, %v", len(tensors), again, err)
		}
		for _, w := range tensors {
			info, err := again.Tensor(w.Name, w.Shape...)
			data := make([]byte, len(w.Data))
			if err == nil {
				err = again.Read(info, data, 0)
			}
			if err != nil || info.Dtype != w.Dtype || !bytes.Equal(data, w.Data) {
				t.Fatalf("%s of %s, %v was read as %+v, %v", w.Name, w.Dtype, w.Shape, info, err)
			}
		}
	})
}

func TestSharded(t *testing.T) {
	one := written(t, Tensor{"a", F32, []uint64{1}, le(float32(7))})
	two := written(t, Tensor{"b", F32, []uint64{1}, le(float32(8))}, Tensor{"c", F32, []uint64{1}, le(float32(9))})
	load := func(index string) (*File, error) {
		return OpenSharded(files.FromBytes("head.safetensors.index.json", []byte(index)),
			func(name string) (files.Source, error) {
				switch name {
				case "1.safetensors":
					return files.FromBytes(name, one), nil
				case "2.safetensors":
					return files.FromBytes(name, two), nil
				}
				return nil, errors.New("no such file")
			})
	}
	f, err := load(`{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"}}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float32{"a": 7, "b": 8, "c": 9} {
		info, err := f.Tensor(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		var raw [4]byte
		err = f.Read(info, raw[:], 0)
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[:])); err != nil || got != want {
			t.Errorf("%s is %v, %v", name, got, err)
		}
	}
	for index, want := range map[string]string{
		`{ `:                                   "not an index",
		`{"weight_map":{}}`:                    "missing or empty",
		`{"weight_map":{"a":"../etc/passwd"}}`: "not a plain file name",
		`{"weight_map":{"a":"3.safetensors"}}`: "no such file",
		`{"weight_map":{"a":"1.safetensors","b":"1.safetensors"}}`: `tensor "b" is not in`,
		`{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"1.safetensors"}}`: `tensor "c" is in ` +
			`"2.safetensors"`,
	} {
		if _, err := load(index); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "index.json") {
			t.Errorf("%s: %v; want %q", index, err, want)
		}
	}
}
