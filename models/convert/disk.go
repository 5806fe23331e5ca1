package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"foretoken/internal/files"
)

// onDisk is a file with the path that it was opened by: a base name does not tell one folder's model.gguf from
// another's.
type onDisk struct {
	*files.Disk
	path string
}

func (f onDisk) Name() string { return f.path }

// OpenPaths opens a model on the local file system as [Open] does. A path names a GGUF file, any part of a split
// one, a safetensors file or its index, or a folder that holds one of these; OpenPaths finds the files that belong
// to them in the same folder. Several paths are the files of one model. Call close after reading the weights.
func OpenPaths(paths []string, o Options) (src files.Source, close func(), err error) {
	var names []string
	seen := map[string]bool{}
	for _, path := range paths {
		found, err := belonging(path)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range found {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	var sources []files.Source
	closeAll := func() {
		for _, f := range sources {
			f.(onDisk).Close()
		}
	}
	for _, name := range names {
		f, err := files.Open(name)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		sources = append(sources, onDisk{f, name})
	}
	if len(names) > 0 && o.Name == "" { // "." has a name too
		if whole, err := filepath.Abs(names[0]); err == nil {
			o.Name = filepath.Base(filepath.Dir(whole))
		}
	}
	if src, err = Open(sources, o); err != nil {
		closeAll()
		return nil, nil, err
	}
	return src, closeAll, nil
}

// belonging lists the files of the model that a path names one of.
func belonging(path string) ([]string, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && Siblings(path) != nil:
		// A part that is not there: the others say which are missing.
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("convert: %s: there is no such file or folder: give a GGUF file, or a folder with "+
			"safetensors and config.json", path)
	case err != nil:
		return nil, fmt.Errorf("convert: %w", err)
	case st.IsDir():
		return inFolder(path)
	}
	base := filepath.Base(path)
	if parts := Siblings(path); len(parts) > 1 {
		parts = slices.DeleteFunc(parts, func(name string) bool {
			_, err := os.Stat(name)
			return errors.Is(err, fs.ErrNotExist)
		})
		if len(parts) == 0 {
			return nil, fmt.Errorf("convert: %w", err)
		}
		return parts, nil
	}
	if strings.HasSuffix(base, ".safetensors") || base == indexName {
		return checkpointFiles(filepath.Dir(path), base)
	}
	return []string{path}, nil
}

// inFolder finds the one model of a folder.
func inFolder(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	var models []string // GGUF files, one part of split ones
	seen := map[part]bool{}
	weights := ""
	for _, e := range entries {
		name := e.Name()
		switch part, split := parsePart(name); {
		case strings.HasSuffix(name, ".safetensors"):
			weights = name
		case split && part.number > 1:
			if part.number = 1; !seen[part] {
				seen[part] = true
				models = append(models, name)
			}
		case strings.HasSuffix(name, ".gguf"):
			seen[part] = true
			models = append(models, name)
		}
	}
	switch {
	case len(models) == 1 && weights == "":
		return belonging(filepath.Join(dir, models[0]))
	case len(models) > 0:
		if weights != "" {
			models = append(models, weights)
		}
		return nil, fmt.Errorf("convert: %s: several models are in this folder (%s): name one of the files", dir,
			list(models))
	case weights != "":
		return checkpointFiles(dir, "")
	}
	return nil, fmt.Errorf("convert: %s: neither a .gguf file nor safetensors are in this folder", dir)
}

// checkpointFiles lists what of a folder belongs to a checkpoint: everything small and the weights. only
// names the weights to take, where they are named.
func checkpointFiles(dir, only string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	var files []string
	weights := 0
	sharded := slices.ContainsFunc(entries, // bound: once a path
		func(e fs.DirEntry) bool { return e.Name() == indexName })
	alone := only != "" && only != indexName && !(sharded && shardName(only))
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir():
		case name == indexName && !alone, strings.HasSuffix(name, ".safetensors") && (!alone || name == only),
			name == "config.json", name == "generation_config.json", strings.HasPrefix(name, "tokenizer"),
			name == "chat_template.jinja":
			files = append(files, filepath.Join(dir, name))
			if strings.HasSuffix(name, ".safetensors") {
				weights++
			}
		}
	}
	if weights > maxParts {
		return nil, fmt.Errorf("convert: %s: %d files of weights; a model of at most %d is read: take out those that "+
			"do not belong to it", dir, weights, maxParts)
	}
	return files, nil
}

// shardName reports whether a file is named as one of several with an index.
func shardName(name string) bool {
	return strings.HasPrefix(name, "model-") && strings.Contains(name, "-of-")
}
