// Package demo is the built-in pair of models: a target and its draft, small enough to live in the repository and to be
// decoded on a software adapter. README.md says what they are and how they were made.
//
// Native programs carry both files. In the browser the page serves them beside itself, so that the WebAssembly module
// stays small and the files are cached apart from it. What was fitted to the pair is small, and part of every build.
package demo

import "embed"

// Where a site serves the files, relative to the page; also the names of the embedded sources.
const (
	TargetName = "demo/target-q8_0.gguf"
	DraftName  = "demo/draft-q8_0.gguf"
	HeadName   = "demo/eagle3.safetensors"
	ConfigName = "demo/eagle3.json" // of the head
)

//go:embed calibration.json c2t.json acceptance-head.json acceptance-heads.json
var fitted embed.FS

// File is one of the files that hold what was fitted to the pair.
type File struct {
	Name string // for messages
	Data []byte
}

// Calibrations are HeteroSpec's entropy bins, C2T's classifier and the acceptance heads of
// the pair, as the commands of README.md made them; each file names its kind.
func Calibrations() []File {
	entries, err := fitted.ReadDir(".")
	if err != nil {
		panic(err) // the files were there when the program was built
	}
	var all []File
	for _, e := range entries {
		data, err := fitted.ReadFile(e.Name())
		if err != nil {
			panic(err)
		}
		all = append(all, File{"demo/" + e.Name(), data})
	}
	return all
}
