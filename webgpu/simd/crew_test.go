package simd

import (
	"math/rand/v2"
	"testing"
	"time"
)

// machine is a host of some processors, of which other processes take some: threads that have no processor of their own
// run in half of its turns, of a few milliseconds, and all threads wait for those that do not run.
type machine struct {
	processors int
	taken      func(now time.Duration) int
	now        time.Duration
}

// gains are the speeds of threads together, by their number.
var gains = []float64{0, 1, 1.75, 2.45, 3.1}

// run returns the time of a program that takes one thread so long.
func (m *machine) run(threads int, alone time.Duration) time.Duration {
	const turn, step = 3 * time.Millisecond, 20 * time.Microsecond
	begin, left := m.now, alone.Seconds()
	for left > 0 {
		speed := gains[threads]
		for i := m.processors - m.taken(m.now); i < threads; i++ {
			if rand.NewPCG(uint64(m.now/turn), uint64(i)).Uint64()%2 == 0 {
				speed = 0
			}
		}
		left -= speed * step.Seconds()
		m.now += step
	}
	return m.now - begin
}

// TestCrewFollowsOtherProcesses runs programs, each after a short one in which threads wake, on machines whose
// processors other processes take: always, never, or for a while. The crew is nearly as fast as the best number of
// threads, and never slower than one by more than a twentieth.
func TestCrewFollowsOtherProcesses(t *testing.T) {
	none := func(time.Duration) int { return 0 }
	one := func(time.Duration) int { return 1 }
	two := func(time.Duration) int { return 2 }
	for _, c := range []struct {
		name    string
		threads int
		taken   func(now time.Duration) int
		best    func(now time.Duration) int // threads
	}{
		{"quiet", 2, none, two},
		{"quiet, four threads", 4, none, func(time.Duration) int { return 4 }},
		{"one busy process", 2, one, one},
		{"one busy process, four threads", 4, one, func(time.Duration) int { return 3 }},
		{"two busy processes, four threads", 4, two, two},
		{"busy for two seconds in six", 2, func(now time.Duration) int {
			if now/time.Second%6 < 2 {
				return 1
			}
			return 0
		}, func(now time.Duration) int {
			if now/time.Second%6 < 2 {
				return 1
			}
			return 2
		}},
	} {
		for _, alone := range []time.Duration{1200 * time.Microsecond, 13 * time.Millisecond, 140 * time.Millisecond} {
			on := func() *machine { return &machine{processors: c.threads, taken: c.taken} }
			m, ideal, single := on(), on(), on()
			crew, paces, awake := newCrew(c.threads), [2]pace{}, c.threads
			for m.now < 30*time.Second {
				threads := crew.threads(&paces[0])
				short := m.run(1, 20*time.Microsecond)
				if threads > awake {
					short += m.run(1, 100*time.Microsecond)
				}
				crew.ran(&paces[0], threads, short)
				awake = threads
				threads = crew.threads(&paces[1])
				crew.ran(&paces[1], threads, m.run(threads, alone))
				ideal.run(c.best(ideal.now), alone)
				single.run(1, alone)
			}
			ofBest, ofOne := ideal.now.Seconds()/m.now.Seconds(), single.now.Seconds()/m.now.Seconds()
			t.Logf("%s, %v: %.3f of the best number of threads, %.3f of one", c.name, alone, ofBest, ofOne)
			if ofBest < 0.9 || ofOne < 0.95 {
				t.Errorf("%s, %v: %.3f of the best number of threads and %.3f of one, want 0.9 and 0.95", c.name, alone,
					ofBest, ofOne)
			}
		}
	}
}

// TestCrewOfOne has nothing to compare.
func TestCrewOfOne(t *testing.T) {
	c, p := newCrew(1), pace{}
	for range 1000 {
		if n := c.threads(&p); n != 1 {
			t.Fatalf("%d threads", n)
		}
		c.ran(&p, 1, 10*time.Millisecond)
	}
}
