package simd

import (
	"errors"
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
	for _, form := range Forms() {
		t.Run(form, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) webgpu.Device {
				d, err := Open(Options{Form: form})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(d.Destroy)
				return d
			})
		})
	}
}

func TestUnknownForm(t *testing.T) {
	_, err := Open(Options{Form: "new"})
	if !errors.Is(err, webgpu.ErrUnavailable) || !strings.Contains(err.Error(), strings.Join(Forms(), ", ")) {
		t.Fatalf("Open with a form that is none: %v", err)
	}
}

// TestUnknownEntry shows that a kernel that the module lacks is refused by name.
func TestUnknownEntry(t *testing.T) {
	_, err := devicetest.NewKernel(open(t), &webgpu.KernelSource{Name: "new", Key: "new", Entry: "no_such_kernel"})
	if err == nil || !strings.Contains(err.Error(), "no_such_kernel") {
		t.Fatalf("NewKernel: %v", err)
	}
}
