package tune

import (
	"slices"
	"time"

	"foretoken/webgpu"
)

// maxRepeats bounds how often a submit runs a program.
const maxRepeats = 256

// Timer times programs on a device. A submit runs one so often that the wait for the submit, which varies and is
// subtracted, matters little: in a browser it takes milliseconds, and a product microseconds.
type Timer struct {
	Device webgpu.Device
	Read   webgpu.Region // to wait for a submit
	Budget time.Duration // of all submits; 0: as long as they take
	wait   time.Duration // of a submit without programs
	spent  time.Duration
}

// over reports whether the budget is spent.
func (t *Timer) over() bool { return t.Budget > 0 && t.spent > t.Budget }

// submit runs a program so many times and returns the time, the wait included.
func (t *Timer) submit(p webgpu.Program, repeat int) (time.Duration, error) {
	begin := time.Now()
	err := t.Device.Run(slices.Repeat([]webgpu.Program{p}, repeat), t.Read)
	return time.Since(begin), err
}

// Begin runs a program until it has got no faster for some time, at most twice that, and measures the wait for a
// submit. A GPU that was idle raises its clock under load: an H200 kept a fifth of it for half a second.
func (t *Timer) Begin(p webgpu.Program, settled time.Duration) error {
	begin, best, faster := time.Now(), time.Duration(1<<62), time.Now()
	for repeat := 1; time.Since(faster) < settled && time.Since(begin) < 2*settled; {
		took, err := t.submit(p, repeat)
		if err != nil {
			return err
		}
		if took > settled/4 { // too slow to be a matter of clocks
			break
		}
		if each := took / time.Duration(repeat); float64(each) < 0.95*float64(best) {
			best, faster = each, time.Now()
		}
		if took < time.Millisecond {
			repeat = min(2*repeat, maxRepeats)
		}
	}
	t.wait = 1 << 62
	for range 5 {
		took, err := t.submit(p, 0)
		if err != nil {
			return err
		}
		t.wait = min(t.wait, took)
	}
	return nil
}

// Cost returns the shortest of several submits that run a program so many times, without the wait for a submit. The
// budget ends it early.
func (t *Timer) Cost(p webgpu.Program, repeat, submits int) (time.Duration, error) {
	best := time.Duration(1 << 62)
	for range submits {
		if t.over() {
			break
		}
		took, err := t.submit(p, repeat)
		if err != nil {
			return 0, err
		}
		t.spent += took
		best = min(best, took)
	}
	return max(best-t.wait, 1), nil
}

// Repeats returns how often a submit has to run a program, which takes so long once, to take some time or more, as far
// as maxRepeats and the budget allow.
func (t *Timer) Repeats(p webgpu.Program, once, enough time.Duration) (repeat int, err error) {
	repeat = 1
	for took := once; took < enough && repeat < maxRepeats && !t.over(); {
		repeat *= 2
		if took, err = t.Cost(p, repeat, 1); err != nil {
			return 0, err
		}
	}
	return repeat, nil
}
