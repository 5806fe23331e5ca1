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
	p, err := d.reg.CheckProgramRun(h)
	if err != nil {
		return webgpu.Profile{}, err
	}
	out := webgpu.Profile{Program: p.Label, Clock: webgpu.ClockTimestamps}
	idle := time.Duration(0)
	if !d.info.Has("timestamp-query") {
		out.Clock = webgpu.ClockReplays
		if idle, err = timing.Idle(func(times int) (time.Duration, error) { return d.timed(p, 0, times) }); err != nil {
			return out, err
		}
	}
	err = p.Times(&out, func(i int) (time.Duration, int, error) {
		return timing.Dispatch(timing.Coarse, idle, func(times int) (time.Duration, error) { return d.timed(p, i, times) })
	})
	return out, err
}

// timed runs a dispatch so many times in one pass and tells how long that took.
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
