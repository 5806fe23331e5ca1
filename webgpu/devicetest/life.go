package devicetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"foretoken/webgpu"
)

// testSteadyState counts the objects that a hundred rounds of write, run and read create.
func testSteadyState(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	const n = 256
	params := h.buffer("params", 16, webgpu.Uniform)
	x, y := h.buffer("x", 4*n, webgpu.Storage), h.buffer("y", 4*n, webgpu.Storage)
	a := h.program("affine", dispatch(h.kernel(affine()), 4, params, y))
	b := h.program("accumulate", dispatch(h.kernel(accumulate()), 4, x, y))
	want := uint32(0)
	round := func(i uint32) {
		h.write(params, 0, n, i, 1)
		h.write(x, 4*(n-1), i)
		got := h.read(y, 4*(n-1), 1, a, b)
		want = (want*i+1)*3 + i
		equal(t, "round", got, []uint32{want})
	}
	for i := range uint32(3) { // the first rounds may size buffers
		round(i)
	}
	before := dev.Counters()
	start := time.Now()
	const rounds = 100
	for i := range uint32(rounds) {
		round(i)
	}
	took := time.Since(start)
	after := dev.Counters()
	if after.Buffers != before.Buffers || after.Kernels != before.Kernels || after.Programs != before.Programs {
		t.Errorf("created while running: before %+v, after %+v", before, after)
	}
	if s, r := after.Submits-before.Submits, after.Reads-before.Reads; s != rounds || r != rounds {
		t.Errorf("%d rounds took %d submits and %d reads", rounds, s, r)
	}
	w, r := after.BytesWritten-before.BytesWritten, after.BytesRead-before.BytesRead
	if w != rounds*16 || r != rounds*4 {
		t.Errorf("%d rounds wrote %d and read %d bytes", rounds, w, r)
	}
	t.Logf("a round of two writes, two programs and a read takes %v, of which %v waiting",
		took/rounds, (after.ReadWait-before.ReadWait)/rounds)
}

// afterDestroy checks every call on a destroyed device.
func afterDestroy(t *testing.T, dev webgpu.Device, b webgpu.Buffer, k webgpu.Kernel, p webgpu.Program) {
	t.Helper()
	lost(t, "Lost", dev.Lost())
	_, err := dev.NewBuffer("late", 4, webgpu.Storage)
	lost(t, "NewBuffer", err)
	_, err = dev.NewKernels([]*webgpu.KernelSource{sum(), saxpy()})
	lost(t, "NewKernels", err)
	_, err = dev.NewProgram("late", []webgpu.Dispatch{{Kernel: k}})
	lost(t, "NewProgram", err)
	lost(t, "Write", dev.Write(b, 0, make([]byte, 4)))
	lost(t, "Run", dev.Run([]webgpu.Program{p}))
	lost(t, "Run with a read", dev.Run([]webgpu.Program{p}, webgpu.Region{Buffer: b, Dst: make([]byte, 4)}))
	dev.FreeProgram(p)
	dev.FreeBuffer(b)
	dev.Counters()
	dev.Info()
	dev.Destroy()
}

func testDestroyedIdle(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	params, y := h.buffer("params", 16, webgpu.Uniform), h.words("y", 1)
	k := h.kernel(affine())
	p := h.program("affine", dispatch(k, 1, params, y))
	h.run(p)
	h.write(params, 0, 1, 1, 1) // a write that never gets its run
	dev.Destroy()
	afterDestroy(t, dev, y, k, p)
}

// testDestroyedInMidRun destroys the device from another goroutine during a run of a few seconds.
func testDestroyedInMidRun(t *testing.T, dev webgpu.Device) {
	h := h{t, dev}
	const target = 3 * time.Second
	params, y := h.buffer("params", 16, webgpu.Uniform), h.words("y", 1)
	k := h.kernel(spin())
	rounds, n := h.pace(target)
	h.write(params, 0, rounds)
	long := h.program("long", spins(k, params, y, n)...)

	start := time.Now()
	go func() {
		time.Sleep(target / 10)
		dev.Destroy()
	}()
	done := make(chan error, 1)
	go func() { done <- dev.Run([]webgpu.Program{long}, webgpu.Region{Buffer: y, Dst: make([]byte, 4)}) }()
	select {
	case err := <-done:
		t.Logf("Run returned %v after its start: %v", time.Since(start), err)
		if !errors.Is(err, webgpu.ErrDeviceLost) {
			t.Fatalf("Run in which the device was destroyed: %v, want %v", err, webgpu.ErrDeviceLost)
		}
	case <-time.After(10 * time.Minute): // a driver may finish the run first
		t.Fatal("Run hangs on a destroyed device")
	}
	afterDestroy(t, dev, y, k, long)
}

