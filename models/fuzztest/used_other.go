//go:build !unix

package fuzztest

import "time"

var begun = time.Now()

// used is the time by the clock: there is no other.
func used() time.Duration { return time.Since(begun) }
