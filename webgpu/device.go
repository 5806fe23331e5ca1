// Package webgpu is the contract between Foretoken and a compute device. It is small and compute only: buffers, kernels
// and programs are integer handles, a program is a list of dispatches recorded once and replayed many times, and
// everything that varies from run to run sits in small buffers written just before. The implementations live beside it:
// browser (WebGPU through JavaScript), native (wgpu-native) and simd (the processor, by native code, by WebAssembly
// SIMD or by the kernels' own references in Go). The package knows nothing of language models.
package webgpu

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Handles of a device's objects. Zero is never valid.
type (
	Buffer  uint32
	Kernel  uint32
	Program uint32
)

// ErrDeviceLost is returned (wrapped) by every call on a device that was lost or destroyed.
var ErrDeviceLost = errors.New("webgpu: device lost")

// ErrTimeout is returned (wrapped) when the device did not finish a read in time.
var ErrTimeout = errors.New("webgpu: device did not answer in time")

// ErrNoMemory is returned (wrapped) when the device has too little memory for a new object.
var ErrNoMemory = errors.New("webgpu: out of memory")

// ErrUnavailable is returned (wrapped) when no device of the asked kind can be opened here.
var ErrUnavailable = errors.New("webgpu: no device available")

// Usage is the kind of a buffer's bindings.
type Usage int

const (
	Storage Usage = iota // read-only or read-write storage; can be written and read by the host
	Uniform              // constants of dispatches; can be written by the host
)

// Access is the access mode of a kernel's binding in its WGSL.
type Access int

const (
	ReadOnly  Access = iota // var<storage, read>
	ReadWrite               // var<storage, read_write>
	Constants               // var<uniform>
)

// KernelSource is one specialisation of a compute shader. Bindings are those
// of group 0 in order of their index; the entry point is "main".
type KernelSource struct {
	Name string // names the kernel in messages and profiles
	Key  string // unique per specialisation; the same key compiles once per device
	// WGSL returns the shader's text: a prelude of const lines, then the body. Devices that run on the
	// host never ask, and kernels for them alone have none.
	WGSL     func() string
	Bindings []Access
	// Reference computes the same dispatch on the host; the reference device runs it.
	// It sees each binding as the words bound, and the workgroup counts.
	Reference func(groups [3]int, bindings []Memory)
	// Entry names the function of the cpu device's module that computes the same dispatch, and Words specialise it;
	// without one the cpu device runs Reference.
	Entry string
	Words []uint32
}

// Binding is a range of a buffer, in bytes. Size 0 reaches to the buffer's end. Offset must be a multiple of 256.
type Binding struct {
	Buffer Buffer
	Offset int
	Size   int
}

// From returns the range without its first words.
func (b Binding) From(words int) Binding {
	return Binding{Buffer: b.Buffer, Offset: b.Offset + 4*words, Size: b.Size - 4*words}
}

// Dispatch is one launch of a kernel with fixed bindings and workgroup counts.
type Dispatch struct {
	Kernel   Kernel
	Bindings []Binding
	Groups   [3]int
}

// Region is a range of a buffer that Run brings back into Dst after the programs
// have run. Offset and len(Dst) must be multiples of 4.
type Region struct {
	Buffer Buffer
	Offset int
	Dst    []byte
}

// Device runs compute programs. Its methods may be called from one goroutine at a time, except Destroy and Lost,
// which may be called from any. A failed validation, a lost device or a failed map is an error that carries the
// label of the kernel or buffer at fault; no method hangs or panics because of the device.
type Device interface {
	// Info describes the adapter; it does not change.
	Info() Info
	// NewBuffer makes a zeroed buffer of size bytes (rounded up to a multiple of 4).
	NewBuffer(label string, size int, usage Usage) (Buffer, error)
	// FreeBuffer gives a buffer back. Programs that bind it must not run again.
	FreeBuffer(Buffer)
	// NewKernels compiles kernels, together where that is faster, or returns the handles made before for the same keys.
	// The first error ends it. A shader error shows the line of WGSL at fault.
	NewKernels([]*KernelSource) ([]Kernel, error)
	// NewProgram records dispatches with their bind groups.
	NewProgram(label string, dispatches []Dispatch) (Program, error)
	// FreeProgram gives a program's bind groups back.
	FreeProgram(Program)
	// Write queues bytes to be in the buffer before the next Run. data is copied
	// at once. offset and len(data) must be multiples of 4.
	Write(b Buffer, offset int, data []byte) error
	// Run replays programs in order in one submit. With reads it waits until
	// every Dst is filled, all through one map; without, it returns at once.
	Run(programs []Program, reads ...Region) error
	// Counters counts what was made and moved since the device was opened.
	Counters() Counters
	// Lost reports why the device is lost, or nil.
	Lost() error
	// Destroy loses the device on purpose and frees all it holds. Calls in
	// progress and later calls return ErrDeviceLost.
	Destroy()
}

