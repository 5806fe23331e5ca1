package webgpu

import (
	"sync"
	"syscall/js"
)

// Turn lets the browser deliver events that wait. WebAssembly has one thread: while a program computes, no answer of a
// GPU arrives, and no message of the page.
func Turn() {
	l := loop()
	l.port.Call("postMessage", nil)
	<-l.came
}

// messages go from this thread to itself. One comes at once, mostly behind the events that wait; a timer that another
// timer set comes milliseconds later.
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
