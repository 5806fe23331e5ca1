package bench

import (
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
)

// slipping is a device that gets a word of each result wrong.
type slipping struct{ webgpu.Device }

func (d slipping) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	err := d.Device.Run(programs, reads...)
	for _, r := range reads {
		r.Dst[3] ^= 0x40
	}
	return err
}

// failing is a device that compiles nothing.
type failing struct{ webgpu.Device }

func (d failing) NewKernels([]*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	return nil, &webgpu.ShaderError{Kernel: "k", Message: "no such operation"}
}

// TestDoctorChecks expects a device's kernels to agree with the references, and each check to find a wrong word.
func TestDoctorChecks(t *testing.T) {
	kerneltest.OnDevices(t, func(t *testing.T, dev webgpu.Device) {
		for _, c := range doctorChecks(dev.Info()) {
			if k := c.run(dev); !k.OK || k.Error != "" {
				t.Errorf("%+v", k)
			}
			if !dev.Info().Host() {
				continue
			}
			if k := c.run(slipping{dev}); k.OK {
				t.Errorf("a wrong word passes: %+v", k)
			}
			if k := c.run(failing{dev}); k.OK || k.Error == "" {
				t.Errorf("%+v", k)
			}
		}
	})
}
