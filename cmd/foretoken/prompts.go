//go:build !js

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/pflag"

	"foretoken/bench"
	"foretoken/internal/files"
	"foretoken/internal/strictjson"
)

// promptOptions is the source of prompts.
type promptOptions struct {
	text, file string
	given      bool // text was given, even if empty
}

// prompt is one line of a prompt file. Other fields are ignored; a missing category is taken from the id.
type prompt = bench.Prompt

// maxInput bounds the bytes read for prompts, against a wrong file on standard input.
const maxInput = 64 << 20

func (o *promptOptions) check(c *console, given *pflag.FlagSet) error {
	o.given = given.Changed("prompt")
	switch {
	case o.given && given.Changed("prompt-file"):
		return usagef("--prompt and --prompt-file exclude each other")
	case given.Changed("prompt-file") && o.file == "":
		return usagef("--prompt-file is empty, want a file name")
	case !o.given && o.file == "" && c.inTerminal:
		return usagef("no prompt: give --prompt, --prompt-file, or text on standard input")
	}
	return nil
}

// read reads all prompts, so that an error in the last line shows before the first prompt is decoded.
func (o *promptOptions) read(ctx context.Context, c *console) ([]prompt, error) {
	switch {
	case o.file != "":
		return readPrompts(o.file)
	case o.given:
		return []prompt{{ID: "prompt", Prompt: o.text}}, nil
	}
	text, err := readInput(ctx, c.in)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, usagef("standard input is empty: give --prompt, --prompt-file, or text")
	}
	return []prompt{{ID: "stdin", Prompt: text}}, nil
}

// readInput reads all of standard input, or until ctx ends: a blocked read of a pipe cannot be cancelled.
func readInput(ctx context.Context, in io.Reader) (string, error) {
	type answer struct {
		text []byte
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(in, maxInput+1))
		done <- answer{b, err}
	}()
	select {
	case <-ctx.Done():
		return "", errInterrupted
	case a := <-done:
		if a.err != nil {
			return "", fmt.Errorf("standard input: %w", a.err)
		}
		if len(a.text) > maxInput {
			return "", fmt.Errorf("standard input: more than %d MiB of prompt", maxInput>>20)
		}
		return string(a.text), nil
	}
}

// readFile reads a small regular file that a flag names.
func readFile(path string) ([]byte, error) { return files.Read(path, maxInput) }

func readPrompts(path string) ([]prompt, error) {
	// A shell's <(command) is a pipe and welcome. One without a writer must not be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err // the error names the file
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && st.Mode()&fs.ModeNamedPipe == 0 {
		err = files.Regular(path, st)
	}
	if err != nil {
		return nil, err
	}
	return parsePrompts(path, f)
}

// parsePrompts reads a file of one prompt per line and skips blank lines.
func parsePrompts(path string, in io.Reader) ([]prompt, error) {
	var prompts []prompt
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(data) > maxInput {
		return nil, fmt.Errorf("%s: more than %d MiB of prompts", path, maxInput>>20)
	}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		p, err := parsePrompt(line)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		prompts = append(prompts, p)
	}
	if len(prompts) == 0 {
		return nil, fmt.Errorf("%s: has no prompts, want one JSON object a line", path)
	}
	return prompts, nil
}

func parsePrompt(line []byte) (prompt, error) {
	var fields struct {
		ID     *string `json:"id"`
		Prompt *string `json:"prompt"`

		Category string `json:"category"`
	}
	if err := strictjson.DecodeForeign(line, &fields); err != nil {
		return prompt{}, err
	}
	switch {
	case fields.ID == nil:
		return prompt{}, errors.New("id is missing, want a string")
	case fields.Prompt == nil:
		return prompt{}, errors.New("prompt is missing, want a string")
	}
	if fields.Category == "" {
		fields.Category = bench.CategoryOf(*fields.ID)
	}
	return prompt{ID: *fields.ID, Category: fields.Category, Prompt: *fields.Prompt}, nil
}
