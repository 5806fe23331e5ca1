// Package registry is the part that all devices share. Device has the methods of webgpu.Device and keeps the handles:
// which are alive, their labels, and whether WebGPU would accept a request. So a mistake gives the same error with the
// same label on every device, and drivers that abort the process on bad input never see any. A Backend does what
// remains.
//
// B, K and P are a backend's own data for a buffer, a kernel and a program.
package registry

import (
	"fmt"
	"slices"
	"strings"

	"foretoken/webgpu"
)

// Buffer is a live buffer with the device's data for it.
type Buffer[B any] struct {
	Handle webgpu.Buffer
	Label  string
	Size   int // bytes, a multiple of 4
	Usage  webgpu.Usage
	Data   B
	freed  bool
}

// Kernel is a compiled kernel with the device's data for it.
type Kernel[K any] struct {
	Handle webgpu.Kernel
	Source *webgpu.KernelSource
	Data   K
}

// Bound is a checked binding: a range of a live buffer, in bytes.
type Bound[B any] struct {
	Buffer *Buffer[B]
	Offset int
	Size   int // never 0
}

// Step is a checked dispatch.
type Step[B, K any] struct {
	Kernel   *Kernel[K]
	Bindings []Bound[B]
	Groups   [3]int
}

// Program is a recorded program with the device's data for it.
type Program[B, K, P any] struct {
	Handle  webgpu.Program
	Label   string
	Steps   []Step[B, K]
	Data    P
	buffers []*Buffer[B] // each buffer bound, once
	checked uint64       // the device's frees when buffers were last seen alive
}

// labels names programs in an error.
func labels[B, K, P any](run []*Program[B, K, P]) string {
	if len(run) == 0 {
		return "of no program"
	}
	names := make([]string, len(run))
	for i, p := range run {
		names[i] = p.Label
	}
	return strings.Join(names, "+")
}

// checkBuffer returns the size to allocate for a buffer of size bytes.
func (d *Device[B, K, P]) checkBuffer(label string, size int, usage webgpu.Usage) (int, error) {
	if usage != webgpu.Storage && usage != webgpu.Uniform {
		return 0, fmt.Errorf("webgpu: buffer %s: unknown usage %d", label, usage)
	}
	if size <= 0 {
		return 0, fmt.Errorf("webgpu: buffer %s: size %d is not positive", label, size)
	}
	if size > d.limits.MaxBufferSize {
		return 0, fmt.Errorf("webgpu: buffer %s: size %d exceeds the device's limit of %d bytes", label, size,
			d.limits.MaxBufferSize)
	}
	return (size + 3) &^ 3, nil
}

// addBuffer registers a buffer made with a size from checkBuffer.
func (d *Device[B, K, P]) addBuffer(label string, size int, usage webgpu.Usage, data B) *Buffer[B] {
	d.buffer++
	b := &Buffer[B]{Handle: d.buffer, Label: label, Size: size, Usage: usage, Data: data}
	d.buffers[b.Handle] = b
	return b
}

// freeBuffer forgets a buffer and returns it, or nil if it was not alive.
func (d *Device[B, K, P]) freeBuffer(h webgpu.Buffer) *Buffer[B] {
	b := d.buffers[h]
	if b == nil {
		return nil
	}
	b.freed = true
	d.frees++
	delete(d.buffers, h)
	return b
}

// CheckKernel returns the kernel made before for the source's key, or nil when it must be compiled.
func (d *Device[B, K, P]) CheckKernel(src *webgpu.KernelSource) (*Kernel[K], error) {
	if src == nil {
		return nil, fmt.Errorf("webgpu: kernel: no source")
	}
	if src.Key == "" {
		return nil, fmt.Errorf("webgpu: kernel %s: empty key", src.Name)
	}
	if k := d.byKey[src.Key]; k != nil {
		// A key that names two shaders would silently run the wrong one.
		if k.Source != src && (k.Source.Shader() != src.Shader() || !slices.Equal(k.Source.Bindings, src.Bindings)) {
			return nil, fmt.Errorf("webgpu: kernel %s: key %q was used before for another source (kernel %s)", src.Name,
				src.Key, k.Source.Name)
		}
		return k, nil
	}
	storage, uniform := 0, 0
	for i, a := range src.Bindings {
		switch a {
		case webgpu.ReadOnly, webgpu.ReadWrite:
			storage++
		case webgpu.Constants:
			uniform++
		default:
			return nil, fmt.Errorf("webgpu: kernel %s: binding %d: unknown access %d", src.Name, i, a)
		}
	}
	if storage > d.limits.MaxStorageBuffers {
		return nil, fmt.Errorf("webgpu: kernel %s: %d storage bindings exceed the device's limit of %d", src.Name,
			storage, d.limits.MaxStorageBuffers)
	}
	if uniform > webgpu.MaxUniformBindings {
		return nil, fmt.Errorf("webgpu: kernel %s: %d uniform bindings exceed the limit of %d", src.Name, uniform,
			webgpu.MaxUniformBindings)
	}
	return nil, nil
}

