package webgpu

import (
	"sync"
	"syscall/js"
)

// Turn lets the browser deliver events that wait. WebAssembly has one thread: while a program computes, no answer of a
// GPU arrives, and no message of the page.
func Turn() { turn()() }

// turn returns a function that waits for a message from this thread to itself. One comes at once, mostly behind the
// events that wait; a timer that another timer set comes milliseconds later.
var turn = sync.OnceValue(func() func() {
	channel, came := js.Global().Get("MessageChannel").New(), make(chan struct{}, 1)
	channel.Get("port1").Set("onmessage", js.FuncOf(func(js.Value, []js.Value) any {
		came <- struct{}{}
		return nil
	}))
	port := channel.Get("port2")
	return func() {
		port.Call("postMessage", nil)
		<-came
	}
})
