package foretoken

import (
	"context"
	"errors"
	"math"
	"time"

	"foretoken/models/llama"
	"foretoken/spec/method"
	"foretoken/webgpu"
)

// A lean session is open once it can decode plainly and draft small trees, of firstNodes nodes. Warmup prepares larger
// ones afterwards, which takes a software adapter seconds: it runs the code that records the programs on a device that
// only lists kernels (the dry run), compiles the listed kernels in the background, a few at a time and none while a
// request runs, and then records the programs. Until then auto drafts small trees; other methods with a
// draft wait. The cpu device only records.

const (
	// firstNodes is the largest tree, in nodes, that a lean session verifies as soon as it is open: larger ones need
	// the kernels that take the longest to compile.
	firstNodes = 8
	// idle is the time that a session waits for its first request before warmup starts.
	idle = 300 * time.Millisecond
	// idleKernels is the number of kernels that an idle session compiles at once. A request that comes meanwhile runs
	// beside them.
	idleKernels = 2
)

// warmup is the progress of a session from its first trees to ready.
type warmup struct {
	phase     phase
	dryRun    *llama.DryRun
	steps     []func() error         // the remaining steps of the phase, in order
	sources   []*webgpu.KernelSource // the kernels that remain to be compiled
	compiling <-chan struct{}        // closed when those begun are compiled; nil before
}

// phase is a part of warmup.
type phase int

const (
	listing   phase = iota // dry run: which kernels are needed
	compiling              // the kernels compile in the background
	recording              // the programs are recorded
)

// fit limits the trees of a request of auto.
func (s *Session) fit(r *Request, nodes int) {
	if c := r.Config(); c.WeighsCosts() && c.Nodes > nodes {
		r.Nodes, r.Depth = nodes, min(c.Depth, nodes-1)
	}
}

// defaultRequest is a default request with trees of up to so many nodes that the session can verify.
func (s *Session) defaultRequest(nodes int) Request {
	r := DefaultRequest()
	s.fit(&r, min(nodes, s.target.Limits().MaxRows))
	return r
}

// shadow returns a session on a dry run and the function that loads its models, with the loading options of the
// session's.
func (s *Session) shadow(target, draft llama.Options) (*Session, *llama.DryRun, func() error) {
	dry := llama.NewDryRun(s.dev.Info())
	shadow := &Session{dev: dry, tok: s.tok, fitted: s.fitted, pair: s.pair}
	return shadow, dry, func() (err error) {
		ctx := context.Background() // a dry run reads no weights
		target.Progress, target.Preparing = nil, nil
		if shadow.target, err = llama.LoadTarget(ctx, dry, s.files.target, target); err != nil || s.files.draft == nil {
			return err
		}
		draft.Progress, draft.Preparing = nil, nil
		shadow.draft, err = llama.LoadDraft(ctx, dry, s.files.draft, draft)
		return err
	}
}

// compileAhead starts compiling the kernels of the first request before weights are loaded.
func (s *Session) compileAhead(target, draft llama.Options) {
	shadow, dry, load := s.shadow(target, draft)
	if load() != nil { // loading reports the error
		return
	}
	r := shadow.defaultRequest(firstNodes)
	if _, err := shadow.compileRequest(&r); err == nil {
		webgpu.Compile(s.dev, dry.Sources())
	}
}

// startWarmup plans the warmup of a session with the loading options of its models.
func (s *Session) startWarmup(target, draft llama.Options) {
	s.state = first
	defer func() { go s.warmUpIdle() }()
	if s.dev.Info().Host() { // has nothing to compile
		s.warmup = warmup{phase: recording, steps: s.warmupSteps(s.draft != nil)}
		return
	}
	target.Tuning = s.target.Tuning()
	if s.draft != nil {
		draft.Tuning = s.draft.Tuning()
	}
	shadow, dry, load := s.shadow(target, draft)
	s.warmup = warmup{dryRun: dry, steps: append([]func() error{load}, shadow.warmupSteps(s.draft != nil)...)}
}

