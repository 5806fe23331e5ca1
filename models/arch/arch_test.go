package arch

import (
	"slices"
	"testing"

	"foretoken/models/modeltest"
)

// TestTensors compares the list of tensors with the files of the test models, which have every architecture.
func TestTensors(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range modeltest.Oracles() {
		f := modeltest.File(t, name)
		m, err := Read(f, 0)
		if err != nil {
			t.Fatal(err)
		}
		seen[m.Architecture] = true
		listed := map[string]bool{}
		for want := range m.Tensors() {
			if listed[want.GGUF] = true; want.Optional {
				continue
			}
			got, err := f.Tensor(want.GGUF)
			if err != nil {
				t.Fatal(err)
			}
			dims := slices.Clone(want.Shape)
			slices.Reverse(dims)
			if !slices.EqualFunc(dims, got.Dims, func(a int, b uint64) bool { return uint64(a) == b }) {
				t.Errorf("%s: %s is listed as %v, the file has %v", name, want.GGUF, dims, got.Dims)
			}
		}
		for _, got := range f.Tensors {
			if !listed[got.Name] {
				t.Errorf("%s: %s is not listed", name, got.Name)
			}
		}
	}
	for name := range families {
		if !seen[name] {
			t.Errorf("no test model of %s", name)
		}
	}
}
