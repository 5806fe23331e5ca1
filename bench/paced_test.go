//go:build !js

package bench

import (
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/simd"
)

// paced is the reference device with kernels that take a millisecond each: in a bubble of synctest, where nothing else
// moves the clock, times are exact, whatever else the machine does.
type paced struct{ *simd.Device }

func (d paced) NewKernels(all []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	slow := make([]*webgpu.KernelSource, len(all))
	for i, s := range all {
		slow[i] = slowed(s)
	}
	return d.Device.NewKernels(slow)
}

func slowed(s *webgpu.KernelSource) *webgpu.KernelSource {
	slow := *s
	slow.Reference = func(groups [3]int, bindings []webgpu.Memory) {
		time.Sleep(time.Millisecond)
		s.Reference(groups, bindings)
	}
	return &slow
}
