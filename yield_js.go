package foretoken

import (
	"context"
	"time"
)

// yieldOf returns a function that long work calls about every millisecond: it reports why ctx has ended. So that a
// message can end it, it lets JavaScript's event loop run every 50 ms.
func yieldOf(ctx context.Context) func() error {
	last := time.Now()
	return func() error {
		if time.Since(last) > 50*time.Millisecond {
			time.Sleep(time.Millisecond)
			last = time.Now()
		}
		return context.Cause(ctx)
	}
}
