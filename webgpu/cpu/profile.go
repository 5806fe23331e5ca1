package cpu

import (
	"fmt"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/timing"
)

var _ webgpu.Profiler = (*Device)(nil)

// Watch has f called with the programs of every later Run.
func (d *Device) Watch(f func(programs []webgpu.Program)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.watch = f
}

// Profile times the references.
func (d *Device) Profile(h webgpu.Program) (webgpu.Profile, error) {
	if err := d.enter("profile", ""); err != nil {
		return webgpu.Profile{}, err
	}
	defer d.mu.Unlock()
	return d.reg.Profile(h, webgpu.ClockHost, timing.Fine, func(p *program, i, times int) (time.Duration, error) {
		begin := time.Now()
		for range times {
			if d.destroyed.Load() {
				return 0, fmt.Errorf("cpu: profile: %w: destroyed", webgpu.ErrDeviceLost)
			}
			if err := dispatch(p, i); err != nil {
				return 0, err
			}
		}
		return time.Since(begin), nil
	})
}
