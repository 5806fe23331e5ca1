package foretoken

import (
	"foretoken/internal/files"
	"foretoken/internal/pair"
	"foretoken/models/gguf"
	"foretoken/models/graph"
	"foretoken/models/tokenizer"
	"foretoken/webgpu"
)

// Memory is the number of bytes that Open allocates on a device for a pair. The first request of some policies
// allocates a little more.
type Memory struct {
	Target graph.Memory  `json:"target"` // includes the features kept for an EAGLE-3 head
	Draft  *graph.Memory `json:"draft,omitempty"`
	EAGLE3 *graph.Memory `json:"eagle3,omitempty"`
	Total  int64         `json:"total"`
}

func (m *Memory) String() string { return (*pair.Memory)(m).String() }

// Plan says what Open would allocate for a pair with these options on a device of these limits, to the byte, without
// reading any weights. It fails as Open would: where the models cannot be run or do not go together, a buffer would be
// larger than the device has, or all of them are more than Options.Memory.
func Plan(target, draft files.Source, o Options, limits webgpu.Limits) (*Memory, error) {
	f, err := pair.Read(target, draft, o.pair())
	if err != nil {
		return nil, err
	}
	m, err := f.Memory(limits)
	return (*Memory)(m), err
}

// Inspect is Plan for an opened file alone, with its tokenizer, which is nil where the file cannot be run by what is
// read before it.
func Inspect(f *gguf.File, o Options, limits webgpu.Limits) (*tokenizer.Tokenizer, *Memory, error) {
	tok, m, err := pair.Inspect(f, o.pair(), limits)
	return tok, (*Memory)(m), err
}
