// Package attention holds attention over the KV cache and the rotary embedding that writes the cache. Rows of one pass
// see different ancestors of a token tree: each row has a list of cache slots instead of a mask.
package attention

import (
	"embed"

	"foretoken/webgpu/kernels"
)

//go:embed *.wgsl
var embedded embed.FS

var shaders = kernels.NewShaders("attention", embedded)
