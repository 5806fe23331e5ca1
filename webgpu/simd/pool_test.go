package simd

import (
	"slices"
	"testing"
	"time"

	"foretoken/webgpu"
)

// TestPartsRunOnce runs jobs of several lengths on more threads than most machines have processors, with and without
// time to fall asleep between them. One more thread starts when a job is written and not begun. Each dispatch adds one
// to each row, once. A third of them is shared; the others are too small.
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
		params := place(t, d, rows, 1, 1, 1, 0, 0, 0, 0) // logits of one token; see RecordAdjust
		common := place(t, d, 1, 0, 0, 0x3f800000)       // token 0: 1.0
		sums := place(t, d, make([]uint32, rows)...)
		adjust := place(t, d, uint32(d.kernels["adjust"]), 1, 1, 1, 0, 0,
			params, 32, common, 16, common, 16, sums, 4*rows)
		// A product of four columns and four rows of f32 that adds to its output; see matmul.Record.
		halves := place(t, d, slices.Repeat([]uint32{0x3f000000}, 16)...) // 0.5
		small := place(t, d, make([]uint32, 4)...)
		scratch := place(t, d, make([]uint32, (threads+1)*1024)...)
		product := place(t, d, uint32(d.kernels["matmul"]), 1, 1, 1, place(t, d, 0, 0), 5,
			place(t, d, 4, 1, 1, 1, 0, 4, 0, 1, 0, 0), 40, halves, 64, halves, 16, small, 16, halves, 0)
		pattern := []uint32{adjust, product, product}
		steps := place(t, d, slices.Repeat(pattern, longest)...)
		write := func(from, to int) {
			job := []uint32{steps, uint32(from), uint32(to), uint32(partsEach * threads), scratch, 4096, 300}
			d.module.put(d.pool, webgpu.U32Bytes(job))
		}
		added := make([]int, len(pattern))
		check := func() {
			t.Helper()
			got := webgpu.NewMemory(4 * rows)
			d.module.get(sums, got.Bytes())
			for row, sum := range got.F32() {
				if sum != float32(added[0]) {
					t.Fatalf("%d threads: row %d has %v after %d dispatches", threads, row, sum, added[0])
				}
			}
			d.module.get(small, got[:4].Bytes())
			for row, sum := range got[:4].F32() {
				if sum != float32(added[1]+added[2]) {
					t.Fatalf("%d threads: row %d has %v after %d products", threads, row, sum, added[1]+added[2])
				}
			}
		}
		for i := range jobs {
			from := i % len(pattern)
			to := from + 1 + i%longest
			write(from, to)
			if i%100 == 0 { // a job that is written and not begun
				time.Sleep(time.Millisecond)
				check()
			}
			if i == jobs/2 {
				stack, err := d.alloc(stackSize)
				if err != nil {
					t.Fatal(err)
				}
				failed := func(err error) { t.Error(err) }
				working, err := d.module.start(d.pool, uint32(threads), stack+stackSize, failed)
				if err != nil {
					t.Fatal(err)
				}
				if err := <-working; err != nil {
					t.Fatal(err)
				}
				time.Sleep(50 * time.Millisecond)
				check()
			}
			if whole, err := d.module.call("run", d.pool); err != nil || whole != 1 {
				t.Fatalf("a job ended with %d, %v", whole, err)
			}
			for at := from; at < to; at++ {
				added[at%len(pattern)]++
			}
			check()
		}
	}
}

// place puts words into a new buffer and returns its address.
func place(t *testing.T, d *backend, words ...uint32) uint32 {
	t.Helper()
	at, err := d.alloc(4 * len(words))
	if err != nil {
		t.Fatal(err)
	}
	d.module.put(at, webgpu.U32Bytes(words))
	return at
}
