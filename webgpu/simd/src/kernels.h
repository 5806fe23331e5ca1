// The kernels, each with the Go function that records it.
KERNEL(norm)

KERNEL_SCRATCH(attention)    // attention.Record
KERNEL(rope)                 // attention.RecordRope
