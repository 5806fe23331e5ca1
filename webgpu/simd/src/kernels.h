// The kernels, each with what it needs and the Go function that records it.
KERNEL(norm, by_rows)                 // layer.RecordNorm
KERNEL(norm_heads, any_parts)         // layer.RecordNormHeads
KERNEL(norm_row, any_parts)           // layer.RecordNormRow
KERNEL(add_norm, by_rows)             // layer.RecordAddNorm, RecordAddNormNext
KERNEL(silu, any_parts)               // layer.RecordSiLU
KERNEL(accept_layer, any_parts)       // layer.RecordAcceptLayer
KERNEL(accept_score, by_rows)         // layer.RecordAcceptScore
KERNEL(feature_store, any_parts)      // layer.RecordStoreFeatures
KERNEL(feature_gather, any_parts)     // layer.RecordGatherFeatures
KERNEL(feature_parent, any_parts)     // layer.RecordParentFeatures

KERNEL(rope, any_parts)               // attention.RecordRope
KERNEL(attention, attention_needs)    // attention.Record

KERNEL(matmul, matmul_needs)          // matmul.Record, RecordNext, RecordSiLU, RecordRope
#ifdef AVX2
KERNEL(matmul_avx2, matmul_avx2_needs)
KERNEL(matmul_vnni, matmul_vnni_needs)
#endif
#ifdef DOTPROD
KERNEL(matmul_dotprod, matmul_dotprod_needs)
#endif
KERNEL(embed, any_parts)              // layer.RecordEmbed, RecordEmbedNext

KERNEL(adjust, any_parts)             // sample.RecordAdjust
KERNEL(divergence, by_rows)           // sample.RecordDivergence
KERNEL(filter, filter_needs)          // sample.RecordFilter
KERNEL(keep, any_parts)               // sample.RecordKeep
KERNEL(mask, any_parts)               // sample.RecordMask
KERNEL(pick, by_rows)                 // sample.Record
KERNEL(reject, by_rows)               // sample.RecordReject
KERNEL(scan, any_parts)               // sample.Record
KERNEL(score, by_rows)                // sample.RecordScore
KERNEL(spread, any_parts)             // sample.RecordSpread

KERNEL(gather, in_one)                // tree.RecordGather
KERNEL(prune, in_one)                 // tree.RecordPrune
KERNEL(select_beams, in_one)          // tree.RecordSelect
KERNEL(siblings, by_rows)             // tree.RecordSiblings
KERNEL(verify, verify_needs)          // tree.RecordVerify

KERNEL(stream, by_rows)               // stream.Record
