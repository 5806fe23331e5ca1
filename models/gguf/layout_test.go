package gguf

import (
	"bytes"
	"testing"

	"foretoken/internal/files"
)

// TestLayoutIsThatOfWrite: what Layout says is where Write puts things.
func TestLayoutIsThatOfWrite(t *testing.T) {
	for _, align := range []uint32{0, 8, 256} {
		kv := []KV{{"a", "text"}, {"b", []int32{1, 2, 3}}}
		if align > 0 {
			kv = append(kv, KV{"general.alignment", align})
		}
		data := [][]byte{bytes.Repeat([]byte{1}, 12), bytes.Repeat([]byte{2}, 34), bytes.Repeat([]byte{3}, 64)}
		layout := []WriteTensor{{Name: "x", Dims: []uint64{3}, Type: F32}, {Name: "y", Dims: []uint64{32}, Type: Q8_0},
			{Name: "z", Dims: []uint64{8, 4}, Type: F16}}
		written := append([]WriteTensor{}, layout...)
		for i := range written {
			written[i].Data = data[i]
		}
		b, err := Bytes(kv, written)
		if err != nil {
			t.Fatal(err)
		}
		head, offsets, size, err := Layout(kv, layout)
		if err != nil || size != int64(len(b)) || !bytes.HasPrefix(b, head) {
			t.Fatalf("alignment %d: %d bytes, %d are written: %v", align, size, len(b), err)
		}
		end := len(head)
		for i, off := range offsets {
			if got := b[off : off+int64(len(data[i]))]; !bytes.Equal(got, data[i]) {
				t.Errorf("alignment %d: tensor %d is not at %d", align, i, off)
			}
			if gap := b[end:off]; !bytes.Equal(gap, make([]byte, len(gap))) {
				t.Errorf("alignment %d: % x before tensor %d", align, gap, i)
			}
			end = int(off) + len(data[i])
		}
	}
	if _, _, _, err := Layout(nil, []WriteTensor{{Name: "x", Dims: []uint64{31}, Type: Q8_0}}); err == nil {
		t.Error("a row of half a block has a layout")
	}
}

// TestMetadataIsWrittenAsItWas copies values of every type, and the alignment of another type
// than it is written with.
func TestMetadataIsWrittenAsItWas(t *testing.T) {
	kv := []KV{{"u8", uint8(200)}, {"i8", int8(-3)}, {"u16", uint16(60000)}, {"i16", int16(-3)},
		{"u32", uint32(1 << 31)}, {"i32", int32(-3)},
		{"u64", uint64(1 << 63)}, {"i64", int64(-3)}, {"f32", float32(1.5)}, {"f64", 1e300}, {"yes", true},
		{"text", "x\xffy"}, {"empty", ""},
		{"strings", []string{"a", "", "\x00b"}}, {"none", []string{}}, {"bools", []bool{true, false}},
		{"i32s", []int32{-1, 2}}, {"u32s", []uint32{1}},
		{"i64s", []int64{-1}}, {"u64s", []uint64{1 << 63}}, {"f32s", []float32{1, 2}}, {"f64s", []float64{3}},
		{"no floats", []float32{}}}
	first, err := Bytes(kv, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(files.FromBytes("a", first))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Bytes(f.Metadata(), nil); err != nil || !bytes.Equal(again, first) {
		t.Errorf("the copy differs: %v", err)
	}
	wide, err := Bytes([]KV{{"general.alignment", uint32(64)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(wide, []byte("alignment")) + len("alignment")
	wide[at] = byte(kindI32) // a type that readers take and Write does not
	if f, err = Open(files.FromBytes("b", wide)); err != nil {
		t.Fatal(err)
	}
	if again, err := Bytes(f.Metadata(), nil); err != nil || len(again)%64 != 0 {
		t.Errorf("%d bytes: %v", len(again), err)
	}
}
