package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"foretoken/models/graph"
	"foretoken/webgpu"
	"foretoken/webgpu/kernels/kerneltest"
)

// slowDevice simulates the time of passes with its own clock, which advances when someone waits.
type slowDevice struct {
	webgpu.Device
	now    time.Time
	pass   func(done int) time.Duration // duration of the next pass after done passes
	done   int                          // passes
	queued time.Duration                // duration of the passes in flight
	under  int                          // passes in flight

	most, waits int           // most passes in flight; number of waits
	longest     time.Duration // wait
}

func (d *slowDevice) Run(programs []webgpu.Program, reads ...webgpu.Region) error {
	if len(programs) > 0 {
		d.queued += d.pass(d.done)
		d.done++
		d.under++
		d.most = max(d.most, d.under)
	}
	if len(reads) > 0 {
		d.now = d.now.Add(d.queued)
		d.longest = max(d.longest, d.queued)
		d.queued, d.under = 0, 0
		d.waits++
	}
	return d.Device.Run(programs, reads...)
}

func slowTarget(t *testing.T, pass func(done int) time.Duration) (*Target, *slowDevice) {
	dev := &slowDevice{Device: kerneltest.Reference(t), now: time.Unix(1, 0),
		pass: func(int) time.Duration { return 0 }}
	target, err := LoadTarget(background, dev, testModel(t, "tiny-q8_0"), graph.Options{Context: 512})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	*dev = slowDevice{Device: dev.Device, now: dev.now, pass: pass}
	target.prefill.timer = prefillTimer{now: func() time.Time { return dev.now }}
	return target, dev
}

func someTokens(n int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(3 + i%500)
	}
	return tokens
}

// TestPrefillIsAwaited prefills on devices of several speeds: none queues more than about a second of work, and
// fast ones queue as much as allowed.
func TestPrefillIsAwaited(t *testing.T) {
	const lost = 30 * time.Second // time after which a device counts as lost
	for name, c := range map[string]struct {
		pass    func(done int) time.Duration
		most    int
		longest time.Duration
	}{
		"quick": {func(int) time.Duration {
			return 10 * time.Millisecond
		}, maxQueued, maxQueued * 10 * time.Millisecond},
		"of no time": {func(int) time.Duration { return 0 }, maxQueued, 0},
		"slow":       {func(int) time.Duration { return 300 * time.Millisecond }, 3, 900 * time.Millisecond},
		"very slow":  {func(int) time.Duration { return 20 * time.Second }, 1, 20 * time.Second},
		"slower and slower": {func(done int) time.Duration {
			return time.Duration(done+1) * time.Second / 5
		}, 4, 16 * time.Second / 5},
		"suddenly busy": {func(done int) time.Duration {
			if done < 4 {
				return 100 * time.Millisecond
			}
			return 3 * time.Second
		}, maxQueued, lost - time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			target, dev := slowTarget(t, c.pass)
			rows := target.Graph.PrefillRows()
			tokens := someTokens(2*maxQueued*rows - 1)
			if err := target.Prefill(background, tokens); err != nil {
				t.Fatal(err)
			}
			if dev.done != 2*maxQueued || dev.most > c.most || dev.longest > c.longest || dev.longest >= lost {
				t.Errorf("%d passes, %d at once in %d waits, of which one took %v; want at most %d and %v", dev.done,
					dev.most, dev.waits, dev.longest, c.most, c.longest)
			}
			if c.most == maxQueued && dev.most < maxQueued {
				t.Errorf("no more than %d passes at once", dev.most)
			}
			if dev.most == maxQueued && name != "suddenly busy" && dev.waits != 2 { // after passes 1 and 9 of 16
				t.Errorf("%d waits", dev.waits)
			}
		})
	}
}

// TestPrefillAfterAnother checks that a prefill starts with the speed of the previous one, scaled to the length.
func TestPrefillAfterAnother(t *testing.T) {
	target, dev := slowTarget(t, func(int) time.Duration { return 50 * time.Millisecond })
	rows := target.Graph.PrefillRows()
	prefill := func(n, waits int, what string) {
		t.Helper()
		dev.waits = 0
		if err := target.Prefill(background, someTokens(n)); err != nil || dev.waits != waits {
			t.Fatalf("%s: %d waits, want %d; %v", what, dev.waits, waits, err)
		}
	}
	prefill(rows, 1, "the first pass of all")
	prefill(1, 0, "a short one")
	target.Reset()
	prefill(8*rows, 1, "eight passes")
	prefill(rows, 0, "one more")
	target.Reset()
	dev.pass = func(int) time.Duration { return time.Second }
	prefill(1, 0, "a short one")
	prefill(8*rows, 1, "it has become slow")
	target.Reset()
	dev.queued = 0
	prefill(3*rows, 3, "it is known to be slow")
	target.Reset()
	dev.pass = func(int) time.Duration { return 50 * time.Millisecond }
	prefill(4*rows, 1, "it has become quick")
	prefill(8*rows, 1, "and is known to be")
	target.Reset()
	p := &target.prefill.timer
	if at, far := p.begin(p.length, rows), p.begin(p.length+100*evenLength, rows); at != maxQueued || far != 1 {
		t.Errorf("%d passes at once where they were timed, %d at a hundred times the length", at, far)
	}
}

// TestPrefillEndsSoon aborts a prefill on a slow device: it queues no further pass.
func TestPrefillEndsSoon(t *testing.T) {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	target, dev := slowTarget(t, func(done int) time.Duration {
		if done == 1 {
			cancel()
		}
		return 2 * time.Second
	})
	err := target.Prefill(ctx, someTokens(12*target.Graph.PrefillRows()))
	if !errors.Is(err, context.Canceled) || dev.done != 2 || dev.under != 0 {
		t.Errorf("%v after %d passes, %d under way", err, dev.done, dev.under)
	}
}

// TestSettle waits for the passes of a prefill that are still in flight, if any.
func TestSettle(t *testing.T) {
	target, dev := slowTarget(t, func(int) time.Duration { return 10 * time.Millisecond })
	rows := target.Graph.PrefillRows()
	for _, passes := range []int{1, 3, maxQueued, 1} { // the prefill waits for the first and for none of 2 more, ...
		if err := target.Prefill(background, someTokens(passes*rows)); err != nil {
			t.Fatal(err)
		}
		behind := dev.under
		for i := range 2 { // the second call does not wait
			waits := dev.waits
			if err := target.Sync(); err != nil {
				t.Fatal(err)
			}
			if waited := dev.waits != waits; waited != (behind > 0 && i == 0) || dev.under != 0 {
				t.Errorf("%d passes, %d under way: the call %d of Settle waits: %v", passes, behind, i, waited)
			}
		}
	}
	if dev.done != maxQueued+5 || dev.waits != 1+1+1+1 {
		t.Errorf("%d passes, %d waits", dev.done, dev.waits)
	}
}
