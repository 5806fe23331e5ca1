package foretoken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"foretoken/internal/quote"
	"foretoken/webgpu"
)

// state is a session's stage of life. The session's turn guards it.
//
//	opening ──▶ ready              load
//	ready ──▶ lost ──▶ opening     the device is lost; reopen loads the models on a new one
//	any ──▶ closed                 Close
type state int

const (
	opening state = iota // the models are loading
	ready                // the models are loaded
	lost                 // the device is lost; the next request reopens it
	closed
)

// usable returns why no model can run, or nil.
func (s *Session) usable() error {
	switch s.state {
	case closed:
		return errClosed
	case lost, opening:
		return webgpu.ErrDeviceLost
	}
	return nil
}

// errClosed is returned by every call on a closed session.
var errClosed = errors.New("foretoken: the session was closed")

// mostLosses is the number of losses in a row, without a token in between, after which the session gives a device up.
const mostLosses = 3

// Loss reports the loss of the device, or the recovery from it.
type Loss struct {
	Reason    string        // why the device was lost, in one line
	Times     int           // losses in a row, this one included
	Recovered bool          // the session goes on
	Took      time.Duration // since the loss was noticed, if the session recovered
}

func (l Loss) String() string {
	if l.Recovered {
		return fmt.Sprintf("the models are loaded again after %.1f s, going on", l.Took.Seconds())
	}
	return fmt.Sprintf("the device was lost (%s); loading the models again", l.Reason)
}

// lostBy reports whether an error came from the loss of a device that the session can reopen. A device that did not
// answer in time counts as lost.
func (s *Session) lostBy(err error) bool {
	if err == nil || s.options.Reopen == nil {
		return false
	}
	return errors.Is(err, webgpu.ErrDeviceLost) || errors.Is(err, webgpu.ErrTimeout) || s.dev.Lost() != nil
}

// Losses counts the losses of the session's device. Discard times measured while the number changed.
func (s *Session) Losses() int { return int(s.allLosses.Load()) }

// reopen replaces a lost device and reloads the models; why is the reason of the loss. The caller has the turn.
func (s *Session) reopen(ctx context.Context, why error) error {
	begin := time.Now()
	for {
		s.state = lost
		s.losses++
		s.allLosses.Add(1)
		s.dev.Destroy() // frees the models' memory
		if s.losses >= mostLosses {
			return fmt.Errorf("foretoken: the device was lost %d times in a row without a token in between; close "+
				"other programs and pages that use it, take smaller models or the cpu device, and try again: %w",
				s.losses, why)
		}
		s.reportLoss(Loss{Reason: why.Error(), Times: s.losses})
		failed := s.reload(ctx)
		if failed == nil {
			s.reportLoss(Loss{Reason: why.Error(), Times: s.losses, Recovered: true, Took: time.Since(begin)})
			s.progress(Progress{Stage: "ready", Done: 1, Total: 1})
			s.warmUpIdle()
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

func (s *Session) reportLoss(l Loss) {
	if s.options.Lost != nil {
		s.options.Lost(l)
	}
}

// reload opens the device again and loads the models with the same kernel choices: other kernels may compute other
// bits.
func (s *Session) reload(ctx context.Context) error {
	tuning := s.options.Tuning
	if s.target != nil {
		tuning = s.choices()
	}
	dev, err := openAgain(ctx, s.options.Reopen, &s.info.Device)
	if err != nil {
		return err
	}
	s.dev, s.owned, s.state = dev, true, opening
	err = s.load(ctx, tuning)
	if why := s.dev.Lost(); err != nil && why != nil {
		err = ofKind(why, err) // err may name only a consequence of the loss
	}
	return err
}

// reopenPauses are the waits between attempts to open a device: a browser whose GPU process crashed has none until it
// has started another.
var reopenPauses = []time.Duration{200 * time.Millisecond, time.Second, 2 * time.Second}

// openAgain opens a device in the place of a lost one, which has to be the same adapter.
func openAgain(ctx context.Context, reopen func(context.Context) (webgpu.Device, error),
	lost *webgpu.Info) (webgpu.Device, error) {
	dev, err := openDevice(ctx, reopen)
	if err != nil {
		return nil, fmt.Errorf("foretoken: the device was lost and cannot be opened again: %w", err)
	}
	if got := dev.Info(); got.Identity() != lost.Identity() {
		dev.Destroy()
		return nil, fmt.Errorf("foretoken: the device %s was lost and %s opened in its place, which may decode "+
			"another text; open the models again", quote.Name(lost.Adapter), quote.Name(got.Adapter))
	}
	return dev, nil
}

func openDevice(ctx context.Context, reopen func(context.Context) (webgpu.Device, error)) (webgpu.Device, error) {
	for _, pause := range reopenPauses {
		dev, err := reopen(ctx)
		if !errors.Is(err, webgpu.ErrUnavailable) {
			return dev, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return reopen(ctx)
}

// ensureDevice reopens a device that was lost since the last request, and reloads the models.
func (s *Session) ensureDevice(ctx context.Context) error {
	if s.state == closed {
		return errClosed
	}
	s.losses = 0
	if why := s.dev.Lost(); s.lostBy(why) {
		return s.reopen(ctx, why)
	}
	return nil
}

// retry returns err, unless the device was lost: then it reopens the device and does the work, until a run ends without
// a loss or the device cannot be reopened.
func (s *Session) retry(ctx context.Context, err error, work func() error) error {
	for s.lostBy(err) {
		if failed := s.reopen(ctx, err); failed != nil {
			return failed
		}
		err = work()
	}
	return err
}
