package serve

import (
	"context"
	"time"
)

// desk is where a request is read: parsed, rendered and tokenised. What takes long takes turns at it, so that few
// requests at a time compete with the one that decodes. Small requests wait for small ones only, and for none if they
// are quick.
type desk struct {
	ctx    context.Context
	client client
	queue  *queue
	free   int // slices of work that need no turn
	turn   *turn
}

const (
	// deskTime is the length of a turn, after which it passes on.
	deskTime = 250 * time.Millisecond
	// quick is the number of slices, of about a millisecond each, in which a small request is read without a turn.
	quick = 4
)

// deskFor returns a request's desk. It waits for the first turn of a large request.
func (s *Server) deskFor(ctx context.Context, c client, bytes int) (*desk, error) {
	if bytes <= smallBody {
		return &desk{ctx: ctx, client: c, queue: s.small, free: quick}, nil
	}
	d := &desk{ctx: ctx, client: c, queue: s.large}
	return d, d.yield()
}

// yield is called between slices of the work. It lets others have their turn, and returns why the request has ended.
func (d *desk) yield() error {
	if d.turn != nil {
		return d.turn.yield(d.ctx)
	}
	if d.free--; d.free >= 0 {
		return context.Cause(d.ctx)
	}
	var err error
	d.turn, err = d.queue.enter(d.ctx, d.client)
	return err
}

// leave ends the last turn.
func (d *desk) leave() {
	if d.turn != nil {
		d.turn.leave()
	}
}
