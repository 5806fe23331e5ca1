// Package warmup compiles kernels and records programs while a session serves no request.
//
// A session with a fast start is open once it can decode plainly and draft small trees. What larger trees need, which
// takes a software adapter seconds, is prepared afterwards: a dry run lists the kernels by recording the programs on a
// device that only lists them, the kernels compile in the background, a few at a time and none while a request runs,
// and then the programs are recorded. A device that has nothing to compile only records.
package warmup

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"foretoken/webgpu"
)

const (
	// pause is the time that a session waits for a request before it begins or goes on to warm up.
	pause = 300 * time.Millisecond
	// idleKernels is the number of kernels that an idle session compiles at once. They go on compiling while a request
	// runs.
	idleKernels = 2
)

// Work lists the steps of warmup. Each step is short once its kernels are compiled. The zero value has none.
type Work struct {
	Device  webgpu.Device                 // that compiles
	List    []func() error                // steps of the dry run; none: nothing to compile
	Sources func() []*webgpu.KernelSource // the kernels that the dry run listed
	Record  []func() error                // steps that record the programs
}

// Warmup is the progress of its work. Whoever calls its methods holds the session's turn.
type Warmup struct {
	work      Work
	phase     phase
	steps     []func() error         // the remaining steps of the phase, in order
	sources   []*webgpu.KernelSource // the kernels that remain to be compiled
	compiling <-chan struct{}        // closed when those begun are compiled
}

// phase is a part of warmup.
type phase int

const (
	listing   phase = iota // dry run: which kernels are needed
	compiling              // the kernels compile in the background
	recording              // the programs are recorded
)

// New returns a warmup at the start of its work.
func New(p Work) *Warmup {
	if len(p.List) == 0 {
		return &Warmup{phase: recording, steps: p.Record}
	}
	return &Warmup{work: p, steps: p.List}
}

// Done reports whether everything is prepared.
func (w *Warmup) Done() bool { return w.phase == recording && len(w.steps) == 0 }

// step takes one step if it can without waiting. It begins to compile up to atOnce kernels.
func (w *Warmup) step(atOnce int) error {
	if w.phase == compiling {
		select {
		case <-w.compiling:
		default:
			return nil
		}
		if n := min(atOnce, len(w.sources)); n > 0 {
			w.compiling, w.sources = webgpu.Compile(w.work.Device, w.sources[:n]), w.sources[n:]
			return nil
		}
		w.phase, w.steps = recording, w.work.Record
		w.work = Work{} // with the dry run's models
	}
	if len(w.steps) > 0 {
		switch err := w.steps[0](); {
		case err == nil:
			w.steps = w.steps[1:]
		case w.phase == recording:
			return err
		default:
			w.steps = nil // kernels missing from the list compile when their program is recorded
		}
	}
	if w.phase == listing && len(w.steps) == 0 {
		w.phase, w.sources, w.compiling = compiling, w.work.Sources(), webgpu.Compile(w.work.Device, nil)
	}
	return nil
}

// wait returns a channel that is closed when the next step can be taken, or nil where it can be taken now.
func (w *Warmup) wait() <-chan struct{} {
	if w.phase == compiling {
		return w.compiling
	}
	return nil
}

// Finish takes all steps and waits for the kernels.
func (w *Warmup) Finish(ctx context.Context) error {
	for !w.Done() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.step(math.MaxInt); err != nil {
			return err
		}
		if compiled := w.wait(); compiled != nil {
			select {
			case <-compiled:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// Background runs the steps in order and then last, each while it holds the turn. It calls may before each step. It
// returns at the first error of a step or of may: the next request meets the same error and reports it. The context of
// last ends when a caller waits for the turn; if last returns its error, it runs again later.
func (w *Warmup) Background(t *Turn, may func() error, last func(idle context.Context) error) {
	for wait := pause; ; {
		time.Sleep(wait)
		wait = time.Millisecond // lets a request take the turn
		if !t.TryLock() {
			wait = pause
			continue
		}
		done, err := w.advance(t, may, last)
		compiled := w.wait()
		t.Unlock()
		switch {
		case errors.Is(err, errAsked):
			wait = pause
		case err != nil || done:
			return
		case compiled != nil:
			<-compiled
		}
	}
}

// advance is one turn of Background. It reports whether last has run.
func (w *Warmup) advance(t *Turn, may func() error, last func(idle context.Context) error) (bool, error) {
	if err := may(); err != nil {
		return false, err
	}
	if err := w.step(idleKernels); err != nil || !w.Done() {
		return false, err
	}
	return true, last(idle{context.Background(), t})
}

// Turn is the lock of a session: a request holds it, work on the session's models, or a step of warmup. It counts who
// waits for it, so that work while idle can give way.
type Turn struct {
	mu      sync.Mutex
	waiting atomic.Int32
}

// Lock waits for the turn. Work in the context that Background passes to last, which may hold it, ends.
func (t *Turn) Lock() {
	t.waiting.Add(1)
	t.mu.Lock()
	t.waiting.Add(-1)
}

// TryLock takes the turn if it is free, and reports whether it did.
func (t *Turn) TryLock() bool { return t.mu.TryLock() }

// Unlock gives the turn up.
func (t *Turn) Unlock() { t.mu.Unlock() }

// idle is a context that ends when somebody waits for the turn.
type idle struct {
	context.Context
	turn *Turn
}

var errAsked = errors.New("foretoken: a request waits")

func (c idle) Err() error {
	if c.turn.waiting.Load() > 0 {
		return errAsked
	}
	return nil
}
