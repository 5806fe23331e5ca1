//go:build cgo

package native

import (
	"syscall"
	"time"
)

// pause sleeps. time.Sleep takes at least a millisecond in an otherwise idle program, because the Go runtime waits
// for its timers in whole milliseconds. A draft's level takes less.
func pause(d time.Duration) {
	t := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&t, nil) // a signal ends it early, and whoever waits looks again
}
