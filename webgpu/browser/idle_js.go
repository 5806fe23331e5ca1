package browser

import (
	"math"
	"sync/atomic"
	"time"
)

// lastUse tells how long a device has been idle. Its times count from start by the monotonic clock: a difference of
// Unix times is wrong after someone sets the machine's clock.
type lastUse struct {
	start time.Time
	ended atomic.Int64 // from start to the end of the last run, in nanoseconds; later than any time during a run
}

func (u *lastUse) init() {
	u.start = time.Now()
	u.ended.Store(math.MinInt64 / 2) // long ago
}

func (u *lastUse) begin() { u.ended.Store(math.MaxInt64) }
func (u *lastUse) end()   { u.ended.Store(int64(time.Since(u.start))) }

// idle returns the time since the last run ended; it is negative during a run.
func (u *lastUse) idle() time.Duration { return time.Since(u.start) - time.Duration(u.ended.Load()) }
