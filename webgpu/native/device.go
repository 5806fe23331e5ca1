//go:build !js

package native

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rajveermalviya/go-webgpu/wgpu"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/registry"
)

var (
	_ webgpu.Device        = (*Device)(nil)
	_ webgpu.BatchCompiler = (*Device)(nil)
)

// Options say which adapter to open and how patient to be.
type Options struct {
	Adapter     string        // part of the adapter's name, in any case; empty takes the best
	ReadTimeout time.Duration // how long a call waits for the device; 0 is 30 s, and 5 minutes for a software adapter
}

const openTimeout = 60 * time.Second

// Software adapters compile a kernel at its first run, and a model's pass has dozens. With a cold driver cache and
// little CPU time that takes longer than any wait for hardware.
const (
	readTimeout         = 30 * time.Second
	softwareReadTimeout = 5 * time.Minute
)

// flushAt bounds the bytes of writes that wait for the next Run.
const flushAt = 4 << 20

type (
	reg  = registry.Registry[*wgpu.Buffer, *pipeline, []recorded]
	prog = registry.Program[*wgpu.Buffer, *pipeline, []recorded]
	step = registry.Step[*wgpu.Buffer, *pipeline]
)

// pipeline holds the driver's objects of a kernel.
type pipeline struct {
	module  *wgpu.ShaderModule
	layout  *wgpu.BindGroupLayout
	outer   *wgpu.PipelineLayout
	compute *wgpu.ComputePipeline
}

// recorded is one dispatch ready to be encoded.
type recorded struct {
	pipeline *wgpu.ComputePipeline
	bind     *wgpu.BindGroup
	groups   [3]uint32
}

// Device is a wgpu-native device. webgpu.Device documents its methods.
type Device struct {
	info    webgpu.Info
	timeout time.Duration
	driver  *driver
	jobs    chan job

	lostOnce sync.Once
	lost     chan struct{}         // closed when the device is lost or destroyed
	why      atomic.Pointer[error] // set before lost is closed
	released chan struct{}         // closed when the driver has let everything go
	left     Handles               // of the library then

	mu       sync.Mutex // held by every call but Destroy, Lost and Info
	reg      *reg
	writes   writeQueue
	counters webgpu.Counters
	watch    func([]webgpu.Program) // receives the programs of every run; may be nil
}

// job is work for the driver goroutine; answer has room for one.
type job struct {
	work   func(*driver) error
	answer chan error
}

// Open opens an adapter with the limits it offers.
func Open(o Options) (*Device, error) {
	d := &Device{
		timeout:  o.ReadTimeout,
		jobs:     make(chan job),
		lost:     make(chan struct{}),
		released: make(chan struct{}),
	}
	opened := make(chan error, 1)
	go d.drive(o, opened)
	select {
	case err := <-opened:
		if err != nil {
			return nil, err
		}
	case <-time.After(openTimeout):
		d.lose(errors.New("opening took too long"))
		return nil, fmt.Errorf("native: %w: the driver did not open a device in %v", webgpu.ErrUnavailable, openTimeout)
	}
	if d.timeout <= 0 {
		d.timeout = readTimeout
		if d.info.Software {
			d.timeout = softwareReadTimeout
		}
	}
	d.reg = registry.New[*wgpu.Buffer, *pipeline, []recorded](d.info.Limits)
	return d, nil
}

// drive is the driver goroutine: it opens the device, serves jobs until the device is lost, and releases the
// driver's objects.
func (d *Device) drive(o Options, opened chan<- error) {
	defer close(d.released)
	drv, err := openDriver(o)
	if err != nil {
		opened <- err
		return
	}
	d.driver, d.info = drv, drv.info
	drv.lost = d.lost
	opened <- nil
	defer func() { d.left = drv.release() }()
	for {
		select {
		case <-d.lost:
			return
		case j := <-d.jobs:
			err := serve(drv, j.work)
			if errors.Is(err, webgpu.ErrDeviceLost) {
				d.lose(err)
			}
			j.answer <- err
		}
	}
}

// serve does one job. The binding panics where it has no error to return.
func serve(drv *driver, work func(*driver) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the binding panicked: %v", r)
		}
	}()
	if err := work(drv); err != nil {
		return err
	}
	return plain(drv.mail.take())
}

// do has the driver goroutine work, and waits for it: not longer than the timeout, and not once the device is lost.
func (d *Device) do(work func(*driver) error) error {
	timer := time.NewTimer(d.timeout)
	defer timer.Stop()
	j := job{work, make(chan error, 1)}
	select {
	case d.jobs <- j:
	case <-d.lost:
		return *d.why.Load()
	case <-timer.C:
		return fmt.Errorf("%w: still busy after %v", webgpu.ErrTimeout, d.timeout)
	}
	select {
	case err := <-j.answer:
		return err
	case <-d.lost:
		return *d.why.Load()
	case <-timer.C:
		return fmt.Errorf("%w: waited %v", webgpu.ErrTimeout, d.timeout)
	}
}

// hand is do for work that takes the queued writes along. The queue changes
// owner, so a call that gave up early leaves the driver goroutine its own.
func (d *Device) hand(work func(*driver, *writeQueue) error) error {
	w := d.writes
	d.writes = writeQueue{}
	err := d.do(func(drv *driver) error { return work(drv, &w) })
	if !errors.Is(err, webgpu.ErrTimeout) && !errors.Is(err, webgpu.ErrDeviceLost) {
		w.reset()
		d.writes = w
	}
	return err
}

