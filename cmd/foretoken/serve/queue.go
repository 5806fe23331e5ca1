package serve

import (
	"container/list"
	"context"
	"math"
	"net/http"
	"sync"
	"time"

	"foretoken/openai"
)

// queue gives one request at a time its turn. The others wait, at most limit of them. Addresses take turns, and the
// users of an address take that address's turns: one that asks for a lot at once delays its own requests, not those
// of others. Next is whoever had least of the last seconds, of equals the one that has waited longest; a request that
// gave up its turn waits behind those that wait already. In a full queue a newcomer gets the place of the latest
// request of the address, or else of the user, that has most of them.
type queue struct {
	limit int
	slice time.Duration // after which a turn passes on

	mu      sync.Mutex
	busy    bool
	idle    sync.Cond // of busy
	closed  bool
	waiting int
	lines   map[string]*line // addresses with waiting requests
	joined  int              // see since
	mean    time.Duration
	served  served
}

// client is whose turn a request takes. A request names its user itself: that only divides its address's turns.
// Requests that name none are one user a connection.
type client struct {
	address, user string
	connection    uint64 // 0 where user is named
}

// line is an address with waiting requests.
type line struct {
	since   int // orders addresses by when they began to wait, or had their last turn
	waiting int
	users   map[client]*user
}

// user holds the waiting requests of one user, the one that has waited longest first.
type user struct {
	since   int // as a line's
	tickets list.List
}

// ticket is a waiting request. granted is closed when it is its turn, or when it lost its place.
type ticket struct {
	client
	place   *list.Element // in its user's tickets; nil once it waits no more
	resumed bool          // it had a turn before
	granted chan struct{}
	err     *openai.Error // set before granted is closed
}

// turnTime is the length of a turn after which it passes on between two texts of a request.
const turnTime = time.Second

