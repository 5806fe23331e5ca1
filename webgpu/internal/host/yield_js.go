package host

import "time"

// yield lets the browser deliver events if its last chance was long ago: WebAssembly has one thread, and without
// this a page that decodes on the processor would not receive a stop.
func yield(last time.Time) time.Time {
	if time.Since(last) < 50*time.Millisecond {
		return last
	}
	time.Sleep(time.Millisecond) // less has passed before the scheduler goes idle, and the event loop never runs
	return time.Now()
}
