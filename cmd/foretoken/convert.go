//go:build !js

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"foretoken/internal/files"
	"foretoken/internal/quote"
	"foretoken/models/convert"
	"foretoken/models/gguf"
	"foretoken/models/graph"
)

type convertOptions struct {
	in    []string
	out   string
	typ   string
	name  string
	force bool
	json  bool
}

func convertCommand(c *console) *cobra.Command {
	var o convertOptions
	cmd := &cobra.Command{
		Use:   "convert MODEL… -o OUT.gguf",
		Short: "Make a GGUF file from safetensors, from the parts of a split file, or with weights of another type",
		Long: "Write a model as one GGUF file.\n\n" +
			"MODEL is a folder with safetensors, config.json and tokenizer.json, a safetensors file in\n" +
			"such a folder, a GGUF file, or any part of a split one; several must belong to one model.\n" +
			"Matrices keep their type or get that of --type; vectors become f32. With q4_0 the output matrix\n" +
			"is q8_0. The file appears under its name when it is complete.",
		Example: "  foretoken convert SmolLM2-135M-Instruct -o smollm2-135m-q8_0.gguf --type q8_0\n" +
			"  foretoken convert big-00001-of-00003.gguf -o big.gguf\n" +
			"  foretoken convert model-f16.gguf -o model-q4_0.gguf --type q4_0",
		Args: modelArguments(math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.in = args
			return o.run(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVarP(&o.out, "output", "o", "", "file to write")
	f.StringVar(&o.typ, "type", "",
		"type of the matrices: "+strings.Join(convert.Types(), ", ")+" (default as they are)")
	f.StringVar(&o.name, "name", "", "the model's name, for safetensors (default the folder's)")
	f.BoolVar(&o.force, "force", false, "replace an existing file")
	f.BoolVar(&o.json, "json", false, "print one JSON object: file, bytes, seconds")
	return cmd
}

func (o *convertOptions) run(ctx context.Context, c *console) error {
	if o.out == "" {
		return usagef("-o is missing: name the file to write")
	}
	if err := oneOfFlagOrNone("type", strings.ToLower(o.typ), convert.Types()); err != nil {
		return err
	}
	if err := o.checkOutput(); err != nil {
		return err
	}
	src, closeFiles, err := convert.OpenPaths(o.in,
		convert.Options{Quantise: o.typ, Name: o.name, Note: func(s string) { c.note("%s", s) }})
	if err != nil {
		return err
	}
	defer closeFiles()
	f, err := gguf.Open(src) // refuse a damaged file before copying it
	if err == nil {
		err = convert.CheckWhole(f)
	}
	if err != nil {
		return err
	}
	began := time.Now()
	bar := &bar{}
	if c.errTerminal {
		bar.p = progressbar.NewOptions64(src.Size(), append(barStyle(c),
			progressbar.OptionSetDescription(filepath.Base(o.out)), progressbar.OptionShowBytes(true))...)
	}
	err = writeComplete(ctx, o.out, o.force, func(w io.Writer) error { return copySource(ctx, w, src, bar) })
	err = writeProblem(o.out, err)
	bar.clear()
	if err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	if o.json {
		return printObject(c, struct {
			File    string  `json:"file"`
			Bytes   int64   `json:"bytes"`
			Seconds float64 `json:"seconds"`
		}{o.out, src.Size(), seconds})
	}
	fmt.Fprintf(c.err, "%s: %s in %.1f s\n", quote.Name(o.out), graph.Size(src.Size()), seconds)
	return nil
}

func (o *convertOptions) checkOutput() error {
	st, err := os.Stat(o.out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("convert: %w", err)
	case !st.Mode().IsRegular():
		return fmt.Errorf("convert: %s is not a file: name the file to write", o.out)
	case !o.force:
		return fmt.Errorf("convert: %s already exists: name another file, or give --force to replace it", o.out)
	}
	return nil
}

// copyChunk is the size of one read and write, in bytes.
const copyChunk = 1 << 20

// copySource copies a source. It computes the next chunk while one is written.
func copySource(ctx context.Context, w io.Writer, src files.Source, bar *bar) error {
	chunks, read := io.Pipe()
	var reading sync.WaitGroup
	defer reading.Wait() // the caller closes the source next
	defer chunks.Close()
	reading.Go(func() {
		n, err := io.CopyBuffer(read, io.NewSectionReader(src, 0, src.Size()), make([]byte, copyChunk))
		if err == nil && n < src.Size() {
			err = fmt.Errorf("convert: %s ends at byte %d of %d: the file became shorter",
				src.Name(), n, src.Size())
		}
		read.CloseWithError(err)
	})
	b, done := make([]byte, copyChunk), int64(0)
	for {
		n, err := chunks.Read(b)
		switch {
		case ctx.Err() != nil:
			return errInterrupted
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		if done += int64(n); bar.p != nil {
			_ = bar.p.Set64(done) // a bar that cannot be drawn is no reason to stop
		}
	}
}

// writeComplete writes to a temporary file in the same folder and renames it when it is complete. On an error it
// removes the temporary file.
func writeComplete(ctx context.Context, path string, replace bool, write func(io.Writer) error) (err error) {
	f, err := temporary(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			if left := os.Remove(f.Name()); left != nil && !errors.Is(left, fs.ErrNotExist) {
				err = fmt.Errorf("%w; and %s is left behind: %v", err, f.Name(), left)
			}
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	if !replace {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("convert: %s now exists: name another file, or give --force to replace it", path)
		}
	}
	return os.Rename(f.Name(), path)
}

// replaceFile replaces a file in one step: a reader sees the old content or the new one.
func replaceFile(path string, b []byte) error {
	return writeComplete(context.Background(), path, true, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// temporary creates a file in the folder of path, with the permissions of any new file.
func temporary(path string) (*os.File, error) {
	dir, base := filepath.Split(path)
	for n := 1; ; n++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf(".%s.%d-%d.part", base, os.Getpid(), n)),
			os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil || !errors.Is(err, fs.ErrExist) || n == 100 {
			return f, err
		}
	}
}

// writeProblem adds advice to an error of writing. Errors of the input stay as they are.
func writeProblem(path string, err error) error {
	failed, ok := errors.AsType[*fs.PathError](err)
	if !ok || !slices.Contains([]string{"write", "sync", "close"}, failed.Op) {
		return err
	}
	return fmt.Errorf("convert: writing %s: %w: the partial file was removed; make room, or name a file on "+
		"another disk", path, failed.Err)
}