func newQueue(limit int, slice time.Duration) *queue {
	q := &queue{limit: limit, slice: slice, lines: map[string]*line{}}
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

// turn is the right to decode, or to read a request, until leave.
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
func (q *queue) full() *openai.Error {
	return &openai.Error{Status: http.StatusTooManyRequests, Type: openai.TypeLimit, Code: "queue_full",
		Retry:   min(max(q.mean, time.Second), 2*time.Minute),
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
		q.advance() // it had just become its turn
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
		q.ended(t)
		q.advance()
	}
}

// yield passes on a turn that was long enough, if others wait, and waits for the next one.
func (t *turn) yield(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ticket := t.cede()
	if ticket == nil {
		return nil
	}
	err := t.queue.await(ctx, ticket)
	t.begun, t.held = time.Now(), err == nil
	return err
}

// cede gives up a turn that was long enough, if others wait, for a ticket of the next one.
func (t *turn) cede() *ticket {
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting == 0 || time.Since(t.begun) < q.slice {
		return nil
	}
	ticket := &ticket{client: t.client, resumed: true, granted: make(chan struct{})}
	q.ended(t)
	q.add(ticket)
	q.advance()
	t.held = false
	return ticket
}

// ended accounts for a turn.
func (q *queue) ended(t *turn) {
	now := time.Now()
	took := now.Sub(t.begun)
	if q.mean == 0 {
		q.mean = took
	} else {
		q.mean += (took - q.mean) / 4
	}
	q.served.add(now, client{address: t.client.address}, took)
	q.served.add(now, t.client, took)
}

// advance gives the turn to the next ticket.
func (q *queue) advance() {
	if q.waiting == 0 {
		q.busy = false
		q.idle.Broadcast()
		return
	}
	now := time.Now()
	address, l := next(q.lines, func(address string, l *line) (seconds, since int) {
		return q.served.seconds(now, client{address: address}), l.since
	})
	c, u := next(l.users, func(c client, u *user) (seconds, since int) {
		return q.served.seconds(now, c), u.since
	})
	t := u.tickets.Front().Value.(*ticket)
	q.remove(t)
	q.joined++
	if l := q.lines[address]; l != nil {
		l.since = q.joined
		if u := l.users[c]; u != nil {
			u.since = q.joined
		}
	}
	close(t.granted)
}

// next returns the one that had least of the last seconds, of equals the one that has waited longest.
func next[K comparable, V any](all map[K]V, rank func(K, V) (seconds, since int)) (key K, value V) {
	least, longest := math.MaxInt, 0
	for k, v := range all {
		seconds, since := rank(k, v)
		if seconds < least || seconds == least && since < longest {
			key, value, least, longest = k, v, seconds, since
		}
	}
	return key, value
}

// add makes a ticket the last of its user.
func (q *queue) add(t *ticket) {
	q.joined++
	l := q.lines[t.address]
	if l == nil {
		l = &line{since: q.joined, users: map[client]*user{}}
		q.lines[t.address] = l
	}
	u := l.users[t.client]
	if u == nil {
		u = &user{since: q.joined}
		l.users[t.client] = u
	}
	t.place = u.tickets.PushBack(t)
	l.waiting++
	q.waiting++
}

// remove takes a ticket back; false if it waits no more.
func (q *queue) remove(t *ticket) bool {
	if t.place == nil {
		return false
	}
	l := q.lines[t.address]
	u := l.users[t.client]
	u.tickets.Remove(t.place)
	t.place = nil
	if u.tickets.Len() == 0 {
		delete(l.users, t.client)
	}
	if l.waiting--; l.waiting == 0 {
		delete(q.lines, t.address)
	}
	q.waiting--
	return true
}

// victim returns the ticket whose place a newcomer gets, or nil if the newcomer has its share already.
func (q *queue) victim(c client) *ticket {
	mine := q.lines[c.address]
	if mine == nil {
		mine = &line{}
	}
	most := mine
	for _, l := range q.lines {
		if l.waiting > most.waiting || l.waiting == most.waiting && l.since > most.since {
			most = l
		}
	}
	if most.waiting <= mine.waiting+1 {
		most = mine
	}
	largest, own := &user{}, 0
	if u := most.users[c]; u != nil {
		own = u.tickets.Len()
	}
	for _, u := range most.users {
		if n := u.tickets.Len() - largest.tickets.Len(); n > 0 || n == 0 && u.since > largest.since {
			largest = u
		}
	}
	if n := largest.tickets.Len(); n == 0 || most == mine && n <= own+1 {
		return nil
	}
	for e := largest.tickets.Back(); e != nil; e = e.Prev() {
		if t := e.Value.(*ticket); !t.resumed { // of which nothing is done yet
			return t
		}
	}
	return largest.tickets.Back().Value.(*ticket)
}

// close rejects new requests, and waiting ones that never had a turn.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, l := range q.lines {
		for _, u := range l.users {
			for e := u.tickets.Front(); e != nil; {
				t := e.Value.(*ticket)
				if e = e.Next(); !t.resumed {
					q.remove(t)
					t.err = errStopping()
					close(t.granted)
				}
			}
		}
	}
}

// state reports whether a request decodes, how many wait, and whether more are turned away.
func (q *queue) state() (busy bool, waiting int, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy, q.waiting, q.closed
}

// served sums the time of the turns that ended in the last seconds. The key of an address names no user.
type served struct {
	begun time.Time
	last  int // the latest second since then
	sum   map[client]time.Duration
	parts [servedSeconds]map[client]time.Duration // of sum, by the second
}

// Turns count for servedSeconds. Of more than mostServed clients in that time, the others' do not.
const (
	servedSeconds = 10
	mostServed    = 4096
)

// add accounts for a turn.
func (s *served) add(now time.Time, c client, took time.Duration) {
	s.forget(now)
	if _, ok := s.sum[c]; !ok && len(s.sum) >= mostServed {
		return
	}
	part := &s.parts[s.last%servedSeconds]
	if *part == nil {
		*part = map[client]time.Duration{}
	}
	took = min(took, servedSeconds*time.Second)
	(*part)[c] += took
	s.sum[c] += took
}

// seconds returns the whole seconds that a client was served.
func (s *served) seconds(now time.Time, c client) int {
	s.forget(now)
	return int(s.sum[c] / time.Second)
}

// forget subtracts what is older than servedSeconds.
func (s *served) forget(now time.Time) {
	if s.sum == nil {
		s.begun, s.sum = now, map[client]time.Duration{}
	}
	second := int(now.Sub(s.begun) / time.Second)
	for s.last = max(s.last, second-servedSeconds); s.last < second; {
		s.last++
		part := &s.parts[s.last%servedSeconds]
		for c, took := range *part {
			if s.sum[c] -= took; s.sum[c] <= 0 {
				delete(s.sum, c)
			}
		}
		*part = nil
	}
}
