// Package devicetest is the conformance suite of webgpu.Device. Every implementation runs it from its own tests, so a
// program that works on one of them works on the others, and a mistake is the same error on each.
package devicetest

import (
	"errors"
	"strings"
	"testing"

	"foretoken/webgpu"
)

// Run tests the devices that open makes. Each call of open must return a new device; without one, open skips or fails
// the test.
func Run(t *testing.T, open func(t *testing.T) webgpu.Device) {
	suite := []struct {
		name string
		test func(*testing.T, webgpu.Device)
	}{
		{"Info", testInfo},
		{"BuffersAreZeroed", testZeroed},
		{"PartialWrites", testPartialWrites},
		{"LargeWrites", testLargeWrites},
		{"ReadsOfSeveralBuffers", testReads},
		{"ReadsGrow", testReadsGrow},
		{"WritesBetweenRuns", testWritesBetweenRuns},
		{"FreedWithWritesPending", testFreedWithWritesPending},
		{"ProgramsReplay", testReplay},
		{"ProgramsSeeEachOther", testProgramsSeeEachOther},
		{"ManyDispatches", testManyDispatches},
		{"WorkgroupCounts", testWorkgroupCounts},
		{"KernelEqualsReference", testSaxpy},
		{"KernelCache", testKernelCache},
		{"NewKernels", testNewKernels},
		{"CompileInBackground", testCompileInBackground},
		{"CompileRefused", testCompileRefused},
		{"ShaderErrors", testShaderErrors},
		{"KernelErrors", testKernelErrors},
		{"BufferErrors", testBufferErrors},
		{"BindingErrors", testBindingErrors},
		{"Aliasing", testAliasing},
		{"FreedHandles", testFreedHandles},
		{"RangeErrors", testRangeErrors},
		{"WorksAfterErrors", testWorksAfterErrors},
		{"SteadyState", testSteadyState},
		{"Profile", testProfile},
		{"DestroyedIdle", testDestroyedIdle},
		{"DestroyedInMidCompile", testDestroyedInMidCompile},
		{"DestroyedInMidRun", testDestroyedInMidRun}, // last: the run occupies the device for seconds
	}
	for _, s := range suite {
		t.Run(s.name, func(t *testing.T) {
			dev := open(t)
			t.Cleanup(dev.Destroy)
			s.test(t, dev)
		})
	}
}

// needCompiler skips the test on devices that do not compile WGSL.
func needCompiler(t *testing.T, dev webgpu.Device) {
	t.Helper()
	if dev.Info().Host() {
		t.Skip("the cpu device compiles no WGSL: it runs the kernels' Go references")
	}
}

// h makes calls that must succeed.
type h struct {
	t   testing.TB
	dev webgpu.Device
}

func (h h) buffer(label string, size int, usage webgpu.Usage) webgpu.Buffer {
	h.t.Helper()
	b, err := h.dev.NewBuffer(label, size, usage)
	if err != nil {
		h.t.Fatal(err)
	}
	if b == 0 {
		h.t.Fatal("a buffer's handle is zero")
	}
	return b
}

// words makes a storage buffer that holds x.
func (h h) words(label string, x ...uint32) webgpu.Buffer {
	h.t.Helper()
	b := h.buffer(label, 4*len(x), webgpu.Storage)
	h.write(b, 0, x...)
	return b
}

// NewKernel makes one kernel.
func NewKernel(dev webgpu.Device, src *webgpu.KernelSource) (webgpu.Kernel, error) {
	kernels, err := dev.NewKernels([]*webgpu.KernelSource{src})
	if err != nil {
		return 0, err
	}
	return kernels[0], nil
}

func (h h) kernel(src *webgpu.KernelSource) webgpu.Kernel {
	h.t.Helper()
	k, err := NewKernel(h.dev, src)
	if err != nil {
		h.t.Fatal(err)
	}
	if k == 0 {
		h.t.Fatal("a kernel's handle is zero")
	}
	return k
}

// dispatch runs a kernel with some workgroups on complete buffers.
func dispatch(k webgpu.Kernel, groups int, buffers ...webgpu.Buffer) webgpu.Dispatch {
	d := webgpu.Dispatch{Kernel: k, Groups: [3]int{groups, 1, 1}}
	for _, b := range buffers {
		d.Bindings = append(d.Bindings, webgpu.Binding{Buffer: b})
	}
	return d
}

func (h h) program(label string, dispatches ...webgpu.Dispatch) webgpu.Program {
	h.t.Helper()
	p, err := h.dev.NewProgram(label, dispatches)
	if err != nil {
		h.t.Fatal(err)
	}
	if p == 0 {
		h.t.Fatal("a program's handle is zero")
	}
	return p
}

func (h h) write(b webgpu.Buffer, offset int, x ...uint32) {
	h.t.Helper()
	if err := h.dev.Write(b, offset, webgpu.U32Bytes(x)); err != nil {
		h.t.Fatal(err)
	}
}

func (h h) run(programs ...webgpu.Program) {
	h.t.Helper()
	if err := h.dev.Run(programs); err != nil {
		h.t.Fatal(err)
	}
}

// read runs programs and returns n words of b from a byte offset on.
func (h h) read(b webgpu.Buffer, offset, n int, programs ...webgpu.Program) []uint32 {
	h.t.Helper()
	x := make([]uint32, n)
	for i := range x {
		x[i] = 0xdeadbeef // shows words that were not read
	}
	if err := h.dev.Run(programs, webgpu.Region{Buffer: b, Offset: offset, Dst: webgpu.U32Bytes(x)}); err != nil {
		h.t.Fatal(err)
	}
	return x
}

// equal compares words and reports the first difference.
func equal(t *testing.T, what string, got, want []uint32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d words, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: word %d is %#x, want %#x", what, i, got[i], want[i])
		}
	}
}

// fails checks for an error that names the given words.
func fails(t *testing.T, what string, err error, names ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for _, n := range names {
		if !strings.Contains(err.Error(), n) {
			t.Errorf("%s: the error does not name %q: %v", what, n, err)
		}
	}
	t.Logf("%s: %v", what, err)
}

// lost checks that err is ErrDeviceLost.
func lost(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, webgpu.ErrDeviceLost) {
		t.Errorf("%s on a destroyed device: %v, want %v", what, err, webgpu.ErrDeviceLost)
	}
}
