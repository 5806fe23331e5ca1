//go:build !js

package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"foretoken/internal/strictjson"
	"foretoken/models/gguf"
)

// CellStore is a file of finished cells, one per line. It truncates a partial line of a killed run.
type CellStore struct {
	file  *os.File
	cells map[string]Cell
}

// OpenCells reads the cells of a file, which need not exist, and opens it for appending.
func OpenCells(path string) (*CellStore, error) {
	if st, err := os.Stat(path); err == nil {
		if err := gguf.Regular(path, st); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err // the error names the file
	}
	cells, whole, err := ReadCells(path, f)
	if err == nil {
		err = f.Truncate(whole)
	}
	if err == nil {
		_, err = f.Seek(whole, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &CellStore{f, cells}, nil
}

// ReadCells reads cells, one per line, and returns the length of the complete lines. Errors name the file by path.
func ReadCells(path string, f io.Reader) (cells map[string]Cell, whole int64, err error) {
	cells = map[string]Cell{}
	lines := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// Each line is written with its end in one write, so a line without an end is partial; but do not
			// truncate other files.
			if len(line) > 0 && line[0] != '{' {
				return cells, 0, fmt.Errorf(
					"%s: line %d is no cell of a benchmark; give --resume a file of its own", path, n)
			}
			return cells, whole, nil
		}
		if err != nil {
			return cells, 0, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
			var c Cell
			if err := strictjson.DecodeForeign(trimmed, &c); err != nil || c.Key == "" {
				return cells, 0, fmt.Errorf(
					"%s: line %d is no cell of a benchmark; give --resume a file of its own", path, n)
			}
			if err := c.Validate(); err != nil {
				return cells, 0, fmt.Errorf("%s: line %d: %s; remove the line to have it measured again", path, n,
					strings.TrimPrefix(err.Error(), "foretoken: "))
			}
			cells[c.Key] = c
		}
		whole += int64(len(line))
	}
}

// Finished finds a cell by its key; see Plan.Finished.
func (s *CellStore) Finished(key string) (Cell, bool) {
	c, ok := s.cells[key]
	return c, ok
}

// Keep appends a cell.
func (s *CellStore) Keep(c *Cell) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = s.file.Write(append(b, '\n'))
	return err
}

// Close closes the file.
func (s *CellStore) Close() error { return s.file.Close() }
