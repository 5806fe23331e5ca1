// matmul.c for ARM processors with dot products of bytes.
#include "kernel.h"
#ifdef DOTPROD
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif

#define BYTE_PRODUCTS
#define matmul matmul_dotprod
#define matmul_needs matmul_dotprod_needs
#include "matmul.c"

#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
