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
	for _, form := range Forms() {
		t.Run(form, func(t *testing.T) { testPartsRunOnce(t, form) })
	}
}

func testPartsRunOnce(t *testing.T, form string) {
	const rows, longest, jobs = 50, 7, 3000
	for _, threads := range []int{2, 8} {
		dev, err := Open(Options{Threads: threads, Form: form})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Destroy()
		d := (*backend)(dev)
		d.join()
		if d.threads < threads {
			t.Skip("this host starts no threads")
		}
		params := placed{place(t, d, rows, 1, 1, 1, 0, 0, 0, 0), 32} // logits of one token; see RecordAdjust
		common := placed{place(t, d, 1, 0, 0, 0x3f800000), 16}       // token 0: 1.0
		sums := placed{place(t, d, make([]uint32, rows)...), 4 * rows}
		adjust := placeDispatch(t, d, "adjust", 0, params, common, common, sums)
		// A product of four columns and four rows of f32 that adds to its output; see matmul.Record.
		halves := placed{place(t, d, slices.Repeat([]uint32{0x3f000000}, 16)...), 64} // 0.5
		small := placed{place(t, d, make([]uint32, 4)...), 16}
		scratch := place(t, d, make([]uint32, (threads+1)*1024)...)
		shape := placed{place(t, d, 4, 1, 1, 1, 0, 4, 0, 1, 0, 0), 40}
		product := placeDispatch(t, d, "matmul", place(t, d, 0, 0), shape, halves, placed{halves.at, 16}, small,
			placed{halves.at, 0})
		pattern := []address{adjust, product, product}
		steps := placeProgram(t, d, slices.Repeat(pattern, longest)...)
		write := func(from, to int) {
			job := []uint32{uint32(steps), uint32(steps >> 32), uint32(scratch), uint32(scratch >> 32), uint32(from),
				uint32(to), uint32(partsEach * threads), 4096, 300, uint32(threads + 1)}
			d.module.put(d.pool, webgpu.U32Bytes(job))
		}
		added := make([]int, len(pattern))
		check := func() {
			t.Helper()
			got := webgpu.NewMemory(4 * rows)
			d.module.get(sums.at, got.Bytes())
			for row, sum := range got.F32() {
				if sum != float32(added[0]) {
					t.Fatalf("%d threads: row %d has %v after %d dispatches", threads, row, sum, added[0])
				}
			}
			d.module.get(small.at, got[:4].Bytes())
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
				working, err := d.module.start(d.pool, threads, stack+stackSize, failed)
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
func place(t *testing.T, d *backend, words ...uint32) address {
	t.Helper()
	at, err := d.alloc(4 * len(words))
	if err != nil {
		t.Fatal(err)
	}
	d.module.put(at, webgpu.U32Bytes(words))
	return at
}

// placeDispatch puts a dispatch into a new buffer and returns its address.
func placeDispatch(t *testing.T, d *backend, kernel string, words address, bindings ...placed) address {
	t.Helper()
	b := dispatch(d.kernels[kernel], [3]int{1, 1, 1}, words, bindings...)
	at, err := d.alloc(len(b))
	if err != nil {
		t.Fatal(err)
	}
	d.module.put(at, b)
	return at
}

// placeProgram lists the addresses of dispatches in a new buffer and returns its address.
func placeProgram(t *testing.T, d *backend, dispatches ...address) address {
	t.Helper()
	words := make([]uint32, 0, 2*len(dispatches))
	for _, at := range dispatches {
		words = append(words, uint32(at), uint32(at>>32))
	}
	return place(t, d, words...)
}
