package browser

import (
	"fmt"
	"syscall/js"

	"github.com/hack-pad/safejs"
)

// hot is the path that every Run takes. It is the one file that uses bare JavaScript values: functions and arrays
// are looked up once, and what panics here becomes an error here.
type hot struct {
	submit js.Value // replay.submit, bound
	inbox  js.Value // a Uint8Array that JavaScript reads commands from
	size   int      // of inbox
	outbox js.Value // a Uint8Array that JavaScript leaves results in
	done   js.Func
}

// finished is JavaScript's message that the results of a run have arrived.
type finished struct{ run, status, stagingMade int }

// onDone makes the callback that receives finished. It never blocks: the channel must have room for one message,
// and an unread one makes way for the next.
func (h *hot) onDone(c chan finished) safejs.Value {
	h.done = js.FuncOf(func(_ js.Value, args []js.Value) any {
		f := finished{args[0].Int(), args[1].Int(), args[2].Int()}
		select {
		case <-c:
		default:
		}
		c <- f
		return nil
	})
	return safejs.Safe(h.done.Value)
}

// bind keeps what Run needs of the replay object.
func (h *hot) bind(submit safejs.Value) { h.submit = safejs.Unsafe(submit) }

func (h *hot) setInbox(inbox safejs.Value) (err error) {
	defer caught(&err)
	h.inbox = safejs.Unsafe(inbox)
	h.size = h.inbox.Length()
	return nil
}

func (h *hot) setOutbox(outbox safejs.Value) { h.outbox = safejs.Unsafe(outbox) }

// hand copies the bytes over and has JavaScript do the commands at an offset.
func (h *hot) hand(bytes []byte, at int, submitting bool, run int) (status int, err error) {
	defer caught(&err)
	js.CopyBytesToJS(h.inbox, bytes)
	return h.submit.Invoke(at, submitting, run).Int(), nil
}

// take copies results, as many as dst has room for.
func (h *hot) take(dst []byte) (err error) {
	defer caught(&err)
	if n := js.CopyBytesToGo(dst, h.outbox); n != len(dst) {
		return fmt.Errorf("%d bytes came back, want %d", n, len(dst))
	}
	return nil
}

func (h *hot) release() { h.done.Release() }

func caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("JavaScript: %v", r)
	}
}
