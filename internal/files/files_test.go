package files

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(path, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	end := make([]byte, 2)
	if err := ReadFull(d, end, 2); err != nil || string(end) != "xt" || d.Name() != "x.gguf" || d.Size() != 4 {
		t.Errorf("%q of %s, %d bytes: %v", end, d.Name(), d.Size(), err)
	}
	if b, err := Read(path, 4); err != nil || string(b) != "text" {
		t.Errorf("read %q: %v", b, err)
	}
	if _, err := Read(path, 3); err == nil {
		t.Error("read four bytes of at most three")
	}
	for _, bad := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if _, err := Open(bad); err == nil {
			t.Errorf("opened %s", bad)
		}
	}
}
