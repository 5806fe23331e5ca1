// Package demo is the built-in pair of models: a target and its draft, small
// enough to live in the repository and to be decoded on a software adapter.
// README.md says what they are and how they were made.
//
// Native programs carry both files. In the browser the page serves them beside
// itself, so that the WebAssembly module stays small and the files are cached
// apart from it.
package demo

// Where a site serves the files, relative to the page; also the names of the
// embedded sources.
const (
	TargetName = "demo/target-q8_0.gguf"
	DraftName  = "demo/draft-q8_0.gguf"
)
