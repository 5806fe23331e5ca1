// Package timing repeats a dispatch until a coarse clock can measure its time.
package timing

import "time"

const (
	// Coarse is the least total time of the repetitions under a clock of 100 µs, as browsers have, or where a
	// submit takes as long; Fine where the clock is the host's.
	Coarse = 8 * time.Millisecond
	Fine   = 100 * time.Microsecond

	most = 1 << 14 // repetitions: a dispatch of no workgroups takes next to nothing
	runs = 3
)

// Dispatch measures the time of one dispatch. run executes it `times` times and returns their total time; idle is
// the time of an empty run and is subtracted. A measurement lasts at least `least`. The shortest of several
// measurements counts, because other work on the machine only adds to it.
func Dispatch(
	least, idle time.Duration, run func(times int) (time.Duration, error),
) (each time.Duration, times int, err error) {
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
