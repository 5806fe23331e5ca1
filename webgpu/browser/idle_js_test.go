package browser

import (
	"testing"
	"time"

	"github.com/hack-pad/safejs"
)

// TestIdleWhenTheClockIsSet sets the machine's clock, which Go reads with Date.prototype.getTime, far back and forth.
//
// Attack: a machine's clock that is set decades back or forth
// Bound: no duration changes: all are of the monotonic clock
func TestIdleWhenTheClockIsSet(t *testing.T) {
	get := func(v safejs.Value, name string) safejs.Value {
		t.Helper()
		got, err := v.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	dates := get(get(safejs.Global(), "Date"), "prototype")
	number, real := get(safejs.Global(), "Number"), get(dates, "getTime")
	t.Cleanup(func() { _ = dates.Set("getTime", real) })
	set := func(ms float64) {
		t.Helper()
		fixed, err := number.Call("bind", safejs.Null(), ms) // a function that returns ms
		if err == nil {
			err = dates.Set("getTime", fixed)
		}
		if got := time.Now().UnixMilli(); err != nil || got != int64(ms) {
			t.Fatalf("the clock is at %d, want %v: %v", got, ms, err)
		}
	}
	var u lastUse
	u.init()
	if got := u.idle(); got < time.Hour {
		t.Errorf("idle for %v before the first run", got)
	}
	for _, ms := range []float64{0, 4e12} { // 1970 and 2096
		u.begin()
		if got := u.idle(); got > 0 {
			t.Errorf("idle for %v during a run", got)
		}
		u.end()
		set(ms)
		if got := u.idle(); got < 0 || got > time.Hour {
			t.Errorf("idle for %v after the clock was set to %v ms", got, ms)
		}
	}
}
