// matmul.c for processors with AVX2.
#include "kernel.h"
#ifdef AVX2
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

#define BYTES256
#define matmul matmul_avx2
#define matmul_needs matmul_avx2_needs
#include "matmul.c"

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
