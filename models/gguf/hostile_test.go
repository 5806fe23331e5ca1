package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"foretoken/internal/files"
	"foretoken/models/fuzztest"
)

// raw builds files that Write refuses to.
type raw struct{ bytes.Buffer }

func newRaw(version uint32, tensors, keys uint64) *raw {
	r := &raw{}
	r.WriteString("GGUF")
	return r.put(version, tensors, keys)
}

func (r *raw) put(vs ...any) *raw {
	for _, v := range vs {
		if s, ok := v.(string); ok {
			binary.Write(r, binary.LittleEndian, uint64(len(s)))
			r.WriteString(s)
		} else {
			binary.Write(r, binary.LittleEndian, v)
		}
	}
	return r
}

// pad gives the file room for data.
func (r *raw) pad(n int) []byte { return append(r.Bytes(), make([]byte, n)...) }

type u32 = uint32
type u64 = uint64

func hostile() map[string]struct {
	file []byte
	want string
} {
	return map[string]struct {
		file []byte
		want string
	}{
		"empty":         {nil, "too few"},
		"magic":         {[]byte("GGUX and more than that"), "wrong magic"},
		"folding magic": {[]byte("x\u0130y"), "wrong magic"}, // four bytes, three in lower case
		"ggml":          {[]byte("lmgg and more than that"), "older than GGUF"},
		"lfs pointer":   {[]byte("version https://git-lfs.github.com/spec/v1\noid sha256:0"), "git lfs pull"},
		"web page":      {[]byte("<!DOCTYPE html><html><body>404"), "web page"},
		"zip":           {[]byte("PK\x03\x04 and more than that"), "zip archive"},
		"safetensors":   {[]byte("\x40\x00\x00\x00\x00\x00\x00\x00{\"a\":{}}"), "safetensors"},
		"version 1":     {newRaw(1, 0, 0).pad(0), "version 1"},
		"version 4":     {newRaw(4, 0, 0).pad(0), "version 4"},
		"big-endian":    {newRaw(0x03000000, 0, 0).pad(0), "big-endian"},
		"many keys":     {newRaw(3, 0, 1<<60).pad(100), "1152921504606846976 metadata entries"},
		"keys past end": {newRaw(3, 0, 50).pad(100), "50 metadata entries do not fit"},
		"many tensors":  {newRaw(3, 1<<60, 0).pad(100), "tensors, at most"},
		"tensors past":  {newRaw(3, 50, 0).pad(100), "50 tensors do not fit"},
		"long key":      {newRaw(3, 0, 1).put(u64(1 << 40)).pad(100), "1099511627776 bytes"},
		"key past end":  {newRaw(3, 0, 1).put(u64(1000)).pad(100), "truncated"},
		"empty key":     {newRaw(3, 0, 1).put("", u32(4), u32(0)).pad(100), "empty or not UTF-8"},
		"bad key":       {newRaw(3, 0, 1).put("a\xff\nb", u32(4), u32(0)).pad(100), `"a\xff\nb"`},
		"twice": {newRaw(3, 0, 2).put("key", u32(4), u32(0), "key", u32(4), u32(0)).pad(100),
			`"key": the key occurs twice`},
		"value type":      {newRaw(3, 0, 1).put("key", u32(13), u32(0)).pad(100), "unknown value type 13"},
		"element type":    {newRaw(3, 0, 1).put("key", u32(9), u32(77), u64(1)).pad(100), "unknown value type 77"},
		"nested":          {newRaw(3, 0, 1).put("key", u32(9), u32(9), u64(1)).pad(100), "array of arrays"},
		"long string":     {newRaw(3, 0, 1).put("key", u32(8), u64(1<<63)).pad(100), `"key"`},
		"string past end": {newRaw(3, 0, 1).put("key", u32(8), u64(200)).pad(100), "truncated"},
		"long array":      {newRaw(3, 0, 1).put("key", u32(9), u32(6), u64(1<<62)).pad(100), "do not fit"},
		"strings past":    {newRaw(3, 0, 1).put("key", u32(9), u32(8), u64(50)).pad(100), "50 strings do not fit"},
		"many strings":    {newRaw(3, 0, 1).put("key", u32(9), u32(8), u64(1<<61)).pad(100), "do not fit"},
		"element past":    {newRaw(3, 0, 1).put("key", u32(9), u32(8), u64(2), "ok", u64(90)).pad(80), "element 1"},
		"huge element":    {newRaw(3, 0, 1).put("key", u32(9), u32(8), u64(2), "ok", ^u64(0)).pad(80), "element 1"},
		"bool":            {newRaw(3, 0, 1).put("key", u32(7), uint8(2)).pad(100), "a bool holds 2"},
		"bools": {newRaw(3, 0, 1).put("key", u32(9), u32(7), u64(2), uint8(0), uint8(9)).pad(100),
			"a bool holds 9"},
		"alignment type":  {newRaw(3, 0, 1).put("general.alignment", u32(8), "32").pad(100), "want uint32"},
		"alignment zero":  {newRaw(3, 0, 1).put("general.alignment", u32(4), u32(0)).pad(100), "power of two"},
		"alignment odd":   {newRaw(3, 0, 1).put("general.alignment", u32(4), u32(48)).pad(100), "power of two"},
		"alignment large": {newRaw(3, 0, 1).put("general.alignment", u32(4), u32(1<<31)).pad(100), "power of two"},
		"long name":       {newRaw(3, 1, 0).put(u64(256)).pad(500), "256 bytes"},
		"empty name":      {newRaw(3, 1, 0).put("", u32(1), u64(4), u32(0), u64(0)).pad(100), "empty"},
		"no dimensions":   {newRaw(3, 1, 0).put("t", u32(0), u32(0), u64(0)).pad(100), "0 dimensions"},
		"five dimensions": {newRaw(3, 1, 0).put("t", u32(5), u64(1), u64(1), u64(1), u64(1), u64(1), u32(0),
			u64(0)).pad(100), "5 dimensions"},
		"all dimensions": {newRaw(3, 1, 0).put("t", ^u32(0)).pad(100), "4294967295 dimensions"},
		"zero dimension": {newRaw(3, 1, 0).put("t", u32(2), u64(4), u64(0), u32(0), u64(0)).pad(100),
			"dimension 1 is zero"},
		"overflow": {
			newRaw(3, 1, 0).put("t", u32(3), u64(1<<31), u64(1<<31), u64(1<<31), u32(0), u64(0)).pad(100), "overflow"},
		"overflow bytes": {
			newRaw(3, 1, 0).put("t", u32(2), u64(1<<31), u64(1<<31), u32(0), u64(0)).pad(100), "overflow"},
		"overflow row": {newRaw(3, 1, 0).put("t", u32(1), u64(1<<63), u32(0), u64(0)).pad(100), "too large"},
		"half a block": {newRaw(3, 1, 0).put("t", u32(1), u64(48), u32(8), u64(0)).pad(100),
			"whole number of Q8_0 blocks"},
		"unknown type": {newRaw(3, 1, 0).put("blk.0.w", u32(1), u64(32), u32(4), u64(0)).pad(100),
			`tensor "blk.0.w": Q4_2 was withdrawn: take a file of the model in Q4_0`},
		"offset odd": {newRaw(3, 1, 0).put("t", u32(1), u64(4), u32(0), u64(8)).pad(100),
			"not a multiple of the alignment 32"},
		"offset past":   {newRaw(3, 1, 0).put("t", u32(1), u64(4), u32(0), u64(1<<62)).pad(100), "beyond the end"},
		"data past end": {newRaw(3, 1, 0).put("t", u32(1), u64(1000), u32(0), u64(0)).pad(100), "beyond the end"},
		"data cut off":  {newRaw(3, 1, 0).put("t", u32(1), u64(16), u32(0), u64(0)).pad(70), "truncated"},
		"same name": {newRaw(3, 2, 0).put("t", u32(1), u64(4), u32(0), u64(0),
			"t", u32(1), u64(4), u32(0), u64(32)).pad(200), "the name occurs twice"},
		"overlap": {newRaw(3, 2, 0).put("a", u32(1), u64(16), u32(0), u64(0),
			"b", u32(1), u64(4), u32(0), u64(32)).pad(200), `lies over that of tensor "a"`},
		"type of a fork": {newRaw(3, 1, 1).put("general.name", u32(8), "Bonsai", "t", u32(1), u64(128), u32(143),
			u64(0)).pad(200), "type 143 is not known"},
		"type of the fork": {newRaw(3, 1, 1).put("prism.version", u32(4), u32(1), "t", u32(1), u64(100), u32(143),
			u64(0)).pad(200), "whole number of PTQ1_0 blocks of 128"},
		// Two tensors of 12 blocks of 128 weights: 408 bytes, padded to 416.
		"early Q2_0": {newRaw(3, 2, 0).put("a", u32(2), u64(384), u64(4), u32(42), u64(0),
			"b", u32(2), u64(384), u64(4), u32(42), u64(416)).pad(22 + 416 + 408), `tensor "a": its Q2_0 blocks`},
		// One of 64 blocks: 2176 bytes.
		"early last": {newRaw(3, 1, 0).put("a", u32(2), u64(256), u64(32), u32(42), u64(0)).pad(31 + 2176),
			"in PQ2_0 or Q2_0_g64"},
		"Q2_0 cut off": {newRaw(3, 1, 0).put("a", u32(2), u64(256), u64(32), u32(42), u64(0)).pad(2000), "truncated"},
		"Q2_0 overlap": {newRaw(3, 2, 0).put("a", u32(2), u64(256), u64(32), u32(42), u64(0),
			"b", u32(1), u64(4), u32(0), u64(2048)).pad(4000), `lies over that of tensor "a"`},
		"Q2_0 overflow": {newRaw(3, 1, 0).put("a", u32(2), u64(1<<31), u64(1<<33), u32(42), u64(0)).pad(200),
			"overflow"},
	}
}

