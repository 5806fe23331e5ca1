//go:build cgo && !js

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
	"foretoken/webgpu/internal/timing"
)

var (
	_ webgpu.Device   = (*Device)(nil)
	_ webgpu.Profiler = (*Device)(nil)
)

// Options of a device; the zero value opens the best adapter.
type Options struct {
	ReadTimeout time.Duration // how long a call waits for the device; 0 is 30 s, and 5 minutes for a software adapter
	Null        bool          // open an adapter that only compiles, for `make gpu-audit`; others are then not opened
}

const openTimeout = 60 * time.Second

type (
	shared     = registry.Device[*wgpu.Buffer, *pipeline, []recorded]
	buffer     = registry.Buffer[*wgpu.Buffer]
	prog       = registry.Program[*wgpu.Buffer, *pipeline, []recorded]
	step       = registry.Step[*wgpu.Buffer, *pipeline]
	writeQueue = registry.Writes[*wgpu.Buffer]
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
	*shared
	info    webgpu.Info
	timeout time.Duration
	driver  *driver
	jobs    chan job

	lostOnce sync.Once
	lost     chan struct{}         // closed when the device is lost or destroyed
	why      atomic.Pointer[error] // set before lost is closed
	released chan struct{}         // closed when the driver has let everything go
	left     Handles               // of the library then
	writes   writeQueue
}

// backend implements registry.Backend on a Device.
type backend Device

// job is work for the driver goroutine; answer has room for one.
type job struct {
	work   func(*driver) error
	answer chan error
}

// Open opens an adapter with the limits it offers.
func Open(o Options) (*Device, error) {
	d := &Device{
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
	d.timeout = registry.Timeout(o.ReadTimeout, d.info.Software)
	d.shared = registry.NewDevice("native", d.info.Limits, (*backend)(d))
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
func (d *backend) do(work func(*driver) error) error {
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
func (d *backend) hand(work func(*driver, *writeQueue) error) error {
	w := d.writes
	d.writes = writeQueue{}
	err := d.do(func(drv *driver) error { return work(drv, &w) })
	if !errors.Is(err, webgpu.ErrTimeout) && !errors.Is(err, webgpu.ErrDeviceLost) {
		w.Reset()
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

// Info describes the adapter.
func (d *Device) Info() webgpu.Info { return d.info }

func (d *backend) Lost() error {
	select {
	case <-d.lost:
		return *d.why.Load()
	default:
		return nil
	}
}

func (d *backend) Late() error { return nil }

// makeBy is do for work with a result.
func makeBy[T any](d *backend, work func(*driver) (T, error)) (made T, err error) {
	err = d.do(func(drv *driver) (err error) {
		made, err = work(drv)
		return err
	})
	return made, err
}

func (d *backend) MakeBuffer(label string, size int, usage webgpu.Usage) (*wgpu.Buffer, error) {
	return makeBy(d, func(drv *driver) (*wgpu.Buffer, error) { return drv.newBuffer(label, size, usage) })
}

func (d *backend) DropBuffer(b *buffer) {
	d.writes.Forget(b)
	_ = d.do(func(drv *driver) error { drv.freeBuffer(b.Data); return nil })
}

// MakeKernels compiles kernels one after another: the library compiles on the calling thread only.
func (d *backend) MakeKernels(sources []*webgpu.KernelSource) ([]*pipeline, []error) {
	made, failed := make([]*pipeline, len(sources)), make([]error, len(sources))
	for i, src := range sources {
		p, err := makeBy(d, func(drv *driver) (*pipeline, error) { return drv.newPipeline(src) })
		if shader := (*webgpu.ShaderError)(nil); err != nil && !errors.As(err, &shader) { // that one names the kernel
			err = fmt.Errorf("kernel %s: %w", src.Name, err)
		}
		made[i], failed[i] = p, err
	}
	return made, failed
}

// MakeProgram encodes the dispatches once without submitting, so that the driver refuses a bad one here and not in
// Replay.
func (d *backend) MakeProgram(_ string, steps []step) ([]recorded, error) {
	return makeBy(d, func(drv *driver) ([]recorded, error) { return drv.record(steps) })
}

func (d *backend) DropProgram(made []recorded) {
	_ = d.do(func(drv *driver) error { drv.freeProgram(made); return nil })
}

func (d *backend) PutBytes(b *buffer, offset int, data []byte) error {
	return d.writes.Put(b, offset, data, func() error {
		return d.hand(func(drv *driver, w *writeQueue) error { return drv.flush(w) })
	})
}

func (d *backend) Replay(
	run []*prog, from []*buffer, reads []webgpu.Region, _ int,
) (registry.Replayed, error) {
	copies := make([]copyOut, len(reads))
	for i, g := range reads {
		copies[i] = copyOut{from[i].Data, g.Offset, len(g.Dst)}
	}
	run = slices.Clone(run) // the driver goroutine may still read it when this call has given up
	result := &readback{}
	err := d.hand(func(drv *driver, w *writeQueue) error { return drv.run(w, run, copies, result) })
	if err != nil {
		return registry.Replayed{}, err
	}
	// The driver goroutine copies into its memory and not into Dst: if this call gave up early, Dst would belong to the
	// caller again.
	at := 0
	for _, g := range reads {
		at += copy(g.Dst, result.data[at:])
	}
	return result.Replayed, nil
}

// Clock says that dispatches are timed by the duration of submits: the library writes timestamps but does not report
// their unit.
func (d *backend) Clock() (string, time.Duration) { return webgpu.ClockReplays, timing.Coarse }

// Time runs the dispatch in one submit and waits for it.
func (d *backend) Time(p *prog, i, times int) (took time.Duration, err error) {
	var commands [][]recorded
	if times > 0 {
		commands = [][]recorded{slices.Repeat(p.Data[i:i+1], times)}
	}
	err = d.hand(func(drv *driver, w *writeQueue) error {
		if err := drv.flush(w); err != nil {
			return err
		}
		buffer, err := drv.encode(commands, nil)
		if err != nil {
			return err
		}
		defer buffer.Release()
		begin := time.Now()
		drv.queue.Submit(buffer)
		drv.poll(func() bool { return false })
		took = time.Since(begin)
		return nil
	})
	return took, err
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
