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

func accelerator(_ context.Context, patience time.Duration) (webgpu.Device, error) {
	d, err := native.Open(native.Options{ReadTimeout: patience})
	if err != nil {
		return nil, err // not d: a nil *Device in the interface is not nil
	}
	return d, nil
}