// addKernel registers a compiled kernel.
func (d *Device[B, K, P]) addKernel(src *webgpu.KernelSource, data K) *Kernel[K] {
	k := &Kernel[K]{Handle: webgpu.Kernel(len(d.kernels) + 1), Source: src, Data: data}
	d.kernels[k.Handle] = k
	d.byKey[src.Key] = k
	return k
}

// checkProgram resolves and checks dispatches.
func (d *Device[B, K, P]) checkProgram(label string, dispatches []webgpu.Dispatch) ([]Step[B, K], error) {
	steps := make([]Step[B, K], len(dispatches))
	for i, s := range dispatches {
		k := d.kernels[s.Kernel]
		if k == nil {
			return nil, fmt.Errorf("webgpu: program %s, dispatch %d: no kernel has handle %d", label, i, s.Kernel)
		}
		bound, err := d.checkBindings(k.Source, s.Bindings)
		if err != nil {
			return nil, fmt.Errorf("webgpu: program %s, dispatch %d, kernel %s: %w", label, i, k.Source.Name, err)
		}
		for axis, n := range s.Groups {
			if n < 0 || n > d.limits.MaxWorkgroupsPerDim {
				return nil, fmt.Errorf("webgpu: program %s, dispatch %d, kernel %s: %d workgroups in dimension %d, "+
					"the device allows 0 to %d",
					label, i, k.Source.Name, n, axis, d.limits.MaxWorkgroupsPerDim)
			}
		}
		steps[i] = Step[B, K]{Kernel: k, Bindings: bound, Groups: s.Groups}
	}
	return steps, nil
}

func (d *Device[B, K, P]) checkBindings(src *webgpu.KernelSource, bindings []webgpu.Binding) ([]Bound[B], error) {
	if len(bindings) != len(src.Bindings) {
		return nil, fmt.Errorf("%d bindings given, the kernel has %d", len(bindings), len(src.Bindings))
	}
	bound := make([]Bound[B], len(bindings))
	for i, g := range bindings {
		b := d.buffers[g.Buffer]
		if b == nil {
			return nil, fmt.Errorf("binding %d: no buffer has handle %d (freed?)", i, g.Buffer)
		}
		if g.Offset < 0 || g.Offset%webgpu.BindingAlign != 0 {
			return nil, fmt.Errorf("binding %d, buffer %s: offset %d is not a multiple of %d", i, b.Label, g.Offset,
				webgpu.BindingAlign)
		}
		size := g.Size
		if size == 0 {
			size = b.Size - g.Offset
		}
		if size <= 0 || size%4 != 0 || g.Offset > b.Size-size {
			return nil, fmt.Errorf("binding %d, buffer %s: bytes %d+%d of %d (sizes are positive multiples of 4)", i,
				b.Label, g.Offset, size, b.Size)
		}
		limit, usage := d.limits.MaxBindingSize, webgpu.Storage
		if src.Bindings[i] == webgpu.Constants {
			limit, usage = webgpu.MaxUniformSize, webgpu.Uniform
		}
		if b.Usage != usage {
			return nil, fmt.Errorf("binding %d, buffer %s: %s, but the kernel declares %s", i, b.Label,
				usages[b.Usage], accesses[src.Bindings[i]])
		}
		if size > limit {
			return nil, fmt.Errorf("binding %d, buffer %s: %d bytes bound, the limit is %d", i, b.Label, size, limit)
		}
		bound[i] = Bound[B]{Buffer: b, Offset: g.Offset, Size: size}
	}
	return bound, checkAliases(src, bound)
}

// checkAliases holds WebGPU's two rules for one dispatch: a buffer that is writable in it may be bound read-only
// nowhere in it (whatever the ranges), and writable ranges must not overlap.
func checkAliases[B any](src *webgpu.KernelSource, bound []Bound[B]) error {
	for i, a := range bound {
		if src.Bindings[i] != webgpu.ReadWrite {
			continue
		}
		for j, b := range bound {
			if i == j || a.Buffer != b.Buffer {
				continue
			}
			if src.Bindings[j] != webgpu.ReadWrite {
				return fmt.Errorf("buffer %s is writable in binding %d and read-only in binding %d", a.Buffer.Label, i,
					j)
			}
			if a.Offset < b.Offset+b.Size && b.Offset < a.Offset+a.Size {
				return fmt.Errorf("buffer %s: writable ranges of bindings %d and %d overlap", a.Buffer.Label, i, j)
			}
		}
	}
	return nil
}

