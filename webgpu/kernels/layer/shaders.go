// Package layer holds the kernels of a transformer block besides products and attention: embeddings, norms,
// activations, copies of hidden states for draft heads, and the layers of acceptance heads.
package layer

import (
	"embed"

	"foretoken/webgpu/kernels"
)

//go:embed *.wgsl
var embedded embed.FS

var shaders = kernels.NewShaders("layer", embedded)
