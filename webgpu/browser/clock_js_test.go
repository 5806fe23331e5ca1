package browser

import (
	"syscall/js"
	"testing"
	"time"

	"foretoken/webgpu"
)

// TestRunsWhileTheClockIsSet has each reading of the machine's clock, which Go takes with Date.prototype.getTime, be
// decades from the one before.
//
// Attack: a machine's clock that is set decades back or forth
// Bound: no duration changes: all are of the monotonic clock
func TestRunsWhileTheClockIsSet(t *testing.T) {
	d := open(t, Options{ReadTimeout: time.Minute})
	b, err := d.NewBuffer("b", 256, webgpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	readings := 0
	set := js.FuncOf(func(js.Value, []js.Value) any {
		readings++
		return 1e12 * float64(readings%2)
	})
	dates := js.Global().Get("Date").Get("prototype")
	real := dates.Get("getTime")
	t.Cleanup(func() {
		dates.Set("getTime", real)
		set.Release()
	})
	dates.Set("getTime", set)
	begin := time.Now()
	for range 10 {
		before := d.Counters().ReadWait
		if err := d.Run(nil, webgpu.Region{Buffer: b, Dst: make([]byte, 256)}); err != nil {
			t.Fatal(err)
		}
		if wait := d.Counters().ReadWait - before; wait < 0 || wait > time.Minute {
			t.Fatalf("a run waited for %v", wait)
		}
	}
	if took := time.Since(begin); took < 0 || took > time.Minute || readings == 0 {
		t.Fatalf("ten runs took %v; the clock was read %d times", took, readings)
	}
}
