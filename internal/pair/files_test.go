package pair

import (
	"bytes"
	"slices"
	"testing"

	"foretoken/internal/files"
	"foretoken/spec"
)

func TestIdentifyTellsFilesApart(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
	id := func(b []byte, name string) spec.ModelID {
		t.Helper()
		m, err := Identify(files.FromBytes("file.gguf", b), name, "q8_0", nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	changed := func(at int) []byte { b := slices.Clone(big); b[at]++; return b }
	base := id(big, "model")
	if other := id(big, ""); other.Hash != base.Hash || other.Name != "file.gguf" {
		t.Errorf("%+v and %+v", base, other)
	}
	for _, b := range [][]byte{changed(5), changed(len(big) - 1), big[:len(big)-1], {}, big[:100]} {
		if id(b, "model").Hash == base.Hash {
			t.Errorf("a file of %d bytes is taken for another", len(b))
		}
	}
}
