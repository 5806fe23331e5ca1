// Package files reads files that come from anywhere: whole or by ranges, with a bound on their size, and from the local
// file system regular ones only.
package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Source is a file that can be read by ranges: on disk, in memory, behind HTTP range requests or in the browser's
// private file system. ReadAt has the semantics of [io.ReaderAt] and may be called from several goroutines.
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

// Open opens a regular file on disk, to be closed after reading. It refuses others without opening them: a pipe would
// wait for a writer, and a device may have no end.
func Open(path string) (*Disk, error) {
	st, err := os.Stat(path)
	if err == nil {
		err = Regular(path, st)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var f *os.File
	if err == nil || errors.Is(err, fs.ErrNotExist) { // the error of opening says more
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, err
	}
	if st, err = f.Stat(); err == nil {
		err = Regular(path, st) // the path may lead elsewhere by now
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Disk{f, filepath.Base(path), st.Size()}, nil
}

// Regular returns an error that names the kind of a file that is not a regular one.
func Regular(path string, st fs.FileInfo) error {
	kind := ""
	switch mode := st.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "a folder"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	default:
		kind = "something else"
	}
	return fmt.Errorf("%s is not a regular file but %s", path, kind)
}

// Read returns the content of a regular file of at most so many bytes.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.size > most {
		return nil, fmt.Errorf("%s: %d bytes; at most %d are read", path, f.size, most)
	}
	b, err := io.ReadAll(io.LimitReader(f.file, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s: more than %d bytes", path, most)
	}
	return b, err
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

// ReadFull fills p from src at off, or says why not: where the data ended, or what the source answered.
func ReadFull(src Source, p []byte, off int64) error {
	for len(p) > 0 {
		n, err := src.ReadAt(p, off)
		if n < 0 || n > len(p) {
			return fmt.Errorf("reading %d bytes at %d gave %d", len(p), off, n)
		}
		p, off = p[n:], off+int64(n)
		if len(p) == 0 {
			return nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the data ends at byte %d: it is truncated, download it again", off)
		case err != nil:
			return fmt.Errorf("reading %d bytes at %d: %w", len(p), off, err)
		case n == 0:
			return fmt.Errorf("reading %d bytes at %d gave none", len(p), off)
		}
	}
	return nil
}