func TestHostileFiles(t *testing.T) {
	for name, c := range hostile() {
		t.Run(name, func(t *testing.T) {
			_, err := Open(files.FromBytes("x.gguf", c.file))
			oneLine(t, err, c.want)
		})
	}
}

// TestSurvey shows what can be read of files that Open refuses.
func TestSurvey(t *testing.T) {
	whole := newRaw(3, 2, 1).put("k", u32(kindU32), u32(7), "a", u32(1), u64(4), u32(43), u64(0), "b", u32(1), u64(8),
		u32(0), u64(1<<40)).pad(40)
	for size, want := range map[int]string{len(whole): "k 7 a:type 43/0 b:F32/32", 80: "k 7 a:type 43/0", 30: "",
		20: ""} {
		src := files.FromBytes("x.gguf", whole[:size])
		if _, err := Open(src); err == nil {
			t.Errorf("%d bytes are taken", size)
		}
		f := Survey(src)
		if f == nil {
			t.Fatalf("%d bytes: nothing to show", size)
		}
		var shown []string
		for _, key := range f.Keys() {
			shown = append(shown, key+" "+f.Describe(key))
		}
		for _, x := range f.Tensors {
			shown = append(shown, fmt.Sprintf("%s:%s/%d", x.Name, x.Type, x.Size))
		}
		if got := strings.Join(shown, " "); got != want {
			t.Errorf("%d bytes: %q, want %q", size, got, want)
		}
	}
	if f := Survey(files.FromBytes("x.gguf", newRaw(4, 0, 0).pad(0))); f != nil {
		t.Errorf("version 4: %v", f.Keys())
	}
}

