//go:build !js

package simd

import (
	"errors"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/registry"
)

// TestThreadThatDies takes a part of a dispatch, as a thread does, and never computes it. The job ends after the
// time-out with an error, and so does every later one.
func TestThreadThatDies(t *testing.T) {
	for _, form := range Forms() {
		t.Run(form, func(t *testing.T) { testThreadThatDies(t, form) })
	}
}

func testThreadThatDies(t *testing.T, form string) {
	const dispatches = 10_000
	dev, err := Open(Options{Form: form, Threads: 2, Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Destroy()
	d := (*backend)(dev)
	d.join()
	nothing := placed{place(t, d, make([]uint32, 8)...), 32} // parameters of a kernel for no rows
	adjust := placeDispatch(t, d, "adjust", 0, nothing, nothing, nothing, nothing)
	p := &program{Label: "steps"}
	kernel := &registry.Kernel[code]{Source: &webgpu.KernelSource{Name: "adjust"}}
	p.Steps = slices.Repeat([]step{{Kernel: kernel}}, dispatches)
	p.Data.at = placeProgram(t, d, slices.Repeat([]address{adjust}, dispatches)...)
	viewer := d.module.(interface {
		view(at address, n int) []byte
	})
	open := (*uint32)(unsafe.Pointer(&viewer.view(d.pool+4*poolOpen, 4)[0]))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // a processor for each thread and for this
	var ended atomic.Bool
	var thief sync.WaitGroup
	thief.Go(func() {
		for !ended.Load() {
			v := atomic.LoadUint32(open)
			if left := v % opening; left != 0 && left != over && atomic.CompareAndSwapUint32(open, v, v-1) {
				return
			}
		}
	})
	for begin := time.Now(); err == nil && time.Since(begin) < 10*time.Second; { // until it meets an open dispatch
		err = d.launch(p, 0, dispatches, 2, 2*partsEach)
	}
	ended.Store(true)
	thief.Wait()
	if !errors.Is(err, webgpu.ErrTimeout) {
		t.Errorf("a part that nobody computed: %v", err)
	} else if !regexp.MustCompile(`^program steps, dispatch \d+, kernel adjust: `).MatchString(err.Error()) {
		t.Errorf("%v does not say where", err)
	}
	if err := d.Lost(); !errors.Is(err, webgpu.ErrDeviceLost) {
		t.Errorf("afterwards: %v", err)
	}
}

// What the test knows of pool.h.
const (
	poolOpen = 16
	opening  = 1024
	over     = opening - 1
)
