//go:build !js

package simd

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"foretoken/webgpu"
)

// TestThreadThatDies takes a part of a dispatch, as a thread does, and never computes it. The job ends after the
// time-out with an error, and so does every later one.
func TestThreadThatDies(t *testing.T) {
	const dispatches = 10_000
	dev, err := Open(Options{Threads: 2, Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Destroy()
	d := (*backend)(dev)
	d.join()
	steps := slices.Repeat([]uint32{nothing(t, d)}, dispatches)
	p := &program{}
	if p.Data.at, err = d.alloc(4 * len(steps)); err != nil {
		t.Fatal(err)
	}
	d.module.put(p.Data.at, webgpu.U32Bytes(steps))
	open := (*uint32)(unsafe.Pointer(&d.module.(*instances).view(d.pool+4*poolOpen, 4)[0]))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // a processor for each thread and for this
	var over atomic.Bool
	var thief sync.WaitGroup
	thief.Go(func() {
		for !over.Load() {
			if v := atomic.LoadUint32(open); v%mostParts != 0 && atomic.CompareAndSwapUint32(open, v, v-1) {
				return
			}
		}
	})
	for begin := time.Now(); err == nil && time.Since(begin) < 10*time.Second; { // until it meets an open dispatch
		err = d.launch("run", p, 0, dispatches, 2*partsEach)
	}
	over.Store(true)
	thief.Wait()
	if !errors.Is(err, webgpu.ErrTimeout) {
		t.Errorf("a part that nobody computed: %v", err)
	}
	if err := d.Lost(); !errors.Is(err, webgpu.ErrDeviceLost) {
		t.Errorf("afterwards: %v", err)
	}
}

// The words of the pool that the test reads: see pool.h.
const (
	poolOpen  = 8
	mostParts = 1024
)

// nothing returns the address of a dispatch for no rows.
func nothing(t *testing.T, d *backend) uint32 {
	alloc := func(words ...uint32) uint32 {
		at, err := d.alloc(4 * len(words))
		if err != nil {
			t.Fatal(err)
		}
		d.module.put(at, webgpu.U32Bytes(words))
		return at
	}
	params := alloc(make([]uint32, 8)...)
	return alloc(uint32(d.kernels["adjust"]), 1, 1, 1, params, 0, params, 32, params, 32, params, 32, params, 32)
}
