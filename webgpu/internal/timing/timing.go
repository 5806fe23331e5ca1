// Package timing repeats a dispatch until a coarse clock can tell what it takes.
package timing

import "time"

const (
	// Coarse is how long repetitions take together at least under a clock of 100 µs, as browsers'
	// are, or beside a submit that takes as long; Fine where the clock is the host's.
	Coarse = 8 * time.Millisecond
	Fine   = 100 * time.Microsecond

	most = 1 << 14 // repetitions: a dispatch of no workgroups takes next to nothing
	runs = 3
)

// Dispatch finds the time of one dispatch. run does it so many times and tells how long
// that took; idle is what run takes without any, and is left out. They take least together. Of several runs the
// shortest counts: what else the machine does only adds to it.
func Dispatch(least, idle time.Duration, run func(times int) (time.Duration, error)) (each time.Duration, times int, err error) {
	times = 1
	shortest := time.Duration(-1)
	for n := 0; n < runs; {
		took, err := run(times)
		if err != nil {
			return 0, times, err
		}
		took = max(took-idle, 0)
		if took < least && times < most {
			grow := 16.0
			if took > 0 {
				grow = min(max(1.2*float64(least)/float64(took), 2), grow)
			}
			times = min(int(grow*float64(times))+1, most)
			continue
		}
		if n++; shortest < 0 || took < shortest {
			shortest = took
		}
	}
	return shortest / time.Duration(times), times, nil
}

// Idle finds what run takes without any dispatch: the shortest of a few.
func Idle(run func(times int) (time.Duration, error)) (time.Duration, error) {
	idle := time.Hour
	for range 5 {
		took, err := run(0)
		if err != nil {
			return 0, err
		}
		idle = min(idle, took)
	}
	return idle, nil
}
