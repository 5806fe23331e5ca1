package openai

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"
)

// queue gives one request at a time its turn. The others wait, at most limit of them. Addresses take turns, and the
// users of an address take that address's turns: one that asks for a lot at once delays its own requests, not those
// of others. In a full queue a newcomer gets the place of the latest request of the address, or else of the user,
// that has most of them.
type queue struct {
	limit int
	slice time.Duration // after which a turn passes on between two texts

	mu      sync.Mutex
	busy    bool
	idle    sync.Cond // of busy
	closed  bool
	waiting int
	turns   []*line // addresses with waiting requests, the next one first
	mean    time.Duration
}

// client is whose turn a request takes. A request names its user itself: that only divides its address's turns.
type client struct{ address, user string }

// line is an address with waiting requests, the next user first.
type line struct {
	address string
	waiting int
	users   []*user
}

// user holds the waiting requests of one user, the oldest first.
type user struct {
	name    string
	tickets []*ticket
}

// ticket is a waiting request. granted is closed when it is its turn, or when it lost its place.
type ticket struct {
	client
	resumed bool // it had a turn before
	granted chan struct{}
	err     *Error // set before granted is closed
}

// turnTime is the length of a turn after which it passes on between two texts of a request.
const turnTime = time.Second

func newQueue(limit int) *queue {
	q := &queue{limit: limit, slice: turnTime}
	q.idle.L = &q.mu
	return q
}

// wait returns when no request has its turn.
func (q *queue) wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.busy {
		q.idle.Wait()
	}
}

// turn is the right to decode, until leave.
type turn struct {
	queue  *queue
	client client
	begun  time.Time
	held   bool
}

// enter waits for the turn of a client's request.
func (q *queue) enter(ctx context.Context, c client) (*turn, error) {
	t, err := q.ask(c)
	if err != nil {
		return nil, err
	}
	if err := q.await(ctx, t); err != nil {
		return nil, err
	}
	return &turn{q, c, time.Now(), true}, nil
}

// ask returns the ticket of a request that has to wait, or nil for one whose turn it is.
func (q *queue) ask(c client) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return nil, errStopping()
	case !q.busy:
		q.busy = true
		return nil, nil
	}
	if q.waiting >= q.limit {
		t := q.victim(c)
		if t == nil {
			return nil, q.full()
		}
		q.remove(t)
		t.err = q.full()
		close(t.granted)
	}
	t := &ticket{client: c, granted: make(chan struct{})}
	q.add(t)
	return t, nil
}

// full refuses a request. A place becomes free after the turn that runs now.
func (q *queue) full() *Error {
	return &Error{Status: http.StatusTooManyRequests, Type: typeLimit, Code: "queue_full",
		retry:   min(max(q.mean, time.Second), 2*time.Minute),
		Message: "one request is decoded at a time, and no more may wait; try again later"}
}

// await returns when it is the turn of a ticket, which may be nil.
func (q *queue) await(ctx context.Context, t *ticket) error {
	if t == nil {
		return nil
	}
	select {
	case <-t.granted:
		if t.err != nil {
			return t.err
		}
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.remove(t) && t.err == nil {
		q.pass() // it had just become its turn
	}
	return context.Cause(ctx)
}

// leave ends the turn, once.
func (t *turn) leave() {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.held {
		t.held = false
		q.ended(time.Since(t.begun))
		q.pass()
	}
}

// yield passes on a turn that was long enough, if others wait, and waits for the next one.
func (t *turn) yield(ctx context.Context) error {
	ticket := t.pass()
	if ticket == nil {
		return nil
	}
	err := t.queue.await(ctx, ticket)
	t.begun, t.held = time.Now(), err == nil
	return err
}

// pass gives up a turn that was long enough, if others wait, for a ticket of the next one.
func (t *turn) pass() *ticket {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	took := time.Since(t.begun)
	if q.waiting == 0 || took < q.slice {
		return nil
	}
	ticket := &ticket{client: t.client, resumed: true, granted: make(chan struct{})}
	q.add(ticket)
	q.ended(took)
	q.pass()
	t.held = false
	return ticket
}

func (q *queue) ended(took time.Duration) {
	if q.mean == 0 {
		q.mean = took
	} else {
		q.mean += (took - q.mean) / 4
	}
}

// pass gives the turn to the next one.
func (q *queue) pass() {
	if len(q.turns) == 0 {
		q.busy = false
		q.idle.Broadcast()
		return
	}
	l := q.turns[0]
	u := l.users[0]
	t := u.tickets[0]
	q.turns = append(q.turns[1:], l)
	l.users = append(l.users[1:], u)
	q.remove(t)
	close(t.granted)
}

// add makes a ticket the last of its user, or the first if it had a turn before.
func (q *queue) add(t *ticket) {
	at := slices.IndexFunc(q.turns, func(l *line) bool { return l.address == t.address })
	if at < 0 {
		at, q.turns = len(q.turns), append(q.turns, &line{address: t.address})
	}
	l := q.turns[at]
	if at = slices.IndexFunc(l.users, func(u *user) bool { return u.name == t.user }); at < 0 {
		at, l.users = len(l.users), append(l.users, &user{name: t.user})
	}
	u := l.users[at]
	if t.resumed {
		u.tickets = slices.Insert(u.tickets, 0, t)
	} else {
		u.tickets = append(u.tickets, t)
	}
	l.waiting++
	q.waiting++
}

// remove takes a ticket back; false if it waits no more.
func (q *queue) remove(t *ticket) bool {
	for i, l := range q.turns {
		for j, u := range l.users {
			k := slices.Index(u.tickets, t)
			if k < 0 {
				continue
			}
			if u.tickets = slices.Delete(u.tickets, k, k+1); len(u.tickets) == 0 {
				l.users = slices.Delete(l.users, j, j+1)
			}
			if l.waiting--; l.waiting == 0 {
				q.turns = slices.Delete(q.turns, i, i+1)
			}
			q.waiting--
			return true
		}
	}
	return false
}

// victim returns the ticket whose place a newcomer gets, or nil if the newcomer has its share already.
func (q *queue) victim(c client) *ticket {
	mine, own := &line{}, &user{}
	most := mine
	for _, l := range q.turns {
		if l.address == c.address {
			mine = l
		}
		if l.waiting > most.waiting {
			most = l
		}
	}
	if most.waiting <= mine.waiting+1 {
		most = mine
	}
	largest := &user{}
	for _, u := range most.users {
		if most == mine && u.name == c.user {
			own = u
		}
		if len(u.tickets) >= len(largest.tickets) {
			largest = u
		}
	}
	if n := len(largest.tickets); n > 0 && (most != mine || n > len(own.tickets)+1) {
		return largest.tickets[n-1]
	}
	return nil
}

// close rejects new requests, and waiting ones that never had a turn.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	var away []*ticket
	for _, l := range q.turns {
		for _, u := range l.users {
			for _, t := range u.tickets {
				if !t.resumed {
					away = append(away, t)
				}
			}
		}
	}
	for _, t := range away {
		q.remove(t)
		t.err = errStopping()
		close(t.granted)
	}
}

// state reports whether a request decodes, how many wait, and whether more are turned away.
func (q *queue) state() (busy bool, waiting int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy, q.waiting, q.closed
}
