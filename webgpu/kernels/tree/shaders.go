// Package tree holds the kernels that grow, prune and verify token trees on the device. With them, drafting and
// verifying a tree takes one submit: no level waits for the host to choose the next beams.
package tree

import (
	"embed"

	"foretoken/webgpu/kernels"
)

//go:embed *.wgsl
var embedded embed.FS

var shaders = kernels.NewShaders("tree", embedded)
