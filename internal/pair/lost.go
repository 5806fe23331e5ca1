package pair

import (
	"context"
	"errors"
	"fmt"
	"time"

	"foretoken/internal/kind"
	"foretoken/internal/quote"
	"foretoken/webgpu"
)

// ErrClosed is returned by every call on a closed session.
var ErrClosed = errors.New("foretoken: the session was closed")

// mostLosses is the number of losses in a row, without a token in between, after which a device is given up.
const mostLosses = 3

// Loss reports the loss of the device, or the recovery from it, as package foretoken's.
type Loss struct {
	Reason    string
	Times     int
	Recovered bool
	Took      time.Duration
}

// Usable returns why no model can run, or nil.
func (p *Pair) Usable() error {
	switch {
	case p.closed:
		return ErrClosed
	case !p.loaded:
		return webgpu.ErrDeviceLost
	}
	return nil
}

// LostBy reports whether an error came from the loss of a device that can be opened again. A device that did not answer
// in time counts as lost.
func (p *Pair) LostBy(err error) bool {
	if err == nil || p.options.Reopen == nil {
		return false
	}
	return errors.Is(err, webgpu.ErrDeviceLost) || errors.Is(err, webgpu.ErrTimeout) || p.Device.Lost() != nil
}

// Losses counts the losses of the device. It may be called at any time.
func (p *Pair) Losses() int { return int(p.allLosses.Load()) }

// Progressed reports that work advanced: losses before the call no longer count as of the same row.
func (p *Pair) Progressed() { p.losses = 0 }

// Ensure opens a device again that was lost since the last request, and loads the models.
func (p *Pair) Ensure(ctx context.Context) error {
	if p.closed {
		return ErrClosed
	}
	p.losses = 0
	if why := p.Device.Lost(); p.LostBy(why) {
		return p.reopen(ctx, why)
	}
	return nil
}

// Retry returns err, unless the device was lost: then it opens the device again and does the work, until a run ends
// without a loss or the device cannot be opened.
func (p *Pair) Retry(ctx context.Context, err error, work func() error) error {
	for p.LostBy(err) {
		if failed := p.reopen(ctx, err); failed != nil {
			return failed
		}
		err = work()
	}
	return err
}

// reopen replaces a lost device and loads the models again; why is the reason of the loss.
func (p *Pair) reopen(ctx context.Context, why error) error {
	begin := time.Now()
	for {
		p.loaded = false
		p.losses++
		p.allLosses.Add(1)
		p.Device.Destroy() // frees the models' memory
		if p.losses >= mostLosses {
			return fmt.Errorf("foretoken: the device was lost %d times in a row without a token in between; close "+
				"other programs and pages that use it, take smaller models or the cpu device, and try again: %w",
				p.losses, why)
		}
		p.reportLoss(Loss{Reason: why.Error(), Times: p.losses})
		failed := p.reload(ctx)
		if failed == nil {
			p.reportLoss(Loss{Reason: why.Error(), Times: p.losses, Recovered: true, Took: time.Since(begin)})
			p.progress(Progress{Stage: "ready", Done: 1, Total: 1})
			return nil
		}
		if !errors.Is(failed, webgpu.ErrDeviceLost) && !errors.Is(failed, webgpu.ErrTimeout) || ctx.Err() != nil {
			p.Device.Destroy() // the next request tries again
			switch {
			case ctx.Err() != nil:
				return failed
			case errors.Is(failed, webgpu.ErrNoMemory):
				return kind.Of(kind.ErrMemory, failed)
			}
			return kind.Of(webgpu.ErrDeviceLost, failed)
		}
		why = failed
	}
}

func (p *Pair) reportLoss(l Loss) {
	if p.options.Lost != nil {
		p.options.Lost(l)
	}
}

// reload opens the device again and loads the models with the same kernel choices: other kernels may compute other
// bits.
func (p *Pair) reload(ctx context.Context) error {
	tuning := p.options.Tuning
	if p.Target != nil {
		tuning = p.Tuning()
	}
	dev, err := openAgain(ctx, p.options.Reopen, &p.Info.Device)
	if err != nil {
		return err
	}
	p.Device, p.owned = dev, true
	err = p.load(ctx, tuning)
	if why := p.Device.Lost(); err != nil && why != nil {
		err = kind.Of(why, err) // err may name only a consequence of the loss
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
