package warmup

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

// Turn is the lock of a session: a request holds it, work on the session's models, or a step of warmup. It counts who
// waits for it, so that work while idle can give way.
type Turn struct {
	mu      sync.Mutex
	waiting atomic.Int32
}

// Lock waits for the turn. Work in the context of Idle, which may hold it, ends.
func (t *Turn) Lock() {
	t.waiting.Add(1)
	t.mu.Lock()
	t.waiting.Add(-1)
}

// TryLock takes the turn if nobody holds it.
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
