package reference

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/registry"
	"foretoken/webgpu/internal/timing"
)

var (
	_ webgpu.Device        = (*Device)(nil)
	_ webgpu.BatchCompiler = (*Device)(nil)
	_ webgpu.Profiler      = (*Device)(nil)
)

type (
	buffer  = registry.Buffer[webgpu.Memory]
	program = registry.Program[webgpu.Memory, struct{}, recorded]
	shared  = registry.Device[webgpu.Memory, struct{}, recorded]
)

// recorded holds the memory views of each step's bindings, so that a replay makes nothing.
type recorded [][]webgpu.Memory

// Device runs reference kernels. webgpu.Device documents its methods.
type Device struct {
	*shared
	lost      chan struct{} // closed by Destroy
	destroyed atomic.Bool
	yielded   time.Time
}

// backend implements registry.Backend on a Device.
type backend Device

// Open makes a reference device. It always succeeds.
func Open() *Device {
	d := &Device{lost: make(chan struct{}), yielded: time.Now()}
	d.shared = registry.NewDevice("reference", limits(), (*backend)(d))
	return d
}

// limits are the default ones on purpose: what runs here then runs on every device. Only the invocations and
// workgroup memory of a shader go unchecked, because references have none.
func limits() webgpu.Limits { return webgpu.DefaultLimits() }

// Info describes the host.
func (d *Device) Info() webgpu.Info {
	return webgpu.Info{
		Backend:      "reference",
		Adapter:      fmt.Sprintf("Go reference kernels (%s, %d threads)", runtime.GOARCH, runtime.GOMAXPROCS(0)),
		Architecture: runtime.GOARCH,
		Driver:       runtime.Version(),
		Software:     true,
		Limits:       limits(),
	}
}

func (d *backend) Lost() error {
	if d.destroyed.Load() {
		return fmt.Errorf("%w: destroyed", webgpu.ErrDeviceLost)
	}
	return nil
}

func (d *backend) Late() error { return nil }

func (d *backend) MakeBuffer(_ string, size int, _ webgpu.Usage) (webgpu.Memory, error) {
	return webgpu.NewMemory(size), nil
}

func (d *backend) DropBuffer(*buffer) {}

func (d *backend) MakeKernels(sources []*webgpu.KernelSource) ([]struct{}, []error) {
	failed := make([]error, len(sources))
	for i, src := range sources {
		if src.Reference == nil {
			failed[i] = fmt.Errorf("kernel %s has no reference to run on the host", src.Name)
		}
	}
	return make([]struct{}, len(sources)), failed
}

func (d *backend) MakeProgram(_ string, steps []registry.Step[webgpu.Memory, struct{}]) (recorded, error) {
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
	return rec, nil
}

func (d *backend) DropProgram(recorded) {}

func (d *backend) PutBytes(b *buffer, offset int, data []byte) error {
	copy(b.Data.Bytes()[offset:], data)
	return nil
}

func (d *backend) Replay(
	run []*program, from []*buffer, reads []webgpu.Region, _ int,
) (registry.Replayed, error) {
	// A goroutine of its own does the work, so that Destroy can end this call during a long reference. The
	// goroutine stops before its next dispatch; by then it is the only owner of the memory it holds.
	start := time.Now()
	done := make(chan error, 1)
	go func() { done <- d.replay(run) }()
	select {
	case err := <-done:
		if err != nil {
			return registry.Replayed{}, err
		}
	case <-d.lost:
		return registry.Replayed{}, d.Lost()
	}
	wait := time.Since(start)
	for i, g := range reads {
		copy(g.Dst, from[i].Data.Bytes()[g.Offset:])
	}
	d.yielded = yield(d.yielded)
	return registry.Replayed{Wait: wait}, nil
}

func (d *backend) replay(run []*program) error {
	for _, p := range run {
		for i := range p.Steps {
			if err := d.Lost(); err != nil {
				return err
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
			err = fmt.Errorf("program %s, dispatch %d, kernel %s: the reference panicked: %v", p.Label, i,
				s.Kernel.Source.Name, r)
		}
	}()
	if s.Groups[0] == 0 || s.Groups[1] == 0 || s.Groups[2] == 0 {
		return nil
	}
	s.Kernel.Source.Reference(s.Groups, p.Data[i])
	return nil
}

func (d *backend) Clock() (string, time.Duration) { return webgpu.ClockHost, timing.Fine }

func (d *backend) Time(p *program, i, times int) (time.Duration, error) {
	begin := time.Now()
	for range times {
		if err := d.Lost(); err != nil {
			return 0, err
		}
		if err := dispatch(p, i); err != nil {
			return 0, err
		}
	}
	return time.Since(begin), nil
}

// Destroy loses the device and lets its memory go.
func (d *Device) Destroy() {
	if d.destroyed.Swap(true) {
		return
	}
	close(d.lost)
	d.Release(func(b *buffer) { b.Data = nil })
}
