//go:build !js

package open

import (
	"context"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/native"
)

// Accelerator is the backend of this build besides the cpu device.
const Accelerator = "native"

const alias = Accelerator

func accelerator(_ context.Context, timeout time.Duration) (webgpu.Device, error) {
	return orNil(native.Open(native.Options{ReadTimeout: timeout}))
}
