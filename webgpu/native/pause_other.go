//go:build cgo && !js && !linux

package native

import "time"

// pause sleeps.
func pause(d time.Duration) { time.Sleep(d) }
