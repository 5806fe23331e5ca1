// Package selftest tests what the runner of Go tests in the browser promises: files that can be read by their real
// names, a temporary directory that can be written, arguments, environment and time.
package selftest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestReadsFilesOfTheRepository(t *testing.T) {
	src, err := os.ReadFile("selftest_js_test.go") // in the package's directory
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(src, []byte("// Package selftest")) {
		t.Errorf("read %q…", src[:20])
	}
	root := filepath.Join("..", "..", "..", "..")
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		found[e.Name()] = e.IsDir()
	}
	if dir, ok := found["go.mod"]; !ok || dir {
		t.Errorf("go.mod is missing or a directory in %v", found)
	}
	if !found["webgpu"] {
		t.Errorf("webgpu is missing or no directory in %v", found)
	}
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(wd) != "selftest" {
		t.Errorf("the tests run in %s", wd)
	}
	if err := filepath.WalkDir(filepath.Join(root, "webgpu"),
		func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
		t.Errorf("walking a tree: %v", err)
	}
}

func TestReadsPieces(t *testing.T) {
	name := filepath.Join("..", "..", "..", "..", "LICENSE")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() != int64(len(whole)) || info.ModTime().IsZero() {
		t.Fatalf("Stat: %+v, %v; the file has %d bytes", info, err, len(whole))
	}
	piece := make([]byte, 100)
	for _, at := range []int{0, 5000, 17, len(whole) - 100} {
		if _, err := f.ReadAt(piece, int64(at)); err != nil || !bytes.Equal(piece, whole[at:at+100]) {
			t.Errorf("100 bytes at %d: %q, %v", at, piece, err)
		}
	}
	if n, err := f.ReadAt(piece, int64(len(whole)-10)); n != 10 || err != io.EOF {
		t.Errorf("at the end: %d bytes, %v", n, err)
	}
	if _, err := f.Seek(1000, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(rest, whole[1000:]) {
		t.Errorf("from byte 1000 on: %d bytes of %d, %v", len(rest), len(whole)-1000, err)
	}
}

func TestRefuses(t *testing.T) {
	if _, err := os.ReadFile("no such file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for _, name := range []string{"/etc/passwd", "../../../../../../../../../../etc/passwd"} {
		if _, err := os.ReadFile(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.WriteFile("written", []byte("x"), 0o600); err == nil {
		t.Error("the repository can be written")
	}
}

func TestTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	want := bytes.Repeat([]byte("0123456789"), 50_000)
	if err := os.WriteFile(name, want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("end"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(dir, "moved")
	if err := os.Rename(name, moved); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(moved)
	if err != nil || !bytes.Equal(got, append(want, "end"...)) {
		t.Errorf("read back %d bytes, %v", len(got), err)
	}
	if err := os.Truncate(moved, 5); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(moved); err != nil || string(got) != "01234" {
		t.Errorf("truncated: %q, %v", got, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old name: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	if os.Getenv("TMPDIR") == "" || len(os.Args) < 2 {
		t.Errorf("environment %v, arguments %v", os.Environ(), os.Args)
	}
	start := time.Now()
	time.Sleep(30 * time.Millisecond)
	if d := time.Since(start); d < 20*time.Millisecond || d > 5*time.Minute {
		t.Errorf("30 ms took %v", d)
	}
}
