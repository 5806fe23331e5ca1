package registry

import (
	"fmt"
	"sync"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/timing"
)

// Backend implements one kind of device. Device checks the arguments of every call and holds the lock while a Backend
// works.
type Backend[B, K, P any] interface {
	// Lost reports why the device is lost, or nil. It is called without the lock, too.
	Lost() error
	// Late returns an error of an earlier call that the driver reported after that call had returned, and forgets it.
	Late() error
	// MakeBuffer makes a zeroed buffer of size bytes.
	MakeBuffer(label string, size int, usage webgpu.Usage) (B, error)
	DropBuffer(*Buffer[B])
	// MakeKernels compiles sources with keys that differ. One of the two results of each is valid.
	MakeKernels([]*webgpu.KernelSource) ([]K, []error)
	// MakeProgram records checked dispatches.
	MakeProgram(label string, steps []Step[B, K]) (P, error)
	DropProgram(P)
	// PutBytes has bytes in a buffer before the next run.
	PutBytes(b *Buffer[B], offset int, data []byte) error
	// Replay runs programs in order and fills the Dst of each read, total bytes in all, from the buffer of the same
	// index. The slices belong to the Device.
	Replay(run []*Program[B, K, P], from []*Buffer[B], reads []webgpu.Region, total int) (Replayed, error)
	// Clock names the clock of Time, and gives the least time that it can measure.
	Clock() (string, time.Duration)
	// Time runs dispatch i of a program `times` times and returns their total time.
	Time(p *Program[B, K, P], i, times int) (time.Duration, error)
}

// Replayed holds the counters of a Replay.
type Replayed struct {
	Wait    time.Duration // for the reads
	Buffers int           // made for them
	// Fallbacks counts dispatches that ran their Reference in place of the device's own kernel.
	Fallbacks int
}

// Device is the part that all devices share: the lock, the handles, the checks, the counters and the watcher. It has
// the methods of webgpu.Device that can fail by a caller's mistake. Handles are never used twice.
type Device[B, K, P any] struct {
	backend Backend[B, K, P]
	name    string     // prefix of errors
	mu      sync.Mutex // held by every call but Destroy's first step, Lost and Info
	count   webgpu.Counters
	watch   func([]webgpu.Program) // receives the programs of every run; may be nil

	limits   webgpu.Limits
	buffers  map[webgpu.Buffer]*Buffer[B]
	kernels  map[webgpu.Kernel]*Kernel[K]
	byKey    map[string]*Kernel[K]
	programs map[webgpu.Program]*Program[B, K, P]
	buffer   webgpu.Buffer  // last handle given
	program  webgpu.Program // last handle given
	frees    uint64

	run  []*Program[B, K, P] // what checkRun resolved
	from []*Buffer[B]
}

// NewDevice makes the shared part of a device, whose errors begin with name.
func NewDevice[B, K, P any](name string, limits webgpu.Limits, backend Backend[B, K, P]) *Device[B, K, P] {
	return &Device[B, K, P]{
		backend: backend, name: name, limits: limits,
		buffers: map[webgpu.Buffer]*Buffer[B]{}, programs: map[webgpu.Program]*Program[B, K, P]{},
		kernels: map[webgpu.Kernel]*Kernel[K]{}, byKey: map[string]*Kernel[K]{},
	}
}

