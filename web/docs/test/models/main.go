//go:build !js

// Command models writes the model files that the documentation's commands name, made from the built-in pair: unchanged,
// with a chat template, in parts, and as a checkpoint.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"foretoken/models/convert/converttest"
	"foretoken/models/demo"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: models FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "models:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	target, err := gguf.Open(demo.Target())
	if err != nil {
		return err
	}
	draft, err := gguf.Open(demo.Draft())
	if err != nil {
		return err
	}
	files, err := converttest.Parts(target, "big", 3, false)
	if err != nil {
		return err
	}
	if files["big.gguf"], err = stored(target); err != nil {
		return err
	}
	if files["small.gguf"], err = stored(draft); err != nil {
		return err
	}
	files["chat.gguf"] = files["big.gguf"] // has a chat template
	checkpoint, err := converttest.Checkpoint(draft, safetensors.F16)
	if err != nil {
		return err
	}
	for name, data := range checkpoint {
		files[filepath.Join("checkpoint", name)] = data
	}
	if err := os.MkdirAll(filepath.Join(folder, "checkpoint"), 0o777); err != nil {
		return err
	}
	return files.Write(folder)
}

// stored returns the bytes of a file.
func stored(f *gguf.File) ([]byte, error) {
	return converttest.Rewrite(f, f.Metadata(), 0, len(f.Tensors))
}
