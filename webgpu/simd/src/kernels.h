// The kernels, each with the Go function that records it.
KERNEL(norm)

KERNEL_SCRATCH(matmul)  // matmul.Record, RecordNext, RecordSiLU, RecordRope
KERNEL(embed)           // layer.RecordEmbed, RecordEmbedNext