// warmupSteps prepares the programs that a lean load left out and that a default request needs. Each step is short once
// its kernels are compiled.
func (s *Session) warmupSteps(drafts bool) []func() error {
	r := DefaultRequest()
	nodes := r.Config().Nodes
	var steps []func() error
	for rows := 1; rows < 2*nodes; rows *= 2 {
		steps = append(steps, func() error { return s.target.Warm(min(rows, nodes, s.target.Limits().MaxRows)) })
	}
	if drafts {
		steps = append(steps, func() error { return s.draft.Warm() })
	}
	return append(steps, func() error {
		r := s.defaultRequest(nodes)
		_, err := s.compileRequest(&r)
		return err
	})
}

// advance takes one step of warmup if it can without waiting, and reports whether the session is ready. It begins to
// compile up to atOnce kernels.
func (s *Session) advance(atOnce int) (bool, error) {
	switch s.state {
	case ready:
		return true, nil
	case closed:
		return false, errClosed
	case lost, opening:
		return false, webgpu.ErrDeviceLost
	}
	w := &s.warmup
	if w.phase == compiling {
		select {
		case <-w.compiling:
		default:
			return false, nil
		}
		if n := min(atOnce, len(w.sources)); n > 0 {
			w.compiling, w.sources = webgpu.Compile(s.dev, w.sources[:n]), w.sources[n:]
			return false, nil
		}
		w.phase, w.steps = recording, s.warmupSteps(s.draft != nil)
	}
	if len(w.steps) > 0 {
		step := w.steps[0]
		w.steps = w.steps[1:]
		if err := step(); err != nil {
			if w.phase == recording {
				return false, err
			}
			w.steps = nil // kernels missing from the list compile when their program is recorded
		}
	}
	if len(w.steps) > 0 {
		return false, nil
	}
	if w.phase == listing {
		w.phase, w.sources, w.compiling = compiling, w.dryRun.Sources(), webgpu.Compile(s.dev, nil)
		w.dryRun = nil
		return false, nil
	}
	s.state = ready
	return true, nil
}

// lock takes s.mu; where idle timing holds it, that ends.
func (s *Session) lock() {
	s.asked.Add(1)
	s.mu.Lock()
	s.asked.Add(-1)
}

// warmUpIdle warms the session up while it serves no request, and times the passes that auto decides by. A request ends
// the timing under way, which begins again when the session is idle again.
func (s *Session) warmUpIdle() {
	for pause := idle; ; {
		time.Sleep(pause)
		pause = time.Millisecond // lets a request take the lock
		if !s.mu.TryLock() {     // a request runs
			pause = idle
			continue
		}
		done, err := s.advance(idleKernels)
		var compiled <-chan struct{}
		switch {
		case s.state == first && s.warmup.phase == compiling:
			compiled = s.warmup.compiling
		case !done || err != nil:
		case !s.timed:
			r := DefaultRequest()
			err = s.measureCosts(whileIdle{context.Background(), s}, r.Config(), s.target.Len() > 0)
		default:
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		switch {
		case errors.Is(err, errAsked):
			pause = idle
		case err != nil: // a request meets the same error and reports it
			return
		case compiled != nil:
			<-compiled
		}
	}
}

// whileIdle is a context that ends when a request waits.
type whileIdle struct {
	context.Context
	session *Session
}

var errAsked = errors.New("foretoken: a request waits")

func (c whileIdle) Err() error {
	if c.session.asked.Load() > 0 {
		return errAsked
	}
	return nil
}

// warmUp completes warmup. The caller holds s.mu.
func (s *Session) warmUp(ctx context.Context) error {
	for {
		done, err := s.advance(math.MaxInt)
		if done || err != nil {
			return err
		}
		if s.warmup.phase == compiling {
			select {
			case <-s.warmup.compiling:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// warmUpFor completes warmup for a request that waits for it. The caller holds s.mu.
func (s *Session) warmUpFor(ctx context.Context, c method.Config) error {
	if !s.lean || !c.UsesDraftModel() && !c.WeighsCosts() || s.startsLean(c) {
		return nil
	}
	return s.warmUp(ctx)
}

// Warm waits until all kernels of a lean session are compiled. Call it before measuring.
func (s *Session) Warm(ctx context.Context) error {
	return s.Exclusive(ctx, func(Models) error { return nil })
}

// startsLean reports whether a request begins before warmup has ended and before passes are timed. Only methods whose
// text does not depend on the trees may.
func (s *Session) startsLean(c method.Config) bool {
	return s.options.Lean && c.WeighsCosts() && c.Exactness() == method.ExactTokens
}
