// Package native is the webgpu.Device of desktops: wgpu-native behind
// github.com/rajveermalviya/go-webgpu, over Vulkan, Metal or Direct3D 12.
//
// All driver calls of a device are made by one goroutine. A call of the contract hands it work and waits for the
// answer, for Destroy, or for the timeout, whichever is first; so a driver that blocks never blocks the program,
// and what the driver holds is released by the goroutine that made it.
//
// The WGSL compiler of this version of wgpu-native knows no override, no subgroups, no packed products and
// no f16, and converts abstract integers in few places: shaders meant for it write 0u and 1.0.
package native
