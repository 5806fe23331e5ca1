package foretoken

import (
	"context"
	"errors"
	"sync"
	"time"

	"foretoken/models/gguf"
	"foretoken/models/llama"
	"foretoken/spec"
	"foretoken/webgpu"
)

// A session that was opened lean can decode plainly. What drafting needs, a few dozen kernels that a software adapter
// compiles for seconds, is made afterwards: the code that makes the programs is run on a device that only lists
// kernels, these are compiled in the background, and then the programs are made, a few at a time between rounds of
// a request or while there is none. Until all is there auto decodes plainly; other methods wait for what they need.

// idle is how long a session waits for its first request before it begins to warm up by itself.
const idle = 300 * time.Millisecond

// errClosed ends the warming of a session that was closed.
var errClosed = errors.New("foretoken: the session was closed")

// warming is what is left to be made of a session. mu keeps it from running beside a request.
type warming struct {
	mu        sync.Mutex
	rehearsal *llama.Rehearsal
	rehearsed *Session        // its models
	steps     []func() error  // to be done next, the first first
	compiling <-chan struct{} // closed when what was listed is compiled; nil before
	state     warmth
	closed    bool
}

type warmth int

const (
	warm       warmth = iota // nothing is left
	listing                  // the kernels that are needed
	background               // they are compiled
	making                   // the programs
)

// begin plans the warming of a session whose files are these, by the options that they were loaded with.
func (s *Session) begin(tf, df *gguf.File, target, draft llama.Options) {
	w := &s.warming
	w.state = listing
	w.rehearsal = llama.NewRehearsal(s.dev.Info())
	shadow := &Session{dev: w.rehearsal, tok: s.tok, fitted: s.fitted, pair: s.pair}
	w.rehearsed = shadow
	ctx := context.Background() // files are not read for this: their headers were
	load := func() (err error) {
		target.Tuning, target.Progress, target.Preparing = s.target.Tuning(), nil, nil
		if shadow.target, err = llama.LoadTarget(ctx, w.rehearsal, tf, target); err != nil || s.draft == nil {
			return err
		}
		draft.Tuning, draft.Progress, draft.Preparing = s.draft.Tuning(), nil, nil
		shadow.draft, err = llama.LoadDraft(ctx, w.rehearsal, df, draft)
		return err
	}
	w.steps = append([]func() error{load}, shadow.warmSteps(s.draft != nil)...)
}

// warmSteps make what a lean load left out and a request without settings of its own needs, each in a moment once the
// kernels are compiled.
func (s *Session) warmSteps(drafts bool) []func() error {
	r := DefaultRequest()
	c := r.config()
	var steps []func() error
	for _, rows := range []int{1, 2, 4, 8, 16, 32, 64} {
		if rows < 2*c.Budget().Nodes {
			steps = append(steps, func() error { return s.target.Warm(min(rows, c.Budget().Nodes, s.target.Limits().MaxRows)) })
		}
	}
	if !drafts {
		return steps
	}
	steps = append(steps, func() error {
		s.draft.UseHead(false) // as auto has it
		return s.draft.Warm()
	})
	for _, levels := range []int{1, c.Budget().Levels} {
		for i := range 3 { // as many as spec.DraftWidths gives at most
			steps = append(steps, func() error {
				widths := spec.DraftWidths(c.Budget().Width, s.draft.Limits())
				if i >= len(widths) {
					return nil
				}
				return s.draft.PrepareGrowth(levels-1, widths[i], false)
			})
		}
	}
	return append(steps, func() error { return s.makeReady(&r) })
}

// makeReady makes what a request of auto needs.
func (s *Session) makeReady(r *Request) error {
	_, err := s.generator(r)
	return err
}

// advance does one step of warming up, if it need not wait for it, and tells whether none is left.
func (s *Session) advance() (bool, error) {
	w := &s.warming
	if w.closed {
		return false, errClosed
	}
	if w.state == background {
		select {
		case <-w.compiling:
			w.state, w.steps = making, s.warmSteps(s.draft != nil)
		default:
			return false, nil
		}
	}
	if w.state == warm {
		return true, nil
	}
	if len(w.steps) > 0 {
		step := w.steps[0]
		w.steps = w.steps[1:]
		if err := step(); err != nil {
			if w.state == making {
				return false, err
			}
			w.steps = nil // what cannot be rehearsed is compiled when its program is made
		}
	}
	if len(w.steps) > 0 {
		return false, nil
	}
	if w.state == listing {
		w.compiling, w.state = webgpu.Compile(s.dev, w.rehearsal.Sources()), background
		w.rehearsed, w.rehearsal = nil, nil
		return false, nil
	}
	w.state = warm
	return true, nil
}

// warmAlone warms a session up while it serves no request.
func (s *Session) warmAlone() {
	time.Sleep(idle)
	for {
		s.warming.mu.Lock()
		done, err := s.advance()
		waits := s.warming.state == background
		compiling := s.warming.compiling
		s.warming.mu.Unlock()
		if done || err != nil { // a request will meet the error again, and report it
			return
		}
		if waits {
			<-compiling
		}
		time.Sleep(time.Millisecond) // a request's turn
	}
}

// warmUp makes all that is left, for what cannot do without. The caller holds warming.mu.
func (s *Session) warmUp(ctx context.Context) error {
	for {
		done, err := s.advance()
		if done || err != nil {
			return err
		}
		if s.warming.state == background {
			select {
			case <-s.warming.compiling:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// Warm waits until nothing is left to be compiled of a session that was opened lean. Whoever measures it does so first.
func (s *Session) Warm(ctx context.Context) error {
	return s.alone(ctx, func() error { return nil })
}

// defers tells whether a request of a lean session decodes plainly until drafting is ready. Its text must not depend
// on when that is.
func (s *Session) defers(c spec.Config) bool {
	return s.lean && c.Drafter == spec.DrafterAuto && (c.Verifier == "" || c.Verifier == spec.VerifierMatch) && s.head == nil
}
