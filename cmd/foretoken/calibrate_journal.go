//go:build !js

package main

import (
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
	j := &journal{path: path, done: map[string]json.RawMessage{}}
	whole, err := j.read(old, want)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
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

// read takes what the whole lines of a journal hold, and says how many bytes those are.
func (j *journal) read(text, settings []byte) (whole int, err error) {
	for n := 1; ; n++ {
		end := bytes.IndexByte(text[whole:], '\n')
		if end < 0 {
			return whole, nil
		}
		b := text[whole : whole+end]
		whole += end + 1
		if n == 1 {
			var head journalHead
			if err := json.Unmarshal(b, &head); err != nil {
				return 0, fmt.Errorf("line 1: %w", err)
			}
			if !bytes.Equal(head.Settings, settings) {
				return 0, fmt.Errorf("holds work of other settings (%.500s; these are %.500s); repeat those settings, or remove the file to begin anew",
					harmless(string(head.Settings)), settings)
			}
			continue
		}
		var line journalLine
		if err := json.Unmarshal(b, &line); err != nil {
			return 0, fmt.Errorf("line %d: %w", n, err)
		}
		if line.Data == nil {
			return 0, fmt.Errorf("line %d: has no data", n)
		}
		j.done[line.ID] = line.Data
	}
}

// get finds a finished piece of work.
func (j *journal) get(id string, into any) (bool, error) {
	data, ok := j.done[id]
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("%s: %s: %.300s", j.path, id, err) // which quotes numbers of any length
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
	b, err := journalText(v)
	if err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	_, err = j.file.Write(b)
	return err
}

// journalText is a line of a journal. What was escaped before it came here stays so, and nothing else is.
func journalText(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
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
