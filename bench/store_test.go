//go:build !js

package bench

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCellStoreCutsAnUnfinishedLine(t *testing.T) {
	dir := t.TempDir()
	written := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := written("cells.jsonl", "{\"key\":\"k1\",\"method\":\"m\"}\n{\"key\":\"k2\"")
	s, err := OpenCells(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := s.Finished("k1"); !ok || len(s.cells) != 1 {
		t.Errorf("cells %v", s.cells)
	}
	if err := s.Keep(&Cell{Key: "k3"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenCells(path); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, ok := s.Finished("k3"); !ok || len(s.cells) != 2 {
		t.Errorf("after another line: %v", s.cells)
	}
	other := written("notes.txt", "my notes")
	if _, err := OpenCells(other); err == nil {
		t.Error("a file without cells was taken")
	}
	if b, err := os.ReadFile(other); err != nil || string(b) != "my notes" {
		t.Errorf("%q, %v", b, err)
	}
}
