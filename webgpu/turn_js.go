package webgpu

import (
	"sync"
	"syscall/js"
)

// Turn returns when the events that wait have been delivered. WebAssembly has one thread: while a program computes, no
// answer of a GPU arrives, and no message of the page.
func Turn() {
	l := loop()
	l.port.Call("postMessage", nil)
	<-l.came
}

// messages go from this thread to itself. One comes at once, behind the events that wait; a timer comes milliseconds
// later, where timers set timers.
type messages struct {
	port js.Value
	came chan struct{}
}

var loop = sync.OnceValue(func() messages {
	channel := js.Global().Get("MessageChannel").New()
	m := messages{port: channel.Get("port2"), came: make(chan struct{}, 1)}
	channel.Get("port1").Set("onmessage", js.FuncOf(func(js.Value, []js.Value) any {
		m.came <- struct{}{}
		return nil
	}))
	return m
})
