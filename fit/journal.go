//go:build !js

package fit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"foretoken"
	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/internal/strictjson"
)

// maxJournal bounds the bytes of a journal.
const maxJournal = 4 << 30

// Journal stores the finished work of a long run, so that an interrupted run continues: a file with one JSON object
// per line. The first line holds the run's settings, each other line a named piece of work.
type Journal struct {
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

// OpenJournal creates a journal or continues one of the same settings. It truncates a partial last line, left by an
// interrupt.
func OpenJournal(path string, settings any) (*Journal, error) {
	want, err := json.Marshal(settings)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	old, err := files.Read(path, maxJournal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	j := &Journal{path: path, done: map[string]json.RawMessage{}}
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

// read loads the complete lines of a journal and returns their length in bytes.
func (j *Journal) read(text, settings []byte) (whole int, err error) {
	for n := 1; ; n++ {
		end := bytes.IndexByte(text[whole:], '\n')
		if end < 0 {
			if rest := bytes.TrimSpace(text); n == 1 && len(rest) > 0 && rest[0] != '{' {
				return 0, errors.New("is no journal; give a file of its own") // which would be truncated
			}
			return whole, nil
		}
		b := text[whole : whole+end]
		whole += end + 1
		if n == 1 {
			var head journalHead
			if err := strictjson.DecodeForeign(b, &head); err != nil {
				return 0, fmt.Errorf("line 1: %w", err)
			}
			if len(head.Settings) == 0 {
				return 0, errors.New("is no journal; give a file of its own")
			}
			if !bytes.Equal(head.Settings, settings) {
				return 0, fmt.Errorf("holds work of other settings (%s; these are %.500s); repeat those settings, "+
					"or remove the file to start over", quote.Escape(string(head.Settings), 500), settings)
			}
			continue
		}
		var line journalLine
		if err := strictjson.DecodeForeign(b, &line); err != nil {
			return 0, fmt.Errorf("line %d: %w", n, err)
		}
		if line.Data == nil {
			return 0, fmt.Errorf("line %d: has no data", n)
		}
		j.done[line.ID] = line.Data
	}
}

// Get finds a finished piece of work.
func (j *Journal) Get(id string, into any) (bool, error) {
	data, ok := j.done[id]
	if !ok {
		return false, nil
	}
	if err := strictjson.DecodeForeign(data, into); err != nil {
		// The error quotes numbers of any length.
		return false, fmt.Errorf("%s: %s: %.300s", j.path, quote.Name(id), err)
	}
	return true, nil
}

// Add stores a finished piece of work.
func (j *Journal) Add(id string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", j.path, quote.Name(id), err)
	}
	j.done[id] = data
	return j.write(journalLine{id, data})
}

func (j *Journal) write(v any) error {
	b, err := journalText(v)
	if err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	_, err = j.file.Write(b)
	return err
}

// journalText encodes a line of a journal. It adds no HTML escapes to those already there.
func journalText(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// Close closes the file and keeps it for a later run.
func (j *Journal) Close() error { return j.file.Close() }

// Sync flushes what was added to the disk.
func (j *Journal) Sync() error { return j.file.Sync() }

// Remove deletes a finished journal. It may already be gone.
func (j *Journal) Remove() error {
	j.file.Close()
	if err := os.Remove(j.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Prompt is a text that the target continues.
type Prompt struct{ ID, Category, Prompt string }

// Text is a prompt with the target's continuation.
type Text struct {
	Key      string // identifies the prompt by its id and text
	Category string
	Continuation
	prompt string
}

// ContinueAll lets the target continue prompts by up to tokens tokens each. The journal keeps finished texts for
// the next command. On an error it returns the texts before the failed prompt.
func ContinueAll(ctx context.Context, s *foretoken.Session, j *Journal, prompts []Prompt, tokens int, o Options,
	progress func(done int)) ([]Text, error) {
	var texts []Text
	for _, p := range prompts {
		sum := sha256.Sum256([]byte(p.Prompt))
		texts = append(texts,
			Text{Key: p.ID + " " + hex.EncodeToString(sum[:6]), Category: p.Category, prompt: p.Prompt})
	}
	all, err := Gather(ctx, j, texts, progress, func(t *Text) (*Continuation, error) {
		return Continue(ctx, s, t.prompt, tokens, o)
	})
	for i, c := range all {
		texts[i].Continuation = *c
	}
	return texts[:len(all)], err
}

// Gather runs work on every text and keeps the results in a journal. On an error it returns the finished results;
// the text after those failed, or ctx has ended.
func Gather[T any](ctx context.Context, j *Journal, texts []Text, progress func(done int),
	work func(t *Text) (T, error)) (all []T, err error) {
	for i := range texts {
		var one T
		ok, err := j.Get(texts[i].Key, &one)
		if err == nil && !ok {
			if err = ctx.Err(); err == nil {
				if one, err = work(&texts[i]); err == nil {
					err = j.Add(texts[i].Key, one)
				}
			}
		}
		if err != nil {
			return all, err
		}
		all = append(all, one)
		progress(i + 1)
	}
	return all, nil
}
