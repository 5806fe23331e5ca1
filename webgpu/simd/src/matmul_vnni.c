// matmul.c for processors with AVX-512's VNNI, in vectors of 32 bytes.
#include "kernel.h"
#ifdef AVX2
#include <immintrin.h>

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,avx512vl,avx512vnni"))), apply_to = function)
#else
#pragma GCC target("avx2,avx512vl,avx512vnni")
#endif

#define BYTES256
#define VNNI
#define matmul matmul_vnni
#define matmul_needs matmul_vnni_needs
#include "matmul.c"

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
