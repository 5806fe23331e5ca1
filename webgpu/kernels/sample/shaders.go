// Package sample holds the kernels over rows of logits: masks and biases, drawing, filtering, scoring, and rejection
// sampling. They keep the logits on the device: the host reads back one record a row.
package sample

import (
	"embed"

	"foretoken/webgpu/kernels"
)

//go:embed *.wgsl
var embedded embed.FS

var shaders = kernels.NewShaders("sample", embedded)
