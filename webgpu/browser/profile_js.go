package browser

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

// Profile times dispatches by timestamp queries, and where there are none by how long submits take.
func (d *Device) Profile(h webgpu.Program) (webgpu.Profile, error) {
	if err := d.enter("profile", ""); err != nil {
		return webgpu.Profile{}, err
	}
	defer d.mu.Unlock()
	clock := webgpu.ClockReplays
	if d.info.Has("timestamp-query") {
		clock = webgpu.ClockTimestamps
	}
	return d.reg.Profile(h, clock, timing.Coarse, d.timed)
}

// timed runs a dispatch `times` times in one pass and returns their total time.
func (d *Device) timed(p *program, i, times int) (time.Duration, error) {
	v, err := d.bridge.request("timed", int(p.Data), i, times)
	if err != nil {
		return 0, fmt.Errorf("browser: profile of program %s, dispatch %d: %w", p.Label, i, err)
	}
	ms, err := v.Float()
	if err != nil {
		return 0, fmt.Errorf("browser: profile of program %s: %w", p.Label, err)
	}
	return time.Duration(ms * float64(time.Millisecond)), nil
}
