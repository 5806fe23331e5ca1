package reference

import (
	"strings"
	"testing"

	"foretoken/webgpu"
	"foretoken/webgpu/devicetest"
)

func TestConformance(t *testing.T) {
	devicetest.Run(t, func(*testing.T) webgpu.Device { return Open() })
}

// TestReferencePanicIsAnError shows that a reference out of its bindings is
// reported with its name and takes nothing down.
func TestReferencePanicIsAnError(t *testing.T) {
	d := Open()
	defer d.Destroy()
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
	d := Open()
	defer d.Destroy()
	if _, err := devicetest.NewKernel(d, &webgpu.KernelSource{Name: "gpu only", Key: "k"}); err == nil ||
		!strings.Contains(err.Error(), "gpu only") {
		t.Fatalf("NewKernel: %v", err)
	}
}
