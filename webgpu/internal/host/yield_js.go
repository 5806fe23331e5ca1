package host

import (
	"sync"
	"syscall/js"
	"time"
)

// yield lets the browser deliver events if its last chance was long ago: WebAssembly has one thread, and without
// this a page that decodes on the processor would not receive a stop.
func yield(last time.Time) time.Time {
	if time.Since(last) < 50*time.Millisecond {
		return last
	}
	turn := loop()
	turn.port.Call("postMessage", nil)
	<-turn.came
	return time.Now()
}

// turns are messages from this thread to itself. One comes after the events that wait already; a timer comes
// milliseconds later, where timers set timers.
type turns struct {
	port js.Value
	came chan struct{}
}

var loop = sync.OnceValue(func() turns {
	channel := js.Global().Get("MessageChannel").New()
	t := turns{port: channel.Get("port2"), came: make(chan struct{}, 1)}
	channel.Get("port1").Set("onmessage", js.FuncOf(func(js.Value, []js.Value) any {
		t.came <- struct{}{}
		return nil
	}))
	return t
})
