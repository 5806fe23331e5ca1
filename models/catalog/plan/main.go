// Command plan computes the memory and the device class of every model in models/catalog.json and writes them into it:
//
//	go run ./models/catalog/plan
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"foretoken/internal/files"
	"foretoken/models/catalog"
	"foretoken/webgpu"
	"foretoken/webgpu/simd"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	path := filepath.Join("models", "catalog.json")
	body, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c, err := catalog.Read(body)
	if err != nil {
		return err
	}
	cpu, err := simd.Open(simd.Options{})
	if err != nil {
		return err
	}
	defer cpu.Destroy()
	open := func(name string) (files.Source, error) {
		return files.Open(filepath.Join(filepath.FromSlash(catalog.Builtin), name))
	}
	if err := c.Fill(webgpu.DefaultLimits(), cpu.Info().Limits, open); err != nil {
		return err
	}
	text, err := c.Text()
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
