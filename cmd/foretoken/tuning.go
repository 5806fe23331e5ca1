//go:build !js

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"foretoken/internal/files"
	"foretoken/internal/strictjson"
	"foretoken/webgpu"
)

// The tuning cache stores which kernels were chosen by timing. That saves the timing and keeps the last bits of the
// logits equal from run to run: on a busy machine a new choice may differ. It also stores the pass costs that the
// goodput tree uses.

// tuningFile is the stored cache: adapter → model → class of kernels → choice.
type tuningFile struct {
	Adapters map[string]map[string]map[string]string `json:"adapters"`
}

// maxTuningFile exceeds the size of a cache of thousands of models.
const maxTuningFile = 8 << 20

// tuning is the part of the cache that an open session uses. A nil *tuning caches nothing.
type tuning struct {
	path    string
	adapter string
	models  map[string]string // by role
	file    tuningFile
}

// openTuning reads the cache. An unreadable cache counts as empty, which costs some seconds of timing.
func openTuning(c *console, dev webgpu.Info, target, draft files.Source, off bool) *tuning {
	if off || c.tuning == "" || dev.Host() { // the cpu device has no variants to choose from
		return nil
	}
	t := &tuning{path: c.tuning, adapter: fmt.Sprintf("%s: %s (%s)", dev.Backend, dev.Adapter, dev.Driver),
		models: map[string]string{"target": modelKey(target)}}
	if draft != nil {
		t.models["draft"] = modelKey(draft)
	}
	t.models["costs"] = t.models["target"] + " + " + t.models["draft"]
	var err error
	if t.file, err = readTuning(t.path); err != nil {
		c.note("kernels are timed again: the tuning cache cannot be used: %v", err)
	}
	return t
}

func readTuning(path string) (file tuningFile, err error) {
	b, err := files.Read(path, maxTuningFile)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return file, err // the error names the file
	}
	if err := strictjson.DecodeForeign(b, &file); err != nil {
		return tuningFile{}, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// choices returns the value of foretoken.Options.Tuning.
func (t *tuning) choices() map[string]map[string]string {
	if t == nil {
		return nil
	}
	out := map[string]map[string]string{}
	for role, model := range t.models {
		if known := t.file.Adapters[t.adapter][model]; known != nil {
			out[role] = known
		}
	}
	return out
}

// save stores the choices of an open session, by role, if they changed.
func (t *tuning) save(chosen map[string]map[string]string) error {
	if t == nil {
		return nil
	}
	news := false
	for role, choices := range chosen {
		stored := t.file.Adapters[t.adapter][t.models[role]]
		for key, choice := range choices {
			news = news || stored[key] != choice
		}
	}
	if !news {
		return nil
	}
	// Another process may have stored something in the meantime.
	file, err := readTuning(t.path)
	if err != nil || file.Adapters == nil {
		file.Adapters = map[string]map[string]map[string]string{}
	}
	if file.Adapters[t.adapter] == nil {
		file.Adapters[t.adapter] = map[string]map[string]string{}
	}
	models := file.Adapters[t.adapter]
	for role, choices := range chosen { // what other settings stored, such as costs with another head, stays
		model := t.models[role]
		if models[model] == nil {
			models[model] = map[string]string{}
		}
		maps.Copy(models[model], choices)
	}
	b, err := json.MarshalIndent(file, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(t.path), 0o700); err != nil {
		return err
	}
	return replaceFile(t.path, append(b, '\n'))
}

// baseName is the last element of a path in the notation of any system.
func baseName(path string) string { return filepath.Base(filepath.FromSlash(path)) }
