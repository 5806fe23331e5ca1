package native

import (
	"syscall"
	"time"
)

// pause sleeps. time.Sleep takes a millisecond or two here when nothing else goes on, however short it was to be: the Go runtime
// waits for its timers in whole milliseconds. A level of a draft takes less.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal ends it early, and whoever waits looks again
}
