package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/registry"
)

var (
	_ webgpu.Device        = (*Device)(nil)
	_ webgpu.BatchCompiler = (*Device)(nil)
)

type (
	buffer  = registry.Buffer[webgpu.Memory]
	program = registry.Program[webgpu.Memory, struct{}, recorded]
)

// recorded holds the memory views of each step's bindings, so that a replay makes nothing.
type recorded [][]webgpu.Memory

// Device runs reference kernels. webgpu.Device documents its methods.
type Device struct {
	lost      chan struct{} // closed by Destroy
	destroyed atomic.Bool

	mu       sync.Mutex // held by every call but Destroy's first step, Lost and Info
	reg      *registry.Registry[webgpu.Memory, struct{}, recorded]
	counters webgpu.Counters
	yielded  time.Time
	watch    func([]webgpu.Program) // receives the programs of every run; may be nil
}

// Open makes a cpu device. It always succeeds.
func Open() *Device {
	return &Device{
		lost:    make(chan struct{}),
		reg:     registry.New[webgpu.Memory, struct{}, recorded](limits()),
		yielded: time.Now(),
	}
}

// limits are the default ones on purpose: what runs here then runs on every device. Only the invocations and
// workgroup memory of a shader go unchecked, because references have none.
func limits() webgpu.Limits { return webgpu.DefaultLimits() }

// Info describes the host.
func (d *Device) Info() webgpu.Info {
	return webgpu.Info{
		Backend:      "cpu",
		Adapter:      fmt.Sprintf("Go reference kernels (%s, %d threads)", runtime.GOARCH, runtime.GOMAXPROCS(0)),
		Architecture: runtime.GOARCH,
		Driver:       runtime.Version(),
		Software:     true,
		Limits:       limits(),
	}
}

// Lost reports why the device is lost, or nil.
func (d *Device) Lost() error {
	if d.destroyed.Load() {
		return fmt.Errorf("cpu: %w: destroyed", webgpu.ErrDeviceLost)
	}
	return nil
}

// enter takes the lock, or fails on a lost device.
func (d *Device) enter(what, label string) error {
	d.mu.Lock()
	if d.destroyed.Load() {
		d.mu.Unlock()
		return fmt.Errorf("cpu: %s %s: %w: destroyed", what, label, webgpu.ErrDeviceLost)
	}
	return nil
}

// NewBuffer makes a zeroed buffer.
func (d *Device) NewBuffer(label string, size int, usage webgpu.Usage) (webgpu.Buffer, error) {
	if err := d.enter("new buffer", label); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	size, err := d.reg.CheckBuffer(label, size, usage)
	if err != nil {
		return 0, err
	}
	d.counters.Buffers++
	return d.reg.AddBuffer(label, size, usage, webgpu.NewMemory(size)).Handle, nil
}

// FreeBuffer gives a buffer back.
func (d *Device) FreeBuffer(b webgpu.Buffer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reg.FreeBuffer(b)
}

// NewKernel registers a kernel by its reference.
func (d *Device) NewKernel(src *webgpu.KernelSource) (webgpu.Kernel, error) {
	name := ""
	if src != nil {
		name = src.Name
	}
	if err := d.enter("new kernel", name); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	k, err := d.reg.CheckKernel(src)
	if err != nil {
		return 0, err
	}
	if k != nil {
		return k.Handle, nil
	}
	if src.Reference == nil {
		return 0, fmt.Errorf("cpu: kernel %s has no reference to run on the host", src.Name)
	}
	d.counters.Kernels++
	return d.reg.AddKernel(src, struct{}{}).Handle, nil
}

// NewKernels registers kernels one after another.
func (d *Device) NewKernels(sources []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	kernels := make([]webgpu.Kernel, len(sources))
	for i, src := range sources {
		k, err := d.NewKernel(src)
		if err != nil {
			return nil, err
		}
		kernels[i] = k
	}
	return kernels, nil
}

