// The kernels, each with the Go function that records it.
KERNEL(norm)
