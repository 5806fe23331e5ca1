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
	"path/filepath"
)

// journal is what a long run has finished so far: a file with one JSON object a line, so
// that an interrupted run goes on where it was. The first line holds the settings of
// the run, the others each a finished piece of work under its name.
type journal struct {
	path string
	file *os.File
	done map[string]json.RawMessage
}

type journalHead struct {
	Settings json.RawMessage `json:"settings"`
}

type journalLine struct {
	ID   string          `json:"id"`
	Data json.RawMessage `json:"data"`
}

// openJournal begins a journal or goes on with one of the same settings. What follows the
// last whole line was cut off by an interrupt, and is cut off.
func openJournal(path string, settings any) (*journal, error) {
	want, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	whole := bytes.LastIndexByte(old, '\n') + 1
	j := &journal{path: path, done: map[string]json.RawMessage{}}
	if whole > 0 {
		if err := j.read(old[:whole], want); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	if j.file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666); err != nil {
		return nil, err
	}
	if err = j.file.Truncate(int64(whole)); err == nil {
		_, err = j.file.Seek(0, io.SeekEnd)
	}
	if err == nil && whole == 0 {
		err = j.write(journalHead{want})
	}
	if err != nil {
		j.file.Close()
		return nil, err
	}
	return j, nil
}

func (j *journal) read(text, settings []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		if n == 1 {
			var head journalHead
			if err := json.Unmarshal(lines.Bytes(), &head); err != nil {
				return fmt.Errorf("line 1: %w", err)
			}
			if !bytes.Equal(head.Settings, settings) {
				return fmt.Errorf("holds work of other settings (%s; these are %s); repeat those settings, or remove the file to begin anew", head.Settings, settings)
			}
			continue
		}
		var line journalLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		j.done[line.ID] = line.Data
	}
	return lines.Err()
}

// get finds a finished piece of work.
func (j *journal) get(id string, into any) (bool, error) {
	data, ok := j.done[id]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("%s: %s: %w", j.path, id, err)
	}
	return true, nil
}

// add writes down a finished piece of work.
func (j *journal) add(id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", j.path, id, err)
	}
	j.done[id] = data
	return j.write(journalLine{id, data})
}

func (j *journal) write(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	_, err := j.file.Write(b.Bytes())
	return err
}

func (j *journal) close() error { return j.file.Close() }

// remove ends a journal whose work is done. That somebody else removed it is no harm by then.
func (j *journal) remove() error {
	j.file.Close()
	if err := os.Remove(j.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
