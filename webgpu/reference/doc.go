// Package reference is a webgpu.Device that runs each kernel's Go reference on the host. It compiles no WGSL
// and checks everything else as a real device would, so WebGPU accepts a program that runs here. It is the device of
// last resort where there is no GPU, and the one that tests can always open.
package reference
