//go:build !js && !(cgo && (amd64 || darwin))

package open

import (
	"context"
	"fmt"
	"time"

	"foretoken/webgpu"
)

// accelerator fails: wgpu-native is a C library, which a build without a C compiler lacks, and which there is only for
// these processors and systems.
func accelerator(context.Context, time.Duration) (webgpu.Device, error) {
	return nil, fmt.Errorf("open: %w: this program was built without wgpu-native, which needs cgo, and amd64 or "+
		"macOS; build it there with CGO_ENABLED=1, or take the cpu device", webgpu.ErrUnavailable)
}

// Adapters returns none.
func Adapters() ([]webgpu.Info, error) { return nil, nil }