// Info describes a device.
type Info struct {
	Backend      string   // "browser", "native", "cpu" or "reference"
	Adapter      string   // the adapter's name, as the driver gives it
	Vendor       string   // may be empty
	Architecture string   // may be empty
	Driver       string   // graphics API and driver version, may be empty
	Software     bool     // the adapter runs on the CPU
	Threads      int      // of the cpu device
	Features     []string // the features enabled and extensions of WGSL, by their names there, sorted
	Limits       Limits
}

// Identity identifies an adapter, its driver and its features: kernels chosen for one may compute other bits on
// another, or be missing there.
func (i Info) Identity() string {
	return strings.Join(append([]string{i.Backend, i.Vendor, i.Architecture, i.Adapter, i.Driver}, i.Features...), "|")
}

// Host reports whether the device runs kernels on the host, without compiling shaders.
func (i Info) Host() bool { return i.Backend == "cpu" || i.Backend == "reference" }

// Has reports whether a feature is enabled or an extension there.
func (i Info) Has(feature string) bool { return slices.Contains(i.Features, feature) }

// Limits are those a caller must respect, in bytes or counts.
type Limits struct {
	MaxBindingSize          int // bytes of one storage binding
	MaxBufferSize           int
	MaxMemory               int // bytes of all buffers together; 0: unknown
	MaxStorageBuffers       int // storage bindings of one kernel
	MaxWorkgroupStorage     int
	MaxWorkgroupInvocations int
	MaxWorkgroupsPerDim     int
}

// DefaultLimits are the least that any WebGPU device offers.
func DefaultLimits() Limits {
	return Limits{MaxBindingSize: 128 << 20, MaxBufferSize: 256 << 20, MaxStorageBuffers: 8,
		MaxWorkgroupStorage: 16 << 10, MaxWorkgroupInvocations: 256, MaxWorkgroupsPerDim: 65535}
}

const (
	// BindingAlign is the alignment of a binding's offset in bytes.
	BindingAlign = 256
	// MaxUniformSize is the most bytes that any device lets a Constants binding
	// reach over; a larger Uniform buffer is bound in pieces.
	MaxUniformSize = 64 << 10
	// MaxUniformBindings is the most Constants bindings of one kernel.
	MaxUniformBindings = 12
)

// AlignWords rounds a number of 32-bit words up to the alignment of bindings.
func AlignWords(n int) int {
	const a = BindingAlign / 4
	return (n + a - 1) / a * a
}

// Counters count since the device was opened.
type Counters struct {
	Buffers, Kernels, Programs int           // creations
	Submits, Reads             int           // queue submits and maps
	Fallbacks                  int           // dispatches that ran their Reference in place of a kernel
	BytesWritten, BytesRead    int64         // host to device and back
	ReadWait                   time.Duration // time spent waiting for maps
}

// Shader returns the shader's text, empty if there is none.
func (s *KernelSource) Shader() string {
	if s.WGSL == nil {
		return ""
	}
	return s.WGSL()
}

// ShaderError is a WGSL error with the line of source it names.
type ShaderError struct {
	Kernel  string
	Line    int    // 1-based; 0 when the compiler named none
	Source  string // the text of that line
	Message string
}

func (e *ShaderError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("webgpu: kernel %s: %s", e.Kernel, e.Message)
	}
	return fmt.Sprintf("webgpu: kernel %s, line %d: %s\n\t%s", e.Kernel, e.Line, e.Message, strings.TrimSpace(e.Source))
}

// NewShaderError finds the 1-based line in wgsl and makes the error that shows it.
func NewShaderError(kernel, wgsl string, line int, message string) *ShaderError {
	e := &ShaderError{Kernel: kernel, Line: line, Message: message}
	if lines := strings.Split(wgsl, "\n"); line >= 1 && line <= len(lines) {
		e.Source = lines[line-1]
	}
	return e
}
