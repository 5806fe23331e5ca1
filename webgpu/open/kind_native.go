//go:build !js

package open

// Accelerator is the kind of device that this build drives besides the cpu.
const Accelerator = "native"
