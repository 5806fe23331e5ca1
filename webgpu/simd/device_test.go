package simd

import (
	"strings"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/devicetest"
)

func open(t testing.TB) webgpu.Device {
	t.Helper()
	d, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Destroy)
	return d
}

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(t *testing.T) webgpu.Device { return open(t) })
}

// TestUnknownEntry shows that a kernel that the module lacks is refused by name.
func TestUnknownEntry(t *testing.T) {
	_, err := devicetest.NewKernel(open(t), &webgpu.KernelSource{Name: "new", Key: "new", Entry: "no_such_kernel"})
	if err == nil || !strings.Contains(err.Error(), "no_such_kernel") {
		t.Fatalf("NewKernel: %v", err)
	}
}
