//go:build !js

package main

import (
	"io/fs"
	"os"

	"foretoken/bench"
)

// readReport reads a file that --json wrote.
func readReport(path string) (*bench.Report, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return bench.ParseReport(path, b)
}

// artefacts returns a function that reads files of a folder; the folder "" is empty.
func artefacts(folder string) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if folder == "" {
			return nil, fs.ErrNotExist
		}
		return fs.ReadFile(os.DirFS(folder), name)
	}
}
