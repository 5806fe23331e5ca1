//go:build cgo && (amd64 || darwin)

package open

import (
	"context"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/native"
)

func accelerator(_ context.Context, timeout time.Duration) (webgpu.Device, error) {
	return orNil(native.Open(native.Options{ReadTimeout: timeout}))
}

// Adapters lists the GPUs, and the software that stands for one, that Accelerator could open, best first.
func Adapters() ([]webgpu.Info, error) { return native.Adapters() }