func (d *Device) lose(why error) {
	d.lostOnce.Do(func() {
		d.why.Store(&why)
		close(d.lost)
	})
}

// Lost reports why the device is lost, or nil.
func (d *Device) Lost() error {
	select {
	case <-d.lost:
		return fmt.Errorf("native: %w", *d.why.Load())
	default:
		return nil
	}
}

// Info describes the adapter.
func (d *Device) Info() webgpu.Info { return d.info }

// enter takes the lock, or fails on a lost device.
func (d *Device) enter(what, label string) error {
	d.mu.Lock()
	if err := d.Lost(); err != nil {
		d.mu.Unlock()
		return fmt.Errorf("%s %s: %w", what, label, err)
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
	var made *wgpu.Buffer
	err = d.do(func(drv *driver) (err error) {
		made, err = drv.newBuffer(label, size, usage)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("native: buffer %s of %d bytes: %w", label, size, err)
	}
	d.counters.Buffers++
	return d.reg.AddBuffer(label, size, usage, made).Handle, nil
}

// FreeBuffer gives a buffer back.
func (d *Device) FreeBuffer(h webgpu.Buffer) {
	if d.enter("free buffer", "") != nil {
		return // the driver goroutine frees all that a lost device held
	}
	defer d.mu.Unlock()
	if b := d.reg.FreeBuffer(h); b != nil {
		d.writes.forget(b.Data)
		_ = d.do(func(drv *driver) error { drv.freeBuffer(b.Data); return nil })
	}
}

// NewKernel compiles a kernel once per key.
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
	var made *pipeline
	err = d.do(func(drv *driver) (err error) {
		made, err = drv.newPipeline(src)
		return err
	})
	if shader := (*webgpu.ShaderError)(nil); errors.As(err, &shader) {
		return 0, fmt.Errorf("native: %w", err) // it names the kernel
	}
	if err != nil {
		return 0, fmt.Errorf("native: kernel %s: %w", src.Name, err)
	}
	d.counters.Kernels++
	return d.reg.AddKernel(src, made).Handle, nil
}

// NewKernels compiles kernels one after another: the library compiles on the calling thread only.
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

// NewProgram records dispatches. It encodes them once without submitting, so that the driver refuses a bad one here
// and not in Run.
func (d *Device) NewProgram(label string, dispatches []webgpu.Dispatch) (webgpu.Program, error) {
	if err := d.enter("new program", label); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	steps, err := d.reg.CheckProgram(label, dispatches)
	if err != nil {
		return 0, err
	}
	var made []recorded
	err = d.do(func(drv *driver) (err error) {
		made, err = drv.record(steps)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("native: program %s: %w", label, err)
	}
	d.counters.Programs++
	return d.reg.AddProgram(label, steps, made).Handle, nil
}

// FreeProgram gives a program's bind groups back.
func (d *Device) FreeProgram(h webgpu.Program) {
	if d.enter("free program", "") != nil {
		return
	}
	defer d.mu.Unlock()
	if p := d.reg.FreeProgram(h); p != nil {
		_ = d.do(func(drv *driver) error { drv.freeProgram(p.Data); return nil })
	}
}

// Write queues bytes for the next Run.
func (d *Device) Write(h webgpu.Buffer, offset int, data []byte) error {
	if err := d.enter("write", ""); err != nil {
		return err
	}
	defer d.mu.Unlock()
	b, err := d.reg.CheckWrite(h, offset, len(data))
	if err != nil {
		return err
	}
	d.counters.BytesWritten += int64(len(data))
	for len(data) > 0 {
		n := min(len(data), flushAt)
		d.writes.add(b.Data, b.Label, offset, data[:n])
		data, offset = data[n:], offset+n
		if d.writes.size() >= flushAt {
			if err := d.hand(func(drv *driver, w *writeQueue) error { return drv.flush(w) }); err != nil {
				return fmt.Errorf("native: write to buffer %s: %w", b.Label, err)
			}
		}
	}
	return nil
}

// Run replays programs in one submit.
func (d *Device) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	if err := d.enter("run", ""); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if d.watch != nil {
		d.watch(programs)
	}
	run, from, total, err := d.reg.CheckRun(programs, reads)
	if err != nil {
		return err
	}
	copies := make([]copyOut, len(reads))
	for i, g := range reads {
		copies[i] = copyOut{from[i].Data, g.Offset, len(g.Dst)}
	}
	run = slices.Clone(run) // the driver goroutine may still read it when this call has given up
	result := &readback{}
	err = d.hand(func(drv *driver, w *writeQueue) error { return drv.run(w, run, copies, result) })
	if err != nil {
		return fmt.Errorf("native: run %s: %w", registry.Labels(run), err)
	}
	d.counters.Submits++
	d.counters.Buffers += result.grown
	if total == 0 {
		return nil
	}
	d.counters.Reads++
	d.counters.ReadWait += result.wait
	// The driver goroutine copies into memory of its own and not into Dst: if this call gave up early, Dst would
	// belong to the caller again.
	at := 0
	for _, g := range reads {
		at += copy(g.Dst, result.data[at:])
		d.counters.BytesRead += int64(len(g.Dst))
	}
	return nil
}

// Counters counts since Open. Growth of the staging buffer counts as a creation.
func (d *Device) Counters() webgpu.Counters {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counters
}

// Destroy loses the device. The driver's objects are released once the driver has finished its work; Destroy waits
// at most a second for that.
func (d *Device) Destroy() {
	d.lose(fmt.Errorf("%w: destroyed", webgpu.ErrDeviceLost))
	select {
	case <-d.released:
	case <-time.After(time.Second):
	}
}
