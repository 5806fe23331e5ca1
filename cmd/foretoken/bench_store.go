//go:build !js

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"foretoken"
)

// cellStore is the file of --resume: one finished cell a line, as it was measured. A
// line that a killed run left unfinished is cut off.
type cellStore struct {
	path  string
	file  *os.File
	cells map[string]foretoken.BenchCell
}

// openCells reads the cells of a file that may not exist yet, and opens it for more.
func openCells(path string) (*cellStore, error) {
	s := &cellStore{path: path, cells: map[string]foretoken.BenchCell{}}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err // it names the file
	}
	whole, err := s.read(f)
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
	s.file = f
	return s, nil
}

// read takes in all lines and gives the length of those that are whole.
func (s *cellStore) read(f io.Reader) (whole int64, err error) {
	lines := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// No line is written without its end in one write, so what lacks it is a
			// part; but a file of something else must not be cut.
			if len(line) > 0 && line[0] != '{' {
				return 0, fmt.Errorf("%s: line %d is no cell of a benchmark; give --resume a file of its own", s.path, n)
			}
			return whole, nil
		}
		if err != nil {
			return 0, fmt.Errorf("%s: line %d: %w", s.path, n, err)
		}
		if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
			var c foretoken.BenchCell
			if err := json.Unmarshal(trimmed, &c); err != nil || c.Key == "" {
				return 0, fmt.Errorf("%s: line %d is no cell of a benchmark; give --resume a file of its own", s.path, n)
			}
			if err := c.Validate(); err != nil {
				return 0, fmt.Errorf("%s: line %d: %s; remove the line to have it measured anew", s.path, n, oneLine(err.Error()))
			}
			s.cells[c.Key] = c
		}
		whole += int64(len(line))
	}
}

func (s *cellStore) finished(key string) (foretoken.BenchCell, bool) {
	c, ok := s.cells[key]
	return c, ok
}

// keep appends a cell.
func (s *cellStore) keep(c *foretoken.BenchCell) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = s.file.Write(append(b, '\n'))
	return err
}

func (s *cellStore) close() error { return s.file.Close() }

// readReport reads a file that --json wrote.
func readReport(path string) (*foretoken.BenchReport, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseReport(path, b)
}

func parseReport(path string, b []byte) (*foretoken.BenchReport, error) {
	var r foretoken.BenchReport
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: is no report of a benchmark: %.300s", path, err) // which quotes numbers of any length
	}
	if len(r.Rows) == 0 {
		return nil, fmt.Errorf("%s: a report without rows; --compare takes a file that --json wrote", path)
	}
	return &r, nil
}

// writeReport replaces a file in one step, so that an old report is whole until the new
// one is.
func writeReport(path string, b []byte) error {
	tmp := path + ".part"
	if err := os.WriteFile(tmp, b, 0o644); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return nil
}

// artefacts reads files of a folder; "" is a folder without any.
func artefacts(folder string) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if folder == "" {
			return nil, fs.ErrNotExist
		}
		b, err := fs.ReadFile(os.DirFS(folder), name)
		return b, err
	}
}
