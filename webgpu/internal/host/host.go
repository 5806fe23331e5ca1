// Package host has what devices that compute on the processor share: runs that a loss interrupts, references, clocks.
package host

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"foretoken/webgpu"
	"foretoken/webgpu/internal/timing"
)

// Life runs the programs of a device, of type P, until it ends.
type Life[P any] struct {
	work    func(run []P) error
	running sync.Mutex    // held while work runs
	done    chan error    // receives the result of work
	lost    chan struct{} // closed by End
	ended   atomic.Bool
	yielded time.Time
}

// NewLife returns the life of a device that runs programs by work. work looks at Lost between dispatches.
func NewLife[P any](work func(run []P) error) *Life[P] {
	return &Life[P]{work: work, done: make(chan error, 1), lost: make(chan struct{}), yielded: time.Now()}
}

// Lost returns an error that wraps webgpu.ErrDeviceLost after End.
func (l *Life[P]) Lost() error {
	if l.ended.Load() {
		return fmt.Errorf("%w: destroyed", webgpu.ErrDeviceLost)
	}
	return nil
}

// Run runs programs and calls read, and returns the time of the former. The work has a goroutine of its own, so that
// End can interrupt this call during a long dispatch; work ends at its next look at Lost.
func (l *Life[P]) Run(run []P, read func()) (time.Duration, error) {
	begin := time.Now()
	go l.run(run)
	select {
	case err := <-l.done:
		if err != nil {
			return 0, err
		}
	case <-l.lost:
		return 0, l.Lost()
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

func (l *Life[P]) run(run []P) {
	l.running.Lock()
	defer l.running.Unlock()
	l.done <- l.work(run)
}

// End marks the device lost and reports whether this call did.
func (l *Life[P]) End() bool {
	if l.ended.Swap(true) {
		return false
	}
	close(l.lost)
	return true
}

// After calls f when no work runs, and lets none run after it.
func (l *Life[P]) After(f func()) {
	go func() {
		l.running.Lock()
		f()
	}()
}

// Reference runs the reference of a kernel, dispatch i of a program, on the words of its bindings. A panic, an index
// out of its bindings mostly, becomes an error: on a GPU such a kernel would not take the program down either.
func Reference(program string, i int, src *webgpu.KernelSource, groups [3]int, words []webgpu.Memory) (err error) {
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

// Time returns the time of calls of a dispatch.
func Time(times int, dispatch func() error) (time.Duration, error) {
	begin := time.Now()
	for range times {
		if err := dispatch(); err != nil {
			return 0, err
		}
	}
	return time.Since(begin), nil
}

// Clock names the clock of Time, and gives the least time that it can measure.
func Clock() (string, time.Duration) { return webgpu.ClockHost, timing.Fine }
