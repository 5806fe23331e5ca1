// Package matmul holds the matrix products of a pass, in every weight format and in several families, which distribute
// the work over threads differently. The fastest family depends on the device, so package tune chooses one per matrix.
// A product can include the norm, activation or rotation that follows it, which saves a dispatch.
package matmul

import (
	"embed"

	"foretoken/webgpu/kernels"
)

//go:embed *.wgsl
var embedded embed.FS

var shaders = kernels.NewShaders("matmul", embedded)
