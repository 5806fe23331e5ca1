// Package kernels holds what the compute shaders of its subpackages share. A kernel has five files: x.wgsl (the
// shader), x.go (its parameters and dispatch), x_ref.go (the same computation on the host, accumulated in float64,
// which the reference device runs), x_test.go, and its function for the cpu device in webgpu/simd/src. The Record
// functions of the subpackages add dispatches to a Recorder; Build compiles the kernels and makes the programs.
//
// All kernels are batch invariant: the bits of an output row depend neither on
// the number of rows nor on the row's place among them.
package kernels

import (
	"fmt"
	"math"

	"foretoken/webgpu"
)

// View is a range of a buffer that a kernel reads or writes.
type View = webgpu.Binding

// step is a dispatch before its kernel is compiled and its parameters are placed in the uniform buffer.
type step struct {
	source *webgpu.KernelSource
	params []uint32
	views  []View
	groups [3]int
}

// Recorder collects the dispatches of one program. Record functions panic only on a programmer's mistake, never on
// anything that a model file can cause.
type Recorder struct {
	Rounded View // where packed products keep their input, see matmul.PackedWords

	label string
	limit webgpu.Limits
	host  bool
	steps []step
}

// Reference computes a kernel on the host: the groups of the dispatch and the memory of its bindings.
type Reference = func(groups [3]int, bindings []webgpu.Memory)

// Host computes a kernel on the host: Ref in Go, in float64, as the oracle; and function Entry of the module of package
// simd, which Words specialise.
type Host struct {
	Ref   Reference
	Entry string
	Words []uint32
}

// NewRecorder starts a program for a device.
func NewRecorder(label string, dev webgpu.Info) *Recorder {
	return &Recorder{label: label, limit: dev.Limits, host: dev.Host()}
}

// Host reports whether the program runs on the host, where a dispatch needs no split into workgroups.
func (r *Recorder) Host() bool { return r.host }

// Dispatches returns the number of dispatches recorded.
func (r *Recorder) Dispatches() int { return len(r.steps) }

// Add records a dispatch. Binding 0 of every kernel is its uniform parameter
// block, whose words are params; views are bindings 1 and up.
func (r *Recorder) Add(src *webgpu.KernelSource, groups [3]int, params []uint32, views ...View) {
	if len(src.Bindings) != len(views)+1 {
		panic(fmt.Sprintf("kernels: %s: %d views for %d bindings", src.Name, len(views), len(src.Bindings)))
	}
	r.steps = append(r.steps, step{src, params, views, groups})
}

// paramBlock is the size of a parameter block: one binding alignment.
const paramBlock = webgpu.BindingAlign

// Built is a set of programs and the parameter buffer they share.
type Built struct {
	Programs []webgpu.Program // in the order of the recorders
	dev      webgpu.Device
	params   webgpu.Buffer
}

// Free releases the programs and their parameters.
func (b *Built) Free() {
	for _, p := range b.Programs {
		b.dev.FreeProgram(p)
	}
	if b.params != 0 {
		b.dev.FreeBuffer(b.params)
	}
	b.Programs, b.params = nil, 0
}

// Build compiles every kernel that the recorders use (in parallel, if the device can), writes all parameter blocks
// into one uniform buffer and makes the programs.
func Build(dev webgpu.Device, recorders ...*Recorder) (*Built, error) {
	blocks := map[string]int{} // parameter words → block: equal blocks are shared
	var words []uint32
	var at []int // the blocks of the steps of all recorders
	var sources []*webgpu.KernelSource
	for _, r := range recorders {
		for _, s := range r.steps {
			key := fmt.Sprint(s.params)
			n, ok := blocks[key]
			if !ok {
				if len(s.params)*4 > paramBlock {
					panic("kernels: " + s.source.Name + ": too many parameters")
				}
				n = len(words) * 4 / paramBlock
				blocks[key] = n
				words = append(words, s.params...)
				for len(words)%(paramBlock/4) != 0 {
					words = append(words, 0)
				}
			}
			at, sources = append(at, n), append(sources, s.source)
		}
	}
	kernels, err := dev.NewKernels(sources)
	if err != nil {
		return nil, err
	}
	b := &Built{dev: dev}
	if b.params, err = dev.NewBuffer("kernel parameters", max(4*len(words), paramBlock), webgpu.Uniform); err != nil {
		return nil, err
	}
	if err := dev.Write(b.params, 0, webgpu.U32Bytes(words)); err != nil {
		b.Free()
		return nil, err
	}
	for _, r := range recorders {
		var dispatches []webgpu.Dispatch
		for i, s := range r.steps {
			params := webgpu.Binding{Buffer: b.params, Offset: at[i] * paramBlock, Size: paramBlock}
			dispatches = append(dispatches, webgpu.Dispatch{Kernel: kernels[i],
				Bindings: append([]webgpu.Binding{params}, s.views...), Groups: s.groups})
		}
		at, kernels = at[len(r.steps):], kernels[len(r.steps):]
		p, err := dev.NewProgram(r.label, dispatches)
		if err != nil {
			b.Free()
			return nil, err
		}
		b.Programs = append(b.Programs, p)
	}
	return b, nil
}

// GroupsFor returns how many workgroups of size threads cover n threads, folded into two dimensions if one would
// exceed the device's limit. The linear thread index is gid.x + gid.y * num_workgroups.x * size.
func (r *Recorder) GroupsFor(n, size int) [3]int {
	groups := max((n+size-1)/size, 1)
	if most := r.limit.MaxWorkgroupsPerDim; groups > most {
		rows := (groups + most - 1) / most
		return [3]int{(groups + rows - 1) / rows, rows, 1}
	}
	return [3]int{groups, 1, 1}
}

// Params converts the words of a parameter block.
func Params(values ...int) []uint32 {
	words := make([]uint32, len(values))
	for i, v := range values {
		words[i] = uint32(v)
	}
	return words
}

// Inputs returns the access of a kernel that binds parameters, n inputs and one output, in this order.
func Inputs(n int) []webgpu.Access {
	access := []webgpu.Access{webgpu.Constants}
	for range n {
		access = append(access, webgpu.ReadOnly)
	}
	return append(access, webgpu.ReadWrite)
}

// Word converts a float to the bits of an f32 in a parameter block.
func Word(x float64) uint32 { return math.Float32bits(float32(x)) }

// Float is the inverse of Word.
func Float(w uint32) float64 { return float64(math.Float32frombits(w)) }

// Flag converts a bool to 1 or 0.
func Flag(set bool) uint32 {
	if set {
		return 1
	}
	return 0
}
