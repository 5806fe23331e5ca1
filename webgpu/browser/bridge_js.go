package browser

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hack-pad/safejs"

	"foretoken/webgpu"
)

// bridge is Go's end of a replay object: requests with an answer, and the events that come unasked.
type bridge struct {
	hot     hot
	done    chan finished
	replay  safejs.Value
	funcs   []safejs.Func
	timeout time.Duration

	mu       sync.Mutex // held for moments only, never while waiting
	pending  map[int]chan answer
	asked    int
	lost     chan struct{} // closed when the device is lost or destroyed
	why      error         // set before lost is closed
	reported error         // the first uncaptured error since the last call
}

type answer struct {
	value safejs.Value
	err   error
}

type opened struct {
	replay safejs.Value
	err    error
}

func newBridge() *bridge {
	return &bridge{
		done:    make(chan finished, 1),
		pending: map[int]chan answer{},
		lost:    make(chan struct{}),
	}
}

// open asks replay.js for a device. The channel has room for the outcome.
func (b *bridge) open() (<-chan opened, error) {
	global, err := safejs.Global().Get("foretokenReplay")
	if err != nil || global.Type() != safejs.TypeObject {
		return nil, errors.New("browser: replay.js is not loaded: a page must load it into the worker before it " +
			"starts Go")
	}
	outcome := make(chan opened, 1)
	callbacks := map[string]any{"done": b.hot.onDone(b.done)}
	for name, f := range map[string]func(args []safejs.Value){
		"opened": func(args []safejs.Value) { outcome <- b.onOpened(args) },
		"answer": b.onAnswer,
		"event":  b.onEvent,
	} {
		fn, err := safejs.FuncOf(func(_ safejs.Value, args []safejs.Value) any { f(args); return nil })
		if err != nil {
			b.release()
			return nil, err
		}
		b.funcs = append(b.funcs, fn)
		callbacks[name] = fn
	}
	if _, err := global.Call("open", callbacks); err != nil {
		b.release()
		return nil, err
	}
	return outcome, nil
}

func (b *bridge) onOpened(args []safejs.Value) opened {
	kind, _ := args[1].String()
	why, _ := args[2].String()
	switch kind {
	case "":
		return opened{replay: args[0]}
	case "unavailable":
		return opened{err: fmt.Errorf("browser: %w: %s", webgpu.ErrUnavailable, why)}
	}
	return opened{err: fmt.Errorf("browser: %w: the browser did not open a device: %s", webgpu.ErrUnavailable, why)}
}

func (b *bridge) onAnswer(args []safejs.Value) {
	id, _ := args[0].Int()
	failed, _ := args[1].Bool()
	a := answer{value: args[2]}
	if failed {
		why, _ := args[2].String()
		a.err = told(why)
	}
	b.mu.Lock()
	c := b.pending[id]
	delete(b.pending, id)
	b.mu.Unlock()
	if c != nil {
		c <- a // there is room for it
	}
}

// told converts an error text of JavaScript to an error of its kind.
func told(why string) error {
	if what, ok := strings.CutPrefix(why, "out of memory: "); ok {
		return fmt.Errorf("%w: %s", webgpu.ErrNoMemory, what)
	}
	return errors.New(why)
}

func (b *bridge) onEvent(args []safejs.Value) {
	kind, _ := args[0].String()
	why, _ := args[1].String()
	if kind == "lost" {
		b.lose(fmt.Errorf("%w: %s", webgpu.ErrDeviceLost, why))
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reported == nil {
		b.reported = told(why)
	}
}

// lose closes lost, once.
func (b *bridge) lose(why error) (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why != nil {
		return false
	}
	b.why = why
	close(b.lost)
	return true
}

// takeReported returns the first error that came unasked since the last time.
func (b *bridge) takeReported() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.reported
	b.reported = nil
	return err
}

// request calls a method of the replay object and waits for its answer.
func (b *bridge) request(method string, args ...any) (safejs.Value, error) {
	c := make(chan answer, 1)
	b.mu.Lock()
	b.asked++
	id := b.asked
	b.pending[id] = c
	b.mu.Unlock()
	if _, err := b.replay.Call("request", append([]any{id, method}, args...)...); err != nil {
		return safejs.Value{}, err
	}
	timer := time.NewTimer(b.timeout)
	defer timer.Stop()
	select {
	case a := <-c:
		return a.value, b.orLost(a.err)
	case <-b.lost:
		return safejs.Value{}, b.why
	case <-timer.C:
		b.mu.Lock()
		delete(b.pending, id)
		b.mu.Unlock()
		return safejs.Value{}, fmt.Errorf("%w: %s waited %v", webgpu.ErrTimeout, method, b.timeout)
	}
}

// orLost returns why the device is lost in place of an error that came of it.
// A browser may report the consequence a moment before the cause.
func (b *bridge) orLost(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-b.lost:
		return b.why
	case <-time.After(20 * time.Millisecond):
		return err
	}
}

// fault returns why submit or a map failed.
func (b *bridge) fault() error {
	v, err := b.replay.Get("fault")
	if err != nil {
		return err
	}
	s, err := v.String()
	if err != nil {
		return err
	}
	return b.orLost(errors.New(s))
}

// release lets the callbacks go. JavaScript must not call them any more.
func (b *bridge) release() {
	for _, f := range b.funcs {
		f.Release()
	}
	b.hot.release()
}
