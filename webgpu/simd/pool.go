package simd

import (
	"fmt"
	"time"

	"foretoken/webgpu"
)

// The words of the pool that the host reads and writes: see pool.h.
const (
	poolRunning = 10
	poolFailed  = 11
	poolEnded   = 12
	poolWords   = 48
)

// slice is the time of one wait for a dispatch to open: see pool.h.
const slice = 100 * time.Millisecond

// stackSize is the stack of a thread in bytes, as src/build.sh gives it to the first.
const stackSize = 64 << 10

// partsEach is the most parts of a dispatch for each thread, so that threads of unequal speed end together.
const partsEach = 8

// startThreads makes the pool and starts threads besides the one that calls, as far as the host lets it.
func (d *backend) startThreads(threads int) error {
	var err error
	if d.pool, err = d.alloc(4 * poolWords); err != nil {
		return err
	}
	d.args[0] = d.pool
	for d.threads = 1; d.threads < threads; d.threads++ {
		stack, err := d.alloc(stackSize)
		if err != nil {
			return err
		}
		working, err := d.module.start(d.pool, d.threads, stack+stackSize, func(err error) {
			d.setWord(poolFailed, 1)
			d.failure.CompareAndSwap(nil, &err)
		})
		if err != nil { // not a failure: fewer threads compute the same
			d.heap.give(stack)
			return nil
		}
		d.starts = append(d.starts, working)
	}
	return nil
}

// join waits until the threads work. A browser starts them while a model loads; it starts none while a program runs.
func (d *backend) join() {
	if len(d.starts) == 0 {
		return
	}
	late := time.After(d.timeout)
	for _, working := range d.starts {
		var err error
		select {
		case err = <-working:
		case <-late:
			err = webgpu.ErrTimeout
		}
		if err != nil { // not a failure either, but the pool is marked as failed: one thread never looks
			d.threads = 1
			break
		}
	}
	d.starts, d.crew = nil, newCrew(d.threads)
}

func (d *backend) setWord(i int, v uint32) {
	d.module.put(d.pool+address(4*i), webgpu.U32Bytes([]uint32{v}))
}

func (d *backend) word(i int) uint32 {
	v := []uint32{0}
	d.module.get(d.pool+address(4*i), webgpu.U32Bytes(v))
	return v[0]
}

// enter runs dispatches [from, to) of a program, which the module has.
func (d *backend) enter(p *program, from, to int) error {
	if err := d.Lost(); err != nil || from >= to {
		return err
	}
	if d.parts > 0 {
		return d.check(p, from, to)
	}
	if from > 0 || to < len(p.Steps) {
		return d.launch(p, from, to, d.crew.kept, d.crew.kept*partsEach)
	}
	threads := d.crew.threads(p.Data.pace)
	begin := time.Now()
	err := d.launch(p, from, to, threads, threads*partsEach)
	d.crew.ran(p.Data.pace, threads, time.Since(begin))
	return err
}

// launch has threads run dispatches, each in at most so many parts.
func (d *backend) launch(p *program, from, to, threads, parts int) error {
	function := "run"
	if threads == 1 {
		function = "run_alone"
	}
	d.job = [...]uint32{uint32(p.Data.at), uint32(p.Data.at >> 32), uint32(d.scratch), uint32(d.scratch >> 32),
		uint32(from), uint32(to), uint32(parts), uint32(d.scratched), max(uint32(d.timeout/slice), 1), uint32(threads)}
	d.module.put(d.pool, webgpu.U32Bytes(d.job[:]))
	whole, err := d.module.call(function, d.args[:]...)
	if err == nil && whole == 1 {
		return nil
	}
	return d.fail(p, err)
}

// fail ends the device after a job that ended early, because this thread returned err or because of another one.
// Threads may be in any dispatch, so nothing more can run.
func (d *backend) fail(p *program, err error) error {
	d.setWord(poolFailed, 1)
	if failed := d.failure.Load(); err == nil && failed != nil {
		err = *failed
	} else if err == nil {
		err = webgpu.ErrTimeout
	}
	if i := int(d.word(poolRunning)); i < len(p.Steps) {
		err = fmt.Errorf("program %s, dispatch %d, kernel %s: %w", p.Label, i, p.Steps[i].Kernel.Source.Name, err)
	}
	d.failure.CompareAndSwap(nil, &err)
	return err
}

// Most is the largest number of threads that can help here.
func Most() int { return min(cores(), 8) }