// Lost reports why the device is lost, or nil.
func (d *Device[B, K, P]) Lost() error {
	if err := d.backend.Lost(); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

// Enter takes the lock, or fails on a lost device or with an error that came late.
func (d *Device[B, K, P]) Enter(what, label string) error {
	d.mu.Lock()
	err := d.backend.Lost()
	if err == nil {
		if err = d.backend.Late(); err != nil {
			err = fmt.Errorf("reported late, before this call: %w", err)
		}
	}
	if err != nil {
		d.mu.Unlock()
		return fmt.Errorf("%s: %s %s: %w", d.name, what, label, err)
	}
	return nil
}

// Leave gives the lock of Enter back.
func (d *Device[B, K, P]) Leave() { d.mu.Unlock() }

// NewBuffer makes a zeroed buffer.
func (d *Device[B, K, P]) NewBuffer(label string, size int, usage webgpu.Usage) (webgpu.Buffer, error) {
	if err := d.Enter("new buffer", label); err != nil {
		return 0, err
	}
	defer d.Leave()
	size, err := d.checkBuffer(label, size, usage)
	if err != nil {
		return 0, err
	}
	made, err := d.backend.MakeBuffer(label, size, usage)
	if err != nil {
		return 0, fmt.Errorf("%s: buffer %s of %d bytes: %w", d.name, label, size, err)
	}
	d.count.Buffers++
	return d.addBuffer(label, size, usage, made).Handle, nil
}

// FreeBuffer gives a buffer back. What a lost device held is freed with it.
func (d *Device[B, K, P]) FreeBuffer(h webgpu.Buffer) {
	d.mu.Lock()
	defer d.Leave()
	if d.backend.Lost() != nil {
		return
	}
	if b := d.freeBuffer(h); b != nil {
		d.backend.DropBuffer(b)
	}
}

// NewKernels compiles kernels once per key.
func (d *Device[B, K, P]) NewKernels(sources []*webgpu.KernelSource) ([]webgpu.Kernel, error) {
	what := ""
	if len(sources) > 0 && sources[0] != nil {
		what = sources[0].Name
	}
	if err := d.Enter("new kernel", what); err != nil {
		return nil, err
	}
	defer d.Leave()
	var missing []*webgpu.KernelSource
	listed := map[string]bool{}
	for _, src := range sources {
		k, err := d.CheckKernel(src)
		if err != nil {
			return nil, err
		}
		if k == nil && !listed[src.Key] {
			listed[src.Key] = true
			missing = append(missing, src)
		}
	}
	var failed error
	made, failures := d.backend.MakeKernels(missing)
	for i, src := range missing {
		if failures[i] == nil {
			d.count.Kernels++
			d.addKernel(src, made[i])
		} else if failed == nil {
			failed = failures[i]
		}
	}
	if failed != nil {
		return nil, fmt.Errorf("%s: %w", d.name, failed)
	}
	kernels := make([]webgpu.Kernel, len(sources))
	for i, src := range sources {
		k, err := d.CheckKernel(src) // again: one key may have come with two sources
		if err != nil {
			return nil, err
		}
		kernels[i] = k.Handle
	}
	return kernels, nil
}

// NewProgram records dispatches.
func (d *Device[B, K, P]) NewProgram(label string, dispatches []webgpu.Dispatch) (webgpu.Program, error) {
	if err := d.Enter("new program", label); err != nil {
		return 0, err
	}
	defer d.Leave()
	steps, err := d.checkProgram(label, dispatches)
	if err != nil {
		return 0, err
	}
	made, err := d.backend.MakeProgram(label, steps)
	if err != nil {
		return 0, fmt.Errorf("%s: program %s: %w", d.name, label, err)
	}
	d.count.Programs++
	return d.addProgram(label, steps, made).Handle, nil
}

// FreeProgram gives a program's bind groups back.
func (d *Device[B, K, P]) FreeProgram(h webgpu.Program) {
	d.mu.Lock()
	defer d.Leave()
	if d.backend.Lost() != nil {
		return
	}
	if p := d.programs[h]; p != nil {
		delete(d.programs, h)
		d.backend.DropProgram(p.Data)
	}
}

// Write has bytes in the buffer before the next Run.
func (d *Device[B, K, P]) Write(h webgpu.Buffer, offset int, data []byte) error {
	if err := d.Enter("write", ""); err != nil {
		return err
	}
	defer d.Leave()
	b, err := d.checkWrite(h, offset, len(data))
	if err != nil {
		return err
	}
	d.count.BytesWritten += int64(len(data))
	if err := d.backend.PutBytes(b, offset, data); err != nil {
		return fmt.Errorf("%s: write to buffer %s: %w", d.name, b.Label, err)
	}
	return nil
}

// Run replays programs and fills the reads.
func (d *Device[B, K, P]) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	if err := d.Enter("run", ""); err != nil {
		return err
	}
	defer d.Leave()
	if d.watch != nil {
		d.watch(programs)
	}
	run, from, total, err := d.checkRun(programs, reads)
	if err != nil {
		return err
	}
	done, err := d.backend.Replay(run, from, reads, total)
	if err != nil {
		return fmt.Errorf("%s: run %s: %w", d.name, labels(run), err)
	}
	d.count.Submits++
	d.count.Buffers += done.Buffers
	d.count.Fallbacks += done.Fallbacks
	if total > 0 {
		d.count.Reads++
		d.count.ReadWait += done.Wait
		d.count.BytesRead += int64(total)
	}
	return nil
}

// Counters counts since the device was opened. Growth of a staging buffer counts as a creation.
func (d *Device[B, K, P]) Counters() webgpu.Counters {
	d.mu.Lock()
	defer d.Leave()
	return d.count
}

// Watch has f called with the programs of every later Run.
func (d *Device[B, K, P]) Watch(f func(programs []webgpu.Program)) {
	d.mu.Lock()
	defer d.Leave()
	d.watch = f
}

// Profile times each dispatch of a program that may run now. Under ClockReplays the constant part is subtracted: the
// submit and the wait for it.
func (d *Device[B, K, P]) Profile(h webgpu.Program) (webgpu.Profile, error) {
	if err := d.Enter("profile", ""); err != nil {
		return webgpu.Profile{}, err
	}
	defer d.Leave()
	p, err := d.checkProgramRun(h)
	if err != nil {
		return webgpu.Profile{}, err
	}
	clock, least := d.backend.Clock()
	repeat := func(i int) func(int) (time.Duration, error) {
		return func(times int) (time.Duration, error) {
			took, err := d.backend.Time(p, i, times)
			if err != nil {
				err = fmt.Errorf("%s: profile of program %s, dispatch %d: %w", d.name, p.Label, i, err)
			}
			return took, err
		}
	}
	out := webgpu.Profile{Program: p.Label, Clock: clock}
	idle := time.Duration(0)
	if clock == webgpu.ClockReplays {
		if idle, err = timing.Idle(repeat(0)); err != nil {
			return out, err
		}
	}
	for i, s := range p.Steps {
		each, times, err := timing.Dispatch(least, idle, repeat(i))
		if err != nil {
			return out, err
		}
		out.Dispatches = append(out.Dispatches, webgpu.DispatchTime{Kernel: s.Kernel.Source.Name,
			Key: s.Kernel.Source.Key, Groups: s.Groups, Time: each, Times: times})
	}
	return out, nil
}

// Release forgets the objects of a device that was destroyed.
func (d *Device[B, K, P]) Release() {
	d.mu.Lock()
	defer d.Leave()
	d.run, d.from = nil, nil
	clear(d.programs)
	clear(d.kernels)
	clear(d.byKey)
	clear(d.buffers)
}
