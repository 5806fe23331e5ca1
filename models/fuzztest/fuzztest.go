// Package fuzztest holds fuzz targets to what the programs promise of any input: memory bounded by its size,
// an end in bounded time, and refusals of one line. Time is the processor's, not the clock's: targets run beside
// each other, and one that had to wait has not hung. (Go itself ends an input after ten seconds by the clock.)
package fuzztest

import (
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

const (
	// Overhead limits the bytes that reading an input allocates, beyond the input's size.
	Overhead = 64 << 20
	// Limit bounds the processor time of an input. Targets are compiled with counters, several times
	// slower than programs are.
	Limit = 3 * time.Second
)

// Allocated returns the bytes allocated on Go's heap since the program began.
func Allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// Bound does the work on an input of so many bytes and fails if it allocates more than that and Overhead, or
// takes longer than Limit.
func Bound(t testing.TB, size int, work func()) {
	t.Helper()
	bound(t, size, Limit, work)
}

// BoundTimes is Bound for a reader that may take so many times an input's size, and logs how many times it took.
func BoundTimes(t testing.TB, times, size int, work func()) {
	t.Helper()
	memory := Allocated()
	bound(t, times*size, Limit, work)
	made := Allocated() - memory
	t.Logf("%d bytes of input: %d bytes allocated, %.1f times as many", size, made, float64(made)/float64(max(size, 1)))
}

func bound(t testing.TB, size int, limit time.Duration, work func()) {
	t.Helper()
	memory, begun := Allocated(), used()
	work()
	if took := used() - begun; took > limit {
		t.Fatalf("an input of %d bytes took %v of the processor, want at most %v", size, took, limit)
	}
	if made := Allocated() - memory; made > uint64(size)+Overhead {
		t.Fatalf("an input of %d bytes had %d bytes allocated, want at most %d more than its size", size, made,
			Overhead)
	}
}

// Refusal fails for an error that is not one line of at most 2,000 bytes that begins with its package.
func Refusal(t testing.TB, err error, prefix string) {
	t.Helper()
	if text := err.Error(); !strings.HasPrefix(text, prefix) || strings.ContainsAny(text, "\n\r") || len(text) > 2000 {
		t.Fatalf("%.3000q is not one line that begins with %q", text, prefix)
	}
}

// Time returns what the work takes of the processor.
func Time(work func()) time.Duration {
	begun := used()
	work()
	return used() - begun
}
