//go:build !js

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// modulesFile lists the modules that the target was trained on, beside the Go distribution.
const modulesFile = "models/demo/train/modules.txt"

// corpus returns the folders with the training text: the Go distribution's and those of the modules that are
// downloaded. missing are the other modules.
func corpus() (folders, missing []string, err error) {
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return nil, nil, err
	}
	goroot, cache, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	folders = append(folders, filepath.Join(goroot, "src"))
	list, err := os.ReadFile(modulesFile)
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(string(list)) {
		module, _, _ := strings.Cut(line, "#")
		folder := filepath.Join(cache, filepath.FromSlash(strings.TrimSpace(module)))
		if _, err := os.Stat(folder); err != nil {
			missing = append(missing, strings.TrimSpace(module))
		} else {
			folders = append(folders, folder)
		}
	}
	return folders, missing, nil
}

// seenIn returns the lines of prompts that Go files of folders have.
func seenIn(folders, prompts []string) (seen []string, err error) {
	lines := map[string]bool{}
	for _, prompt := range prompts {
		for line := range strings.Lines(prompt) {
			lines[strings.TrimSpace(line)] = true
		}
	}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(text)) {
				if line = strings.TrimSpace(line); lines[line] {
					seen = append(seen, line)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(seen)
	return slices.Compact(seen), nil
}
