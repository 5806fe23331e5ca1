package open

import (
	"context"

	"foretoken/webgpu"
)

// Accelerator is the kind of device that this build drives besides the cpu.
const Accelerator = "browser"

const alias = "webgpu"

func accelerator(context.Context) (webgpu.Device, error) { return nil, webgpu.ErrUnavailable }
