// Package open picks a device for the build at hand: WebGPU through JavaScript
// where Go is WebAssembly, wgpu-native elsewhere, the cpu device on both.
package open

import (
	"context"
	"fmt"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/cpu"
	"foretoken/webgpu/simd"
)

// Device opens a device of a kind: "cpu", "simd", Accelerator (in a browser also "webgpu"), or "auto" (also ""), which
// takes the accelerator if there is one and the cpu device if not. The note is empty, or says in plain words why
// auto fell back.
func Device(ctx context.Context, kind string) (dev webgpu.Device, note string, err error) {
	return Patient(ctx, kind, 0)
}

// Patient is Device with a timeout for each of the device's calls; 0: 30 seconds.
func Patient(ctx context.Context, kind string, patience time.Duration) (dev webgpu.Device, note string, err error) {
	switch kind {
	case "cpu":
		return cpu.Open(), "", nil
	case "simd":
		d, err := simd.Open(simd.Options{})
		if err != nil {
			return nil, "", err // not d: a nil *Device in the interface is not nil
		}
		return d, "", nil
	case "auto", "":
		dev, err := accelerator(ctx, patience)
		if err != nil {
			if ctx.Err() != nil {
				return nil, "", ctx.Err()
			}
			return cpu.Open(), err.Error(), nil
		}
		return dev, "", nil
	}
	if kind == Accelerator || kind == alias {
		dev, err := accelerator(ctx, patience)
		return dev, "", err
	}
	return nil, "", fmt.Errorf("open: unknown device %q: want auto, %s, simd or cpu", kind, Accelerator)
}
