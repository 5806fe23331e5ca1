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
KERNEL_NEEDS(attention)      // attention.Record

KERNEL_NEEDS(matmul)    // matmul.Record, RecordNext, RecordSiLU, RecordRope
KERNEL(embed)           // layer.RecordEmbed, RecordEmbedNext

KERNEL(adjust)          // sample.RecordAdjust
KERNEL(divergence)      // sample.RecordDivergence
KERNEL_NEEDS(filter)  // sample.RecordFilter
KERNEL(keep)            // sample.RecordKeep
KERNEL(mask)            // sample.RecordMask
KERNEL(pick)            // sample.Record
KERNEL(reject)          // sample.RecordReject
KERNEL(scan)            // sample.Record
KERNEL(score)           // sample.RecordScore
KERNEL(spread)          // sample.RecordSpread

KERNEL(gather)          // tree.RecordGather
KERNEL(prune)           // tree.RecordPrune
KERNEL(select)          // tree.RecordSelect
KERNEL(siblings)        // tree.RecordSiblings
KERNEL_NEEDS(verify)  // tree.RecordVerify
