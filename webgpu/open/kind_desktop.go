//go:build !js

package open

// Accelerator is the backend of this build besides the cpu device.
const Accelerator = "native"

const alias = Accelerator
