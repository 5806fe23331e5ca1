package registry

import (
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/timing"
)

// Profile times each dispatch of a program that may run now. timed runs dispatch i `times` times and returns their
// total time. Under ClockReplays the constant part is subtracted: the submit and the wait for it.
func (r *Registry[B, K, P]) Profile(h webgpu.Program, clock string, least time.Duration,
	timed func(p *Program[B, K, P], i, times int) (time.Duration, error)) (webgpu.Profile, error) {
	p, err := r.CheckProgramRun(h)
	if err != nil {
		return webgpu.Profile{}, err
	}
	out := webgpu.Profile{Program: p.Label, Clock: clock}
	idle := time.Duration(0)
	if clock == webgpu.ClockReplays {
		if idle, err = timing.Idle(func(times int) (time.Duration, error) { return timed(p, 0, times) }); err != nil {
			return out, err
		}
	}
	for i, s := range p.Steps {
		each, times, err := timing.Dispatch(least, idle,
			func(times int) (time.Duration, error) { return timed(p, i, times) })
		if err != nil {
			return out, err
		}
		out.Dispatches = append(out.Dispatches, webgpu.DispatchTime{Kernel: s.Kernel.Source.Name,
			Key: s.Kernel.Source.Key, Groups: s.Groups, Time: each, Times: times})
	}
	return out, nil
}
