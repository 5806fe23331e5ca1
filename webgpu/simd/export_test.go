package simd

import (
	"maps"
	"slices"

	"foretoken/webgpu"
)

// KernelNames lists the kernels of a device.
func KernelNames(d webgpu.Device) []string { return slices.Sorted(maps.Keys(d.(*Device).kernels)) }
