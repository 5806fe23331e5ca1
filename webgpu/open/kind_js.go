package open

import (
	"context"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/browser"
)

// Accelerator is the backend of this build besides the cpu device.
const Accelerator = "browser"

const alias = "webgpu"

func accelerator(ctx context.Context, timeout time.Duration) (webgpu.Device, error) {
	return orNil(browser.Open(ctx, browser.Options{ReadTimeout: timeout}))
}
