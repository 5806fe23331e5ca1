package fuzztest

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// failed is a test that remembers why it failed.
type failed struct {
	testing.TB
	why string
}

func (*failed) Helper() {}
func (f *failed) Fatalf(format string, args ...any) {
	if f.why == "" {
		f.why = fmt.Sprintf(format, args...)
	}
}

var kept []byte

func TestBound(t *testing.T) {
	allocate := func(n int) func() {
		return func() { kept = make([]byte, n); runtime.KeepAlive(kept) }
	}
	for _, c := range []struct {
		size, bytes int
		fails       bool
	}{{0, 1 << 10, false}, {0, Overhead + 1<<20, true}, {4 << 20, Overhead + 1<<20, false}} {
		f := &failed{TB: t}
		if Bound(f, c.size, allocate(c.bytes)); (f.why != "") != c.fails {
			t.Errorf("%d bytes for an input of %d: %q", c.bytes, c.size, f.why)
		}
	}
	kept = nil
	f := &failed{TB: t}
	const limit = 20 * time.Millisecond
	bound(f, 0, limit, func() {
		for begun := used(); used()-begun <= limit; {
		}
	})
	if f.why == "" {
		t.Error("work without end is let through")
	}
}

func TestRefusal(t *testing.T) {
	for text, fails := range map[string]bool{"x: no": false, "y: no": true, "x: a\nb": true, "x: a\rb": true, "x: " +
		string(make([]byte, 2000)): true} {
		f := &failed{TB: t}
		if Refusal(f, errors.New(text), "x: "); (f.why != "") != fails {
			t.Errorf("%.20q: %q", text, f.why)
		}
	}
}
