//go:build !js

package demo

import (
	_ "embed"

	"foretoken/internal/files"
)

//go:embed target-q8_0.gguf
var target []byte

//go:embed draft-q8_0.gguf
var draft []byte

//go:embed eagle3.safetensors
var head []byte

//go:embed eagle3.json
var headConfig []byte

// Target is the model whose text is produced: 7.3 million parameters, Q8_0.
func Target() files.Source { return files.FromBytes(TargetName, target) }

// Draft is the model that proposes: 0.6 million parameters, Q8_0, with the target's vocabulary.
func Draft() files.Source { return files.FromBytes(DraftName, draft) }

// Head is the target's EAGLE-3 head, which proposes from the target's own features, and its
// configuration: 2.2 million parameters, F16.
func Head() (weights, config files.Source) {
	return files.FromBytes(HeadName, head), files.FromBytes(ConfigName, headConfig)
}