func TestEveryTruncationIsAnError(t *testing.T) {
	b := sample(t)
	f := mustOpen(t, b)
	last := f.Tensors[2].Offset + f.Tensors[2].Size
	for n := range last {
		_, err := Open(files.FromBytes("x.gguf", b[:n]))
		if err == nil {
			t.Fatalf("a file cut off at byte %d of %d opens", n, len(b))
		}
		oneLine(t, err)
		if n > 4 && !strings.Contains(err.Error(), "download it again") {
			t.Errorf("cut off at %d: %v", n, err)
		}
	}
	if _, err := Open(files.FromBytes("x.gguf", b[:last])); err != nil {
		t.Errorf("without the last padding: %v", err)
	}
}

// zeros is a large source of zero bytes behind a header.
type zeros struct {
	head []byte
	size int64
}

func (z zeros) Name() string { return "x.gguf" }
func (z zeros) Size() int64  { return z.size }
func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(z.head)) {
		copy(p, z.head[off:])
	}
	return len(p), nil
}

func TestMemoryStaysNearTheFileSize(t *testing.T) {
	for name, head := range map[string][]byte{
		"strings": newRaw(3, 0, 1).put("key", u32(9), u32(8), u64(3<<20)).Bytes(),
		"numbers": newRaw(3, 0, 1).put("key", u32(9), u32(0), u64(24<<20)).Bytes(),
		"string":  newRaw(3, 0, 1).put("key", u32(8), u64(24<<20)).Bytes(),
		"keys":    newRaw(3, 0, maxKeys).put("key", u32(8), "value").Bytes(),
		"tensors": newRaw(3, maxTensors, 0).put("name", u32(1), u64(1), u32(0), u64(0)).Bytes(),
	} {
		src := zeros{head, 32 << 20}
		before := fuzztest.Allocated()
		Open(src)
		if used := fuzztest.Allocated() - before; used > uint64(src.size)+fuzztest.Overhead {
			t.Errorf("%s: opening a file of %d MiB took %d MiB", name, src.size>>20, used>>20)
		}
	}
	// The most entries that a file can have.
	b := newRaw(3, maxTensors, maxKeys)
	for i := range maxKeys {
		b.put(string(rune(0x10000+i)), u32(9), u32(8), u64(1), "")
	}
	for i := range maxTensors {
		b.put(string(rune(0x10000+i)), u32(1), u64(1), u32(24), u64(i*32))
	}
	file := b.pad(maxTensors*32 + 32)
	before := fuzztest.Allocated()
	if _, err := Open(files.FromBytes("x.gguf", file)); err != nil {
		t.Error(err)
	}
	if used := fuzztest.Allocated() - before; used > uint64(len(file))+fuzztest.Overhead {
		t.Errorf("%d entries: opening a file of %d MiB took %d MiB", maxKeys, len(file)>>20, used>>20)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(sample(f))
	for _, c := range hostile() {
		f.Add(c.file)
	}
	small, err := Bytes([]KV{{"tokens", []string{"a", "b"}}},
		[]WriteTensor{{"w", []uint64{2, 2}, I8, []byte("abcd")}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(small)
	f.Fuzz(func(t *testing.T, b []byte) {
		var file *File
		var err error
		fuzztest.Bound(t, len(b), func() { file, err = Open(files.FromBytes("x.gguf", b)) })
		if err != nil {
			oneLine(t, err)
			fuzztest.Bound(t, len(b), func() { file = Survey(files.FromBytes("x.gguf", b)) })
			if file == nil {
				return
			}
		}
		for _, key := range file.Keys() {
			file.Describe(key)
			file.Uint32(key)
			file.Float32(key)
			file.Bool(key)
			file.String(key)
			file.Strings(key)
			file.Int32s(key)
			file.Float32s(key)
		}
		if err != nil {
			return
		}
		for i := range file.Tensors {
			info := &file.Tensors[i]
			if info.Offset < file.DataStart || info.Size <= 0 || info.Offset+info.Size > int64(len(b)) {
				t.Fatalf("tensor %v outside the file", info)
			}
			if err := file.ReadTensor(info, make([]byte, info.Size), 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}
