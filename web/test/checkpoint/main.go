//go:build !js

// Command checkpoint converts a GGUF model to a checkpoint of safetensors with the same weights:
//
//	checkpoint MODEL.gguf FOLDER
package main

import (
	"fmt"
	"os"

	"foretoken/internal/files"
	"foretoken/models/convert/converttest"
	"foretoken/models/gguf"
	"foretoken/models/safetensors"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: checkpoint MODEL.gguf FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "checkpoint:", err)
		os.Exit(1)
	}
}

func write(model, folder string) error {
	data, err := os.ReadFile(model)
	if err != nil {
		return err
	}
	f, err := gguf.Open(files.FromBytes(model, data))
	if err != nil {
		return err
	}
	files, err := converttest.Checkpoint(f, safetensors.F32)
	if err != nil {
		return err
	}
	return files.Write(folder)
}
