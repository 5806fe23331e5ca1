package simd

import (
	"slices"
	"testing"
	"time"

	"foretoken/webgpu"
)

// TestPartsRunOnce runs jobs of several lengths on more threads than most machines have processors, with and without
// time to fall asleep between them, the first before some of the threads have started. Each dispatch adds one to each
// row, once.
func TestPartsRunOnce(t *testing.T) {
	const rows, longest, jobs = 50, 7, 3000
	for _, threads := range []int{2, 8} {
		dev, err := Open(Options{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Destroy()
		d := (*backend)(dev)
		d.join()
		if d.threads < threads {
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
		params := alloc(rows, 1, 1, 1, 0, 0, 0, 0) // logits of one token; see RecordAdjust
		common := alloc(1, 0, 0, 0x3f800000)       // token 0: 1.0
		sums := alloc(make([]uint32, rows)...)
		adjust := alloc(uint32(d.kernels["adjust"]), 1, 1, 1, 0, 0,
			params, 32, common, 16, common, 16, sums, 4*rows)
		steps := alloc(slices.Repeat([]uint32{adjust}, longest)...)
		write := func(dispatches int) {
			job := []uint32{steps, 0, uint32(dispatches), uint32(8 * threads), 0, 0, 300}
			d.module.put(d.pool, webgpu.U32Bytes(job))
		}
		added := 0
		check := func() {
			t.Helper()
			got := webgpu.NewMemory(4 * rows)
			d.module.get(sums, got.Bytes())
			for row, sum := range got.F32() {
				if sum != float32(added) {
					t.Fatalf("%d threads: row %d has %v after %d dispatches", threads, row, sum, added)
				}
			}
		}
		for i := range jobs {
			dispatches := 1 + i%longest
			write(dispatches)
			if i%100 == 0 { // a job that is written and not begun
				time.Sleep(time.Millisecond)
				check()
			}
			if whole, err := d.module.call("run", d.pool); err != nil || whole != 1 {
				t.Fatalf("a job ended with %d, %v", whole, err)
			}
			added += dispatches
			check()
		}
	}
}
