package simd

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"foretoken/webgpu"
)

// life runs the programs of a device until it ends.
type life struct {
	work    func(run []*program) error
	running sync.Mutex    // held while work runs
	done    chan error    // receives the result of work
	lost    chan struct{} // closed by end
	ended   atomic.Bool
	yielded time.Time
}

// newLife returns the life of a device that runs programs by work. work looks at err between dispatches.
func newLife(work func(run []*program) error) *life {
	return &life{work: work, done: make(chan error, 1), lost: make(chan struct{}), yielded: time.Now()}
}

// err returns an error that wraps webgpu.ErrDeviceLost after end.
func (l *life) err() error {
	if l.ended.Load() {
		return fmt.Errorf("%w: destroyed", webgpu.ErrDeviceLost)
	}
	return nil
}

// run runs programs and calls read, and returns how long the programs took. Another goroutine does the work, so that
// end can interrupt this call during a long dispatch; work ends at its next look at err.
func (l *life) run(run []*program, read func()) (time.Duration, error) {
	begin := time.Now()
	go l.do(run)
	select {
	case err := <-l.done:
		if err != nil {
			return 0, err
		}
	case <-l.lost:
		return 0, l.err()
	}
	took := time.Since(begin)
	read()
	// A page that decodes on the processor receives a stop in such turns only.
	if time.Since(l.yielded) >= 50*time.Millisecond {
		webgpu.Turn()
		l.yielded = time.Now()
	}
	return took, nil
}

func (l *life) do(run []*program) {
	l.running.Lock()
	defer l.running.Unlock()
	l.done <- l.work(run)
}

// end marks the device lost and reports whether this call did.
func (l *life) end() bool {
	if l.ended.Swap(true) {
		return false
	}
	close(l.lost)
	return true
}

// after calls f when no work runs, and lets none run after it.
func (l *life) after(f func()) {
	go func() {
		l.running.Lock()
		f()
	}()
}

// runReference runs the reference of a kernel, dispatch i of a program, on the words of its bindings. A panic, an index
// out of its bindings mostly, becomes an error: on a GPU such a kernel would not take the program down either.
func runReference(program string, i int, src *webgpu.KernelSource, groups [3]int, words []webgpu.Memory) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("program %s, dispatch %d, kernel %s: the reference panicked: %v", program, i, src.Name, r)
		}
	}()
	if groups[0] > 0 && groups[1] > 0 && groups[2] > 0 {
		src.Reference(groups, words)
	}
	return nil
}