// NewProgram records dispatches.
func (d *Device) NewProgram(label string, dispatches []webgpu.Dispatch) (webgpu.Program, error) {
	if err := d.enter("new program", label); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	steps, err := d.reg.CheckProgram(label, dispatches)
	if err != nil {
		return 0, err
	}
	rec := make(recorded, len(steps))
	for i, s := range steps {
		views := make([]webgpu.Memory, len(s.Bindings))
		for j, b := range s.Bindings {
			// The capacity ends with the range, so a reference that appends or
			// reslices cannot reach its neighbour's bytes unnoticed.
			lo, hi := b.Offset/4, (b.Offset+b.Size)/4
			views[j] = b.Buffer.Data[lo:hi:hi]
		}
		rec[i] = views
	}
	d.counters.Programs++
	return d.reg.AddProgram(label, steps, rec).Handle, nil
}

// FreeProgram gives a program back.
func (d *Device) FreeProgram(p webgpu.Program) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reg.FreeProgram(p)
}

// Write copies data into the buffer.
func (d *Device) Write(b webgpu.Buffer, offset int, data []byte) error {
	if err := d.enter("write", ""); err != nil {
		return err
	}
	defer d.mu.Unlock()
	buf, err := d.reg.CheckWrite(b, offset, len(data))
	if err != nil {
		return err
	}
	copy(buf.Data.Bytes()[offset:], data)
	d.counters.BytesWritten += int64(len(data))
	return nil
}

// Run replays programs and fills the reads before it returns.
func (d *Device) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	if err := d.enter("run", ""); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if d.watch != nil {
		d.watch(programs)
	}
	run, from, _, err := d.reg.CheckRun(programs, reads)
	if err != nil {
		return err
	}

	// A goroutine of its own does the work, so that Destroy can end this call during a long reference. The
	// goroutine stops before its next dispatch; by then it is the only owner of the memory it holds.
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- d.replay(run) }()
	select {
	case err := <-done:
		if err != nil {
			return err
		}
	case <-d.lost:
		return fmt.Errorf("cpu: run: %w: destroyed", webgpu.ErrDeviceLost)
	}
	d.counters.Submits++
	if len(reads) > 0 {
		d.counters.Reads++
		d.counters.ReadWait += time.Since(start)
	}
	for i, g := range reads {
		copy(g.Dst, from[i].Data.Bytes()[g.Offset:])
		d.counters.BytesRead += int64(len(g.Dst))
	}
	d.yielded = yield(d.yielded)
	return nil
}

func (d *Device) replay(run []*program) error {
	for _, p := range run {
		for i := range p.Steps {
			if d.destroyed.Load() {
				return fmt.Errorf("cpu: run: %w: destroyed", webgpu.ErrDeviceLost)
			}
			if err := dispatch(p, i); err != nil {
				return err
			}
			between()
		}
	}
	return nil
}

// dispatch turns a panic of a reference, an index out of its bindings mostly,
// into an error: on a GPU such a kernel would not take the program down either.
func dispatch(p *program, i int) (err error) {
	s := &p.Steps[i]
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cpu: program %s, dispatch %d, kernel %s: the reference panicked: %v", p.Label, i,
				s.Kernel.Source.Name, r)
		}
	}()
	if s.Groups[0] == 0 || s.Groups[1] == 0 || s.Groups[2] == 0 {
		return nil
	}
	s.Kernel.Source.Reference(s.Groups, p.Data[i])
	return nil
}

// Counters counts since Open.
func (d *Device) Counters() webgpu.Counters {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counters
}

// Destroy loses the device and lets its memory go.
func (d *Device) Destroy() {
	if d.destroyed.Swap(true) {
		return
	}
	close(d.lost)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reg.Each(func(b *buffer) { b.Data = nil },
		func(*registry.Kernel[struct{}]) {},
		func(p *program) {})
}
