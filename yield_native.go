//go:build !js

package foretoken

import "context"

// yieldOf returns a function that long work calls about every millisecond: it reports why ctx has ended.
func yieldOf(ctx context.Context) func() error { return func() error { return context.Cause(ctx) } }
