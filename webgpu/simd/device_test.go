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
	for _, form := range append(Forms(), Reference) {
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

// TestReferencePanicIsAnError shows that a reference out of its bindings is reported with its name and takes nothing
// down.
func TestReferencePanicIsAnError(t *testing.T) {
	d := open(t)
	k, err := devicetest.NewKernel(d, &webgpu.KernelSource{Name: "greedy", Key: "greedy",
		Bindings:  []webgpu.Access{webgpu.ReadWrite},
		Reference: func(_ [3]int, b []webgpu.Memory) { b[0][64] = 1 }})
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.NewBuffer("b", 1024, webgpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.NewProgram("p", []webgpu.Dispatch{{Kernel: k, Bindings: []webgpu.Binding{{Buffer: b, Size: 256}},
		Groups: [3]int{1, 1, 1}}})
	if err != nil {
		t.Fatal(err)
	}
	err = d.Run([]webgpu.Program{p})
	if err == nil || !strings.Contains(err.Error(), "greedy") || !strings.Contains(err.Error(), "index out of range") {
		t.Fatalf("Run: %v", err)
	}
	if err := d.Run(nil); err != nil {
		t.Fatal(err)
	}
}

func TestKernelWithoutReference(t *testing.T) {
	if _, err := devicetest.NewKernel(open(t), &webgpu.KernelSource{Name: "gpu only", Key: "k"}); err == nil ||
		!strings.Contains(err.Error(), "gpu only") {
		t.Fatalf("NewKernel: %v", err)
	}
}
