package foretoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"foretoken/webgpu"
)

// mostLosses is how often in a row, without a token in between, the device may be lost before the session leaves it alone.
const mostLosses = 3

// Loss is a device that was lost, or what became of it.
type Loss struct {
	Reason string        // why the device was lost, in one line
	Times  int           // how often in a row, this time included
	Mended bool          // the session goes on
	Took   time.Duration // since the loss was noticed, where it was mended
}

func (l Loss) String() string {
	if l.Mended {
		return fmt.Sprintf("the models are loaded again after %.1f s, going on", l.Took.Seconds())
	}
	return fmt.Sprintf("the device was lost (%s); loading the models again", l.Reason)
}

// lostBy tells whether an error came of a device that the session can replace. One that did not answer in time counts as
// lost: whatever hangs there hangs.
func (s *Session) lostBy(err error) bool {
	if err == nil || s.options.Reopen == nil {
		return false
	}
	return errors.Is(err, webgpu.ErrDeviceLost) || errors.Is(err, webgpu.ErrTimeout) || s.dev.Lost() != nil
}

// Losses is how often the session's device was lost so far. What was timed while that number changed is no time of the
// models'.
func (s *Session) Losses() int { return int(s.lost.Load()) }

// mend replaces the device, which was lost for the reason given, and loads the models again. The caller holds warming.mu.
func (s *Session) mend(ctx context.Context, why error) error {
	begin := time.Now()
	for {
		s.losses++
		s.lost.Add(1)
		s.dev.Destroy() // frees all that the models had there
		if s.losses >= mostLosses {
			return fmt.Errorf("foretoken: the device was lost %d times in a row without a token in between; close other programs and pages that use it, take smaller models or the cpu device, and try again: %w", s.losses, why)
		}
		s.told(Loss{Reason: why.Error(), Times: s.losses})
		failed := s.reload(ctx)
		if failed == nil {
			s.told(Loss{Reason: why.Error(), Times: s.losses, Mended: true, Took: time.Since(begin)})
			s.progress(Progress{Stage: "ready", Done: 1, Total: 1})
			return nil
		}
		if !errors.Is(failed, webgpu.ErrDeviceLost) && !errors.Is(failed, webgpu.ErrTimeout) || ctx.Err() != nil {
			s.dev.Destroy() // the next request tries again
			switch {
			case ctx.Err() != nil:
				return failed
			case errors.Is(failed, webgpu.ErrNoMemory):
				return ofKind(ErrMemory, failed)
			}
			return ofKind(webgpu.ErrDeviceLost, failed)
		}
		why = failed
	}
}

func (s *Session) told(l Loss) {
	if s.options.Lost != nil {
		s.options.Lost(l)
	}
}

// reload opens the device anew and loads the models onto it, with the kernels chosen before: another choice may have other bits.
func (s *Session) reload(ctx context.Context) error {
	tuning := s.options.Tuning
	if s.target != nil {
		tuning = s.choices()
	}
	dev, err := s.reopen(ctx)
	if err != nil {
		return fmt.Errorf("foretoken: the device was lost and cannot be opened again: %w", err)
	}
	s.dev, s.owned = dev, true
	if got, want := dev.Info(), s.info.Device; got.Identity() != want.Identity() {
		dev.Destroy()
		return fmt.Errorf("foretoken: the device %s was lost and %s opened in its place, which may decode another text; open the models again", want.Adapter, got.Adapter)
	}
	err = s.load(ctx, tuning)
	if lost := dev.Lost(); err != nil && lost != nil {
		err = ofKind(lost, err) // it may say only what came of that
	}
	return err
}

// reopenPauses are waits before a device that cannot be had is asked for again: a browser whose GPU process ended has none
// until it has started another.
var reopenPauses = []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second}

func (s *Session) reopen(ctx context.Context) (webgpu.Device, error) {
	for _, pause := range reopenPauses {
		dev, err := s.options.Reopen(ctx)
		if !errors.Is(err, webgpu.ErrUnavailable) {
			return dev, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return s.options.Reopen(ctx)
}

// whole has the session's models on a device that is there, whatever happened since the last request.
func (s *Session) whole(ctx context.Context) error {
	if s.warming.closed {
		return errClosed
	}
	s.losses = 0
	if why := s.dev.Lost(); s.lostBy(why) {
		return s.mend(ctx, why)
	}
	return nil
}

// lasting goes on after err: where the device was lost it is replaced and the work is done, until that is done without
// a loss or nothing is mended any more.
func (s *Session) lasting(ctx context.Context, err error, work func() error) error {
	for s.lostBy(err) {
		if failed := s.mend(ctx, err); failed != nil {
			return failed
		}
		err = work()
	}
	return err
}

// alone does work on the models, all of which are there, with no request beside it. Where the device is lost it is
// replaced and work is called again.
func (s *Session) alone(ctx context.Context, work func() error) error {
	s.warming.mu.Lock()
	defer s.warming.mu.Unlock()
	if err := s.whole(ctx); err != nil {
		return err
	}
	warmed := func() error {
		if err := s.warmUp(ctx); err != nil {
			return err
		}
		return work()
	}
	return s.lasting(ctx, warmed(), warmed)
}

// recovery is spec.Options.Recover of a request: it replaces a lost device and makes the request's programs again.
func (s *Session) recovery(r *Request, w *wait) func(context.Context, error) (func(context.Context) (bool, error), error) {
	return func(ctx context.Context, cause error) (func(context.Context) (bool, error), error) {
		err := s.lasting(ctx, cause, func() error {
			if w != nil { // it decodes plainly until the programs are there again
				w.made, w.done = false, false
				return nil
			}
			if c := r.config(); c.UsesDraftModel() && s.lean {
				if err := s.warmUp(ctx); err != nil {
					return err
				}
			}
			_, err := s.generator(r)
			return err
		})
		return w.asked(), err
	}
}
