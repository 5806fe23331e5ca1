//go:build !js

package webgpu

// Turn does nothing: natively other threads deliver events.
func Turn() {}