// addProgram registers a program of checked steps.
func (d *Device[B, K, P]) addProgram(label string, steps []Step[B, K], data P) *Program[B, K, P] {
	d.program++
	p := &Program[B, K, P]{Handle: d.program, Label: label, Steps: steps, Data: data, checked: d.frees}
	seen := map[*Buffer[B]]bool{}
	for _, s := range steps {
		for _, b := range s.Bindings {
			if !seen[b.Buffer] {
				seen[b.Buffer] = true
				p.buffers = append(p.buffers, b.Buffer)
			}
		}
	}
	d.programs[p.Handle] = p
	return p
}

// checkWrite returns the buffer that n bytes at offset are to be written to.
func (d *Device[B, K, P]) checkWrite(h webgpu.Buffer, offset, n int) (*Buffer[B], error) {
	b := d.buffers[h]
	if b == nil {
		return nil, fmt.Errorf("webgpu: write: no buffer has handle %d (freed?)", h)
	}
	if err := checkRange(b.Size, offset, n); err != nil {
		return nil, fmt.Errorf("webgpu: write to buffer %s: %w", b.Label, err)
	}
	return b, nil
}

// checkProgramRun returns a program that may run now.
func (d *Device[B, K, P]) checkProgramRun(h webgpu.Program) (*Program[B, K, P], error) {
	p := d.programs[h]
	if p == nil {
		return nil, fmt.Errorf("webgpu: run: no program has handle %d (freed?)", h)
	}
	if p.checked != d.frees {
		for _, b := range p.buffers {
			if b.freed {
				return nil, fmt.Errorf("webgpu: run: program %s binds buffer %s, which was freed", p.Label, b.Label)
			}
		}
		p.checked = d.frees
	}
	return p, nil
}

// checkRun resolves the programs to run and the regions to read, and counts the bytes read. The slices belong to
// the device and are valid until the next call, so that a round allocates nothing.
func (d *Device[B, K, P]) checkRun(
	programs []webgpu.Program, reads []webgpu.Region,
) (run []*Program[B, K, P], from []*Buffer[B], total int, err error) {
	d.run, d.from = d.run[:0], d.from[:0]
	for _, h := range programs {
		p, err := d.checkProgramRun(h)
		if err != nil {
			return nil, nil, 0, err
		}
		d.run = append(d.run, p)
	}
	for _, g := range reads {
		b, err := d.checkRead(g)
		if err != nil {
			return nil, nil, 0, err
		}
		d.from = append(d.from, b)
		total += len(g.Dst)
	}
	if total > d.limits.MaxBufferSize {
		return nil, nil, 0, fmt.Errorf("webgpu: run: reads of %d bytes exceed the device's limit of %d", total,
			d.limits.MaxBufferSize)
	}
	return d.run, d.from, total, nil
}

// checkRead returns the buffer that a region reads.
func (d *Device[B, K, P]) checkRead(g webgpu.Region) (*Buffer[B], error) {
	b := d.buffers[g.Buffer]
	if b == nil {
		return nil, fmt.Errorf("webgpu: read: no buffer has handle %d (freed?)", g.Buffer)
	}
	if b.Usage != webgpu.Storage {
		return nil, fmt.Errorf("webgpu: read of buffer %s: %s cannot be read", b.Label, usages[b.Usage])
	}
	if err := checkRange(b.Size, g.Offset, len(g.Dst)); err != nil {
		return nil, fmt.Errorf("webgpu: read of buffer %s: %w", b.Label, err)
	}
	return b, nil
}

func checkRange(size, offset, n int) error {
	if offset < 0 || offset%4 != 0 || n%4 != 0 {
		return fmt.Errorf("offset %d and length %d must be multiples of 4", offset, n)
	}
	if n > size || offset > size-n {
		return fmt.Errorf("bytes %d+%d are outside its %d bytes", offset, n, size)
	}
	return nil
}

// Names in errors.
var (
	usages   = [...]string{webgpu.Storage: "a storage buffer", webgpu.Uniform: "a uniform buffer"}
	accesses = [...]string{"read-only storage", "read-write storage", webgpu.Constants: "a uniform"}
)
