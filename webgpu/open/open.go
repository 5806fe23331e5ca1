// Package open picks a device for the build at hand: WebGPU through JavaScript where Go is WebAssembly, wgpu-native
// elsewhere, and on both the cpu device (package simd) and the kernels' references.
package open

import (
	"context"
	"fmt"
	"strings"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/simd"
)

// Kinds are the devices that may be asked for by name.
var Kinds = []string{"auto", alias, "cpu", "reference"}

// Options are passed to the device that Open chooses. The zero value is good.
type Options struct {
	Timeout time.Duration // the timeout of each call to a GPU; 0: 30 seconds
	Threads int           // of the cpu device; 0: one for each core, up to eight
}

// Device opens a device of a kind: "cpu", "reference" (the kernels' references in Go, slow: an oracle for tests),
// Accelerator (in a browser also "webgpu"), or "auto" (also ""), which takes a GPU if there is one and the cpu device
// if not: adapters that run shaders on the processor are slower than it. The note is empty, or says why auto took no
// GPU: a few words, a colon and the details.
func Device(ctx context.Context, kind string) (dev webgpu.Device, note string, err error) {
	return Options{}.Device(ctx, kind)
}

// Device is the function Device with options.
func (o Options) Device(ctx context.Context, kind string) (dev webgpu.Device, note string, err error) {
	if o.Timeout < 0 {
		return nil, "", fmt.Errorf("open: device timeout: %v, want a time above 0, or 0 for 30 seconds", o.Timeout)
	}
	if o.Threads < 0 || o.Threads > MaxThreads {
		return nil, "", fmt.Errorf("open: threads: %d, want 1 to %d, or 0 for one per core", o.Threads, MaxThreads)
	}
	switch kind {
	case "reference":
		dev, err := orNil(simd.Open(simd.Options{Form: simd.Reference}))
		return dev, "", err
	case "cpu":
		dev, err := o.cpu()
		return dev, "", err
	case "auto", "":
		dev, err := accelerator(ctx, o.Timeout)
		switch {
		case err == nil && !dev.Info().Software:
			return dev, "", nil
		case err == nil:
			dev.Destroy()
			note = fmt.Sprintf("only a software GPU found: %s", dev.Info().Adapter)
		case ctx.Err() != nil:
			return nil, "", ctx.Err()
		default:
			note = fmt.Sprintf("no GPU found: %v", err)
		}
		dev, err = o.cpu()
		return dev, note, err
	}
	if kind == Accelerator || kind == alias {
		dev, err := accelerator(ctx, o.Timeout)
		return dev, "", err
	}
	return nil, "", fmt.Errorf("open: unknown device %q: want one of %s", kind, strings.Join(Kinds, ", "))
}

// MaxThreads is the limit of Options.Threads.
const MaxThreads = 64

func (o Options) cpu() (webgpu.Device, error) {
	threads := o.Threads
	if threads == 0 {
		threads = simd.Most()
	}
	return orNil(simd.Open(simd.Options{Threads: threads, Timeout: o.Timeout}))
}

// orNil returns the results of opening a device. A nil pointer in the interface would not be nil.
func orNil[D webgpu.Device](d D, err error) (webgpu.Device, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}