// pace returns how many rounds make a spin of about 50 ms, and how many of those take about the given time. Drivers
// kill a single long dispatch as a hang, so the tests use many short ones.
func (h h) pace(long time.Duration) (rounds uint32, n int) {
	h.t.Helper()
	params, y := h.buffer("params", 16, webgpu.Uniform), h.words("y", 1)
	single := h.program("single", spins(h.kernel(spin()), params, y, 1)...)
	took := time.Duration(0)
	for rounds = 1 << 12; rounds < 1<<30; rounds *= 2 {
		h.write(params, 0, rounds)
		took = time.Hour
		for range 3 { // the minimum: the device may still be busy with another test
			start := time.Now()
			h.read(y, 0, 1, single)
			took = min(took, time.Since(start))
		}
		if took > 50*time.Millisecond {
			break
		}
	}
	n = int(1 + long/took)
	h.t.Logf("%d dispatches of %v", n, took)
	return rounds, n
}

// spins returns n dispatches of spin, each dependent on the one before.
func spins(k webgpu.Kernel, params, y webgpu.Buffer, n int) []webgpu.Dispatch {
	return slices.Repeat([]webgpu.Dispatch{dispatch(k, 1, params, y)}, n)
}

// Timeout tests a device whose open takes the time limit of a call: a longer run must fail in time with ErrTimeout, and
// the device must work again after the run has ended.
func Timeout(t *testing.T, open func(t *testing.T, timeout time.Duration) webgpu.Device) {
	const timeout = time.Second
	patient := open(t, time.Minute)
	rounds, n := h{t, patient}.pace(4 * timeout)
	patient.Destroy()

	dev := open(t, timeout)
	h := h{t, dev}
	params, y := h.buffer("params", 16, webgpu.Uniform), h.words("y", 1)
	h.write(params, 0, rounds)
	each := min(n, 1<<10) // making a program has the same time limit
	long := h.program("long", spins(h.kernel(spin()), params, y, each)...)
	start := time.Now()
	err := error(nil)
	// If the machine was busy during pace, one run may end in time; several runs do not.
	for times := 1 + n/each; err == nil && times <= (1+n/each)<<8; times *= 2 {
		err = dev.Run(slices.Repeat([]webgpu.Program{long}, times), webgpu.Region{Buffer: y, Dst: make([]byte, 4)})
	}
	t.Logf("after %v: %v", time.Since(start), err)
	if !errors.Is(err, webgpu.ErrTimeout) {
		t.Fatalf("Run: %v, want %v", err, webgpu.ErrTimeout)
	}
	if err := dev.Lost(); err != nil {
		t.Fatalf("a run that takes long lost the device: %v", err)
	}
	deadline := time.Now().Add(10 * time.Minute)
	again := func(what string, call func() error) {
		t.Helper()
		for {
			err := call()
			if err == nil {
				return
			}
			if !errors.Is(err, webgpu.ErrTimeout) || time.Now().After(deadline) {
				t.Fatalf("%s after a timeout: %v", what, err)
			}
		}
	}
	z := webgpu.Buffer(0)
	again("NewBuffer", func() (err error) {
		z, err = dev.NewBuffer("z", 4, webgpu.Storage)
		return err
	})
	got := make([]uint32, 1)
	again("Run", func() error {
		h.write(z, 0, 123)
		return dev.Run(nil, webgpu.Region{Buffer: z, Dst: webgpu.U32Bytes(got)})
	})
	equal(t, "after the timeout", got, []uint32{123})
}
