package openai

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// queue lets one request decode at a time. The others wait, at most limit of them, and clients take
// turns: one that asks for a lot at once delays its own requests, not those of others.
type queue struct {
	limit int

	mu      sync.Mutex
	busy    bool
	idle    sync.Cond // of busy
	closed  bool
	waiting int
	turns   []*client // clients with waiting requests, the next one first
	mean    time.Duration
}

// client is one of whom requests wait, the oldest first.
type client struct {
	name    string
	tickets []*ticket
}

// ticket is a waiting request. granted is closed when it is its turn, or when the queue closes.
type ticket struct {
	granted chan struct{}
	err     *Error // set before granted is closed
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.idle.L = &q.mu
	return q
}

// wait returns when no request is decoded.
func (q *queue) wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.busy {
		q.idle.Wait()
	}
}

// enter waits for the turn of a client's request. leave ends the turn.
func (q *queue) enter(ctx context.Context, name string) (leave func(), err error) {
	q.mu.Lock()
	switch {
	case q.closed:
		q.mu.Unlock()
		return nil, errStopping()
	case !q.busy:
		q.busy = true
		q.mu.Unlock()
		return q.turn(), nil
	case q.waiting >= q.limit:
		// A place becomes free after the request that runs now.
		retry := min(max(q.mean, time.Second), 2*time.Minute)
		q.mu.Unlock()
		return nil, &Error{Status: http.StatusTooManyRequests, Type: typeLimit, Code: "queue_full", retry: retry,
			Message: "one request is decoded at a time, and no more may wait; try again later"}
	}
	t := &ticket{granted: make(chan struct{})}
	q.add(name, t)
	q.mu.Unlock()
	select {
	case <-t.granted:
		if t.err != nil {
			return nil, t.err
		}
		return q.turn(), nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	if q.remove(name, t) || t.err != nil {
		q.mu.Unlock()
		return nil, context.Cause(ctx)
	}
	q.mu.Unlock()
	q.leave(0) // it had just become its turn
	return nil, context.Cause(ctx)
}

// turn gives the function that ends one.
func (q *queue) turn() func() {
	begun := time.Now()
	var once sync.Once
	return func() { once.Do(func() { q.leave(time.Since(begun)) }) }
}

// leave hands the turn on. took is how long it was; 0: it was not used.
func (q *queue) leave(took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mean == 0 {
		q.mean = took
	} else if took > 0 {
		q.mean += (took - q.mean) / 4
	}
	if len(q.turns) == 0 {
		q.busy = false
		q.idle.Broadcast()
		return
	}
	c := q.turns[0]
	t := c.tickets[0]
	c.tickets = c.tickets[1:]
	q.turns = q.turns[1:]
	if len(c.tickets) > 0 {
		q.turns = append(q.turns, c)
	}
	q.waiting--
	close(t.granted)
}

func (q *queue) add(name string, t *ticket) {
	q.waiting++
	for _, c := range q.turns {
		if c.name == name {
			c.tickets = append(c.tickets, t)
			return
		}
	}
	q.turns = append(q.turns, &client{name, []*ticket{t}})
}

// remove takes a ticket back; false if it waits no more.
func (q *queue) remove(name string, t *ticket) bool {
	at := slices.IndexFunc(q.turns, func(c *client) bool { return c.name == name })
	if at < 0 {
		return false
	}
	c := q.turns[at]
	i := slices.Index(c.tickets, t)
	if i < 0 {
		return false
	}
	if c.tickets = slices.Delete(c.tickets, i, i+1); len(c.tickets) == 0 {
		q.turns = slices.Delete(q.turns, at, at+1)
	}
	q.waiting--
	return true
}

// close turns away all that waits, and all that comes.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, c := range q.turns {
		for _, t := range c.tickets {
			t.err = errStopping()
			close(t.granted)
		}
	}
	q.turns, q.waiting = nil, 0
}

// state reports whether a request decodes, how many wait, and whether more are turned away.
func (q *queue) state() (busy bool, waiting int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy, q.waiting, q.closed
}
