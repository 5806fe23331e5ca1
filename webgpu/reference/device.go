package reference

import (
	"fmt"
	"runtime"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/host"
	"foretoken/webgpu/internal/registry"
)

var (
	_ webgpu.Device   = (*Device)(nil)
	_ webgpu.Profiler = (*Device)(nil)
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
	life *host.Life[*program]
}

// backend implements registry.Backend on a Device.
type backend Device

// Open makes a reference device. It always succeeds.
func Open() *Device {
	d := &Device{}
	d.life = host.NewLife((*backend)(d).replay)
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

func (d *backend) Lost() error { return d.life.Lost() }

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
	wait, err := d.life.Run(run, func() {
		for i, g := range reads {
			copy(g.Dst, from[i].Data.Bytes()[g.Offset:])
		}
	})
	return registry.Replayed{Wait: wait}, err
}

func (d *backend) replay(run []*program) error {
	for _, p := range run {
		for i := range p.Steps {
			if err := d.dispatch(p, i); err != nil {
				return err
			}
			runtime.Gosched() // WebAssembly has one thread
		}
	}
	return nil
}

func (d *backend) dispatch(p *program, i int) error {
	if err := d.Lost(); err != nil {
		return err
	}
	return host.Reference(p.Label, i, p.Steps[i].Kernel.Source, p.Steps[i].Groups, p.Data[i])
}

func (d *backend) Clock() (string, time.Duration) { return host.Clock() }

func (d *backend) Time(p *program, i, times int) (time.Duration, error) {
	return host.Time(times, func() error { return d.dispatch(p, i) })
}

// Destroy loses the device and lets its memory go.
func (d *Device) Destroy() {
	if d.life.End() {
		d.Release()
	}
}
