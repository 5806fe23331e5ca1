// Package reference is a webgpu.Device that runs each kernel's Go reference on the host. It compiles no WGSL; everything
// else it checks as a real device would, so a program that runs here is one that WebGPU accepts. It is the device
// of last resort where there is no GPU, and the one that tests can always open.
package reference
