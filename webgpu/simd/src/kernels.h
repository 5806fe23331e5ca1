// The kernels, each with the Go function that records it.
KERNEL(norm)            // layer.RecordNorm
KERNEL(norm_heads)      // layer.RecordNormHeads
KERNEL(silu)            // layer.RecordSiLU
KERNEL(accept_layer)    // layer.RecordAcceptLayer
KERNEL(accept_score)    // layer.RecordAcceptScore
KERNEL(feature_store)   // layer.RecordStoreFeatures
KERNEL(feature_gather)  // layer.RecordGatherFeatures
KERNEL(feature_parent)  // layer.RecordParentFeatures

KERNEL(rope)                 // attention.RecordRope
KERNEL_SCRATCH(attention)    // attention.Record

KERNEL_SCRATCH(matmul)  // matmul.Record, RecordNext, RecordSiLU, RecordRope
KERNEL(embed)           // layer.RecordEmbed, RecordEmbedNext
