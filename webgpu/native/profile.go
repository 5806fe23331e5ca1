//go:build !js

package native

import (
	"fmt"
	"slices"
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

// Profile times dispatches by the duration of submits: the library writes timestamps but does not report their
// unit.
func (d *Device) Profile(h webgpu.Program) (webgpu.Profile, error) {
	if err := d.enter("profile", ""); err != nil {
		return webgpu.Profile{}, err
	}
	defer d.mu.Unlock()
	return d.reg.Profile(h, webgpu.ClockReplays, timing.Coarse, d.timed)
}

// timed runs a dispatch `times` times in one submit and waits for it.
func (d *Device) timed(p *prog, i, times int) (took time.Duration, err error) {
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
		drv.settle(func() bool { return false })
		took = time.Since(begin)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("native: profile of program %s, dispatch %d: %w", p.Label, i, err)
	}
	return took, nil
}
