//go:build !js

package bench

import (
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/reference"
)

// paced is the reference device with kernels that take a millisecond each: in a bubble of synctest, where nothing else
// moves the clock, times are exact, whatever else the machine does.
type paced struct{ *reference.Device }

func (d paced) NewKernel(s *webgpu.KernelSource) (webgpu.Kernel, error) {
	return d.Device.NewKernel(slowed(s))
}

func (d paced) NewKernels(all []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	var kernels []webgpu.Kernel
	for _, s := range all {
		k, err := d.NewKernel(s)
		if err != nil {
			return nil, err
		}
		kernels = append(kernels, k)
	}
	return kernels, nil
}

func slowed(s *webgpu.KernelSource) *webgpu.KernelSource {
	slow := *s
	slow.Reference = func(groups [3]int, bindings []webgpu.Memory) {
		time.Sleep(time.Millisecond)
		s.Reference(groups, bindings)
	}
	return &slow
}
