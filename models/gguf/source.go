package gguf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// Source is a file that can be read by ranges: on disk, in memory, behind HTTP
// range requests or in the browser's private file system. ReadAt has the
// semantics of [io.ReaderAt] and may be called from several goroutines.
type Source interface {
	Name() string // for messages: a base name or a URL
	Size() int64  // bytes
	ReadAt(p []byte, off int64) (int, error)
}

var (
	_ Source = (*Disk)(nil)
	_ Source = (*memory)(nil)
)

// Disk is a Source on the local file system.
type Disk struct {
	file *os.File
	name string
	size int64
}

// OpenFile opens a file on disk. Close it when its tensors have been read.
func OpenFile(path string) (*Disk, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: %w", err)
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("gguf: %w", err)
	}
	return &Disk{f, filepath.Base(path), st.Size()}, nil
}

// Name is the base name of the path.
func (d *Disk) Name() string { return d.name }

// Size is the size in bytes when the file was opened.
func (d *Disk) Size() int64 { return d.size }

// ReadAt reads len(p) bytes at off.
func (d *Disk) ReadAt(p []byte, off int64) (int, error) { return d.file.ReadAt(p, off) }

// Close closes the file.
func (d *Disk) Close() error { return d.file.Close() }

type memory struct {
	*bytes.Reader
	name string
}

func (m *memory) Name() string { return m.name }

// FromBytes is a Source over bytes that the caller no longer changes.
func FromBytes(name string, b []byte) Source { return &memory{bytes.NewReader(b), name} }
