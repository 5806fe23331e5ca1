package simd

import (
	"slices"
	"testing"
	"time"

	"foretoken/webgpu"
)

// The words of the pool that the test reads: see pool.h.
const (
	poolArrived = 9
	poolPhase   = 10
)

// TestLateThread has a thread that had no part in a job notice it only when the next job, in which it has a part, is
// written but not begun. It runs that job once, and when it begins.
func TestLateThread(t *testing.T) {
	dev, err := Open(Options{Threads: 2, Fixed: true})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Destroy()
	d := (*backend)(dev)
	d.join()
	if d.threads < 2 {
		t.Skip("this host starts no threads")
	}
	alloc := func(words ...uint32) uint32 {
		at, err := d.alloc(4 * len(words))
		if err != nil {
			t.Fatal(err)
		}
		d.module.put(at, webgpu.U32Bytes(words))
		return at
	}
	nothing := alloc(make([]uint32, 8)...) // parameters of a kernel for no rows
	adjust := alloc(uint32(d.kernels["adjust"]), 1, 1, 1, nothing, 0,
		nothing, 32, nothing, 32, nothing, 32, nothing, 32)
	steps := alloc(slices.Repeat([]uint32{adjust}, 3)...)
	job := func(dispatches, parts uint32) {
		d.module.put(d.pool, webgpu.U32Bytes([]uint32{steps, 0, dispatches, parts, 0, 0, 300}))
	}
	run := func() {
		if whole, err := d.module.call("run", d.pool); err != nil || whole != 1 {
			t.Fatalf("a job ended with %d, %v", whole, err)
		}
	}
	job(1, 2)
	run()
	job(3, 3)
	stack, err := d.alloc(stackSize)
	if err != nil {
		t.Fatal(err)
	}
	working, err := d.module.start(d.pool, 2, stack+stackSize, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	if err := <-working; err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	run()
	time.Sleep(50 * time.Millisecond)
	if arrived, phase := d.word(poolArrived), d.word(poolPhase); arrived != 0 || phase != 1+3 {
		t.Errorf("after 1 and 3 dispatches, %d threads wait at barrier %d", arrived, phase)
	}
}
