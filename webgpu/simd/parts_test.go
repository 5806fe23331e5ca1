package simd

import (
	"testing"
	"time"
)

// The number of parts is the best of those that halving reaches before a time grows, pauses of the machine or not, and
// is found again when the times have changed.
func TestChoice(t *testing.T) {
	for _, c := range []struct {
		name string
		all  int
		ms   map[int]int
		want int
	}{
		{"threads help", 8, map[int]int{8: 10, 4: 15, 2: 30, 1: 60}, 8},
		{"as many as half", 8, map[int]int{8: 20, 4: 15, 2: 30, 1: 60}, 4},
		{"threads hurt", 8, map[int]int{8: 20, 4: 15, 2: 10, 1: 5}, 1},
		{"an odd number", 3, map[int]int{3: 5, 1: 6}, 3},
		{"one thread", 1, map[int]int{1: 6}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var found choice
			run := func(times int, ms map[int]int) {
				for i := range times {
					t := time.Duration(ms[found.next(c.all)]) * time.Millisecond
					if i%5 == 0 { // a pause of the machine
						t += 30 * time.Millisecond
					}
					found.took(t)
				}
			}
			run(60, c.ms)
			if got := found.next(c.all); got != c.want {
				t.Errorf("%d parts, want %d", got, c.want)
			}
			reversed := map[int]int{}
			for parts := range c.ms {
				reversed[parts] = 1 + 10*parts
			}
			run(lasts+60, reversed)
			if got := found.next(c.all); got != 1 {
				t.Errorf("%d parts after more parts became slower, want 1", got)
			}
		})
	}
}
