//go:build !js && !cgo

package open

import (
	"context"
	"fmt"
	"time"

	"foretoken/webgpu"
)

// accelerator fails: wgpu-native is a C library, and a build for another system has no C compiler.
func accelerator(context.Context, time.Duration) (webgpu.Device, error) {
	return nil, fmt.Errorf("open: %w: this program was built without cgo, and so without wgpu-native; build it on "+
		"this system with CGO_ENABLED=1, or take the cpu device", webgpu.ErrUnavailable)
}

// Adapters returns none.
func Adapters() ([]webgpu.Info, error) { return nil, nil }
