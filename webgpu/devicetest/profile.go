package devicetest

import (
	"slices"
	"testing"
	"time"

	"foretoken/webgpu"
)

// testProfile times the dispatches of a program: a long one, a short one and one without workgroups.
func testProfile(t *testing.T, dev webgpu.Device) {
	p, ok := dev.(webgpu.Profiler)
	if !ok {
		t.Skip("the device times no dispatches")
	}
	h := h{t, dev}
	k := h.kernel(spin())
	long, short := h.buffer("long", 16, webgpu.Uniform), h.buffer("short", 16, webgpu.Uniform)
	y := h.words("y", 1)
	h.write(long, 0, 50_000)
	h.write(short, 0, 250)
	dispatches := append(spins(k, long, y, 1), spins(k, short, y, 2)...)
	dispatches[2].Groups = [3]int{}
	prog, single := h.program("profiled", dispatches...), h.program("single", dispatches[:1]...)
	other := h.program("other", dispatches[1])

	var watched []webgpu.Program
	p.Watch(func(programs []webgpu.Program) { watched = append(watched, programs...) })
	alone := time.Hour
	for range 3 {
		start := time.Now()
		h.read(y, 0, 1, single)
		alone = min(alone, time.Since(start))
	}
	h.run(other, prog)
	p.Watch(nil)
	h.run(other)
	if want := []webgpu.Program{single, single, single, other, prog}; !slices.Equal(watched, want) {
		t.Errorf("watched %v, want %v", watched, want)
	}

	before := dev.Counters()
	got, err := p.Profile(prog)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v; a run of the first alone takes %v", got, alone)
	after := dev.Counters()
	if after.Buffers != before.Buffers || after.Programs != before.Programs || after.Kernels != before.Kernels {
		t.Errorf("profiling counts as making something: before %+v, after %+v", before, after)
	}
	if got.Program != "profiled" || len(got.Dispatches) != 3 {
		t.Fatalf("the profile of %d dispatches of %s", len(got.Dispatches), got.Program)
	}
	if want := got.Clock == webgpu.ClockTimestamps; want != dev.Info().Has("timestamp-query") {
		t.Errorf("timed by %s; timestamp queries: %v", got.Clock, !want)
	}
	for i, d := range got.Dispatches {
		if d.Kernel != "spin" || d.Key != spin().Key || d.Groups != dispatches[i].Groups || d.Times < 1 {
			t.Errorf("dispatch %d is %+v", i, d)
		}
	}
	// 200 times the work, to exceed the overhead of a dispatch.
	first, second, none := got.Dispatches[0].Time, got.Dispatches[1].Time, got.Dispatches[2].Time
	if first < 2*second || none > first/2 {
		t.Errorf("50,000 rounds take %v, 250 take %v, none %v", first, second, none)
	}
	if first > 2*alone+time.Millisecond {
		t.Errorf("a dispatch takes %v, a run of it %v", first, alone)
	}
	if second == 0 {
		t.Error("250 rounds take no time")
	}

	// The device still works.
	h.write(y, 0, 1)
	want := h.read(y, 0, 1, single)
	h.write(y, 0, 1)
	equal(t, "after a profile", h.read(y, 0, 1, single), want)
	dev.FreeProgram(prog)
	_, err = p.Profile(prog)
	fails(t, "a profile of a freed program", err, "freed")
	dev.Destroy()
	_, err = p.Profile(single)
	lost(t, "Profile", err)
}
