// The vector operations of the kernels: WebAssembly's intrinsics. In WebAssembly the compiler has them. For SSE4.1 and
// NEON this header defines those that the kernels use; each gives the bits that WebAssembly gives, for all operands but
// for the sign and payload of a NaN. Most are vector arithmetic of gcc and clang, the others instructions.
//
// A compiler may neither contract a product and a sum nor reorder sums. gcc contracts unless -std names an ISO
// standard; clang does what the pragma says.
#pragma once

#ifdef __wasm__
#include <wasm_simd128.h>

#define ANY_REGISTER "+r"
#else

#ifdef __FAST_MATH__
#error "-ffast-math changes the bits of results"
#endif
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#elif !defined(__STRICT_ANSI__)
#error "gcc contracts products and sums: compile with -std=c11"
#endif

#include <stdint.h>
#ifdef __SSE4_1__
#include <smmintrin.h>
#define ANY_REGISTER "+x"
#elif defined(__aarch64__)
#include <arm_neon.h>
#define ANY_REGISTER "+w"
#else
#error "the kernels need SSE4.1 (-msse4.1) or NEON"
#endif

#define VECTOR(of) of __attribute__((vector_size(16)))
typedef int32_t VECTOR(v128_t);
typedef int32_t VECTOR(i32x4);
typedef uint32_t VECTOR(u32x4);
typedef int16_t VECTOR(i16x8);
typedef uint16_t VECTOR(u16x8);
typedef int8_t VECTOR(i8x16);
typedef uint8_t VECTOR(u8x16);
typedef float VECTOR(f32x4);
#undef VECTOR

#define OP static inline __attribute__((always_inline))

// Loads and stores, which need no alignment.
OP v128_t wasm_v128_load(const void *from) {
  v128_t v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}
OP void wasm_v128_store(void *to, v128_t v) { __builtin_memcpy(to, &v, sizeof v); }
OP v128_t wasm_v128_load32_splat(const void *from) {
  int32_t x;
  __builtin_memcpy(&x, from, sizeof x);
  return (v128_t){x, x, x, x};
}
OP void wasm_v128_store32_lane(void *to, v128_t v, int lane) {
  int32_t x = v[lane];
  __builtin_memcpy(to, &x, sizeof x);
}

// Vectors of numbers.
OP v128_t wasm_i8x16_splat(int8_t x) {
  return (v128_t)(i8x16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}
OP v128_t wasm_i16x8_splat(int16_t x) { return (v128_t)(i16x8){x, x, x, x, x, x, x, x}; }
OP v128_t wasm_i32x4_splat(int32_t x) { return (v128_t){x, x, x, x}; }
OP v128_t wasm_u32x4_const_splat(uint32_t x) { return (v128_t)(u32x4){x, x, x, x}; }
OP v128_t wasm_f32x4_splat(float x) { return (v128_t)(f32x4){x, x, x, x}; }
OP v128_t wasm_i8x16_make(int8_t a, int8_t b, int8_t c, int8_t d, int8_t e, int8_t f, int8_t g, int8_t h, int8_t i,
                          int8_t j, int8_t k, int8_t l, int8_t m, int8_t n, int8_t o, int8_t p) {
  return (v128_t)(i8x16){a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};
}
OP v128_t wasm_i32x4_make(int32_t a, int32_t b, int32_t c, int32_t d) { return (v128_t){a, b, c, d}; }
OP v128_t wasm_u32x4_make(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return (v128_t)(u32x4){a, b, c, d}; }
OP v128_t wasm_f32x4_make(float a, float b, float c, float d) { return (v128_t)(f32x4){a, b, c, d}; }
OP int32_t wasm_i32x4_extract_lane(v128_t v, int lane) { return v[lane]; }
OP float wasm_f32x4_extract_lane(v128_t v, int lane) { return ((f32x4)v)[lane]; }

// Shuffles, whose lanes are constants.
#ifdef __clang__
#define SHUFFLE(type, a, b, ...) ((v128_t)__builtin_shufflevector((type)(a), (type)(b), __VA_ARGS__))
#else
#define SHUFFLE(type, a, b, ...) ((v128_t)__builtin_shuffle((type)(a), (type)(b), (type){__VA_ARGS__}))
#endif
#define wasm_i8x16_shuffle(a, b, ...) SHUFFLE(i8x16, a, b, __VA_ARGS__)
#define wasm_i16x8_shuffle(a, b, ...) SHUFFLE(i16x8, a, b, __VA_ARGS__)
#define wasm_i32x4_shuffle(a, b, ...) SHUFFLE(i32x4, a, b, __VA_ARGS__)

// Bits.
OP v128_t wasm_v128_and(v128_t a, v128_t b) { return a & b; }
OP v128_t wasm_v128_or(v128_t a, v128_t b) { return a | b; }
OP v128_t wasm_v128_xor(v128_t a, v128_t b) { return a ^ b; }
OP v128_t wasm_v128_not(v128_t a) { return ~a; }
OP v128_t wasm_v128_bitselect(v128_t a, v128_t b, v128_t mask) { return (a & mask) | (b & ~mask); }

// Integers, which wrap. Shifts are modulo the width of a lane.
OP v128_t wasm_i8x16_add(v128_t a, v128_t b) { return (v128_t)((u8x16)a + (u8x16)b); }
OP v128_t wasm_i8x16_sub(v128_t a, v128_t b) { return (v128_t)((u8x16)a - (u8x16)b); }
OP v128_t wasm_i8x16_eq(v128_t a, v128_t b) { return (v128_t)((i8x16)a == (i8x16)b); }
OP v128_t wasm_u8x16_shr(v128_t v, uint32_t n) { return (v128_t)((u8x16)v >> (uint8_t)(n % 8)); }
OP v128_t wasm_i16x8_add(v128_t a, v128_t b) { return (v128_t)((u16x8)a + (u16x8)b); }
OP v128_t wasm_i16x8_sub(v128_t a, v128_t b) { return (v128_t)((u16x8)a - (u16x8)b); }
OP v128_t wasm_i16x8_mul(v128_t a, v128_t b) { return (v128_t)((u16x8)a * (u16x8)b); }
OP v128_t wasm_i16x8_eq(v128_t a, v128_t b) { return (v128_t)((i16x8)a == (i16x8)b); }
OP v128_t wasm_i16x8_shl(v128_t v, uint32_t n) { return (v128_t)((u16x8)v << (uint16_t)(n % 16)); }
OP v128_t wasm_u16x8_shr(v128_t v, uint32_t n) { return (v128_t)((u16x8)v >> (uint16_t)(n % 16)); }
OP v128_t wasm_i32x4_add(v128_t a, v128_t b) { return (v128_t)((u32x4)a + (u32x4)b); }
OP v128_t wasm_i32x4_sub(v128_t a, v128_t b) { return (v128_t)((u32x4)a - (u32x4)b); }
OP v128_t wasm_i32x4_mul(v128_t a, v128_t b) { return (v128_t)((u32x4)a * (u32x4)b); }
OP v128_t wasm_i32x4_neg(v128_t a) { return (v128_t)(-(u32x4)a); }
OP v128_t wasm_i32x4_lt(v128_t a, v128_t b) { return (v128_t)(a < b); }
OP v128_t wasm_i32x4_gt(v128_t a, v128_t b) { return (v128_t)(a > b); }
OP v128_t wasm_i32x4_ge(v128_t a, v128_t b) { return (v128_t)(a >= b); }
OP v128_t wasm_u32x4_ge(v128_t a, v128_t b) { return (v128_t)((u32x4)a >= (u32x4)b); }
OP v128_t wasm_i32x4_shl(v128_t v, uint32_t n) { return (v128_t)((u32x4)v << n % 32); }
OP v128_t wasm_i32x4_shr(v128_t v, uint32_t n) { return v >> (int32_t)(n % 32); }
OP v128_t wasm_u32x4_shr(v128_t v, uint32_t n) { return (v128_t)((u32x4)v >> n % 32); }

// Floats.
OP v128_t wasm_f32x4_add(v128_t a, v128_t b) { return (v128_t)((f32x4)a + (f32x4)b); }
OP v128_t wasm_f32x4_sub(v128_t a, v128_t b) { return (v128_t)((f32x4)a - (f32x4)b); }
OP v128_t wasm_f32x4_mul(v128_t a, v128_t b) { return (v128_t)((f32x4)a * (f32x4)b); }
OP v128_t wasm_f32x4_div(v128_t a, v128_t b) { return (v128_t)((f32x4)a / (f32x4)b); }
OP v128_t wasm_f32x4_neg(v128_t a) { return (v128_t)((u32x4)a ^ 0x80000000u); }
OP v128_t wasm_f32x4_abs(v128_t a) { return (v128_t)((u32x4)a & 0x7fffffffu); }
OP v128_t wasm_f32x4_eq(v128_t a, v128_t b) { return (v128_t)((f32x4)a == (f32x4)b); }
OP v128_t wasm_f32x4_lt(v128_t a, v128_t b) { return (v128_t)((f32x4)a < (f32x4)b); }
OP v128_t wasm_f32x4_gt(v128_t a, v128_t b) { return (v128_t)((f32x4)a > (f32x4)b); }
OP v128_t wasm_f32x4_ge(v128_t a, v128_t b) { return (v128_t)((f32x4)a >= (f32x4)b); }
OP v128_t wasm_f32x4_convert_i32x4(v128_t a) { return (v128_t)__builtin_convertvector((i32x4)a, f32x4); }
OP v128_t wasm_f32x4_convert_u32x4(v128_t a) { return (v128_t)__builtin_convertvector((u32x4)a, f32x4); }

#ifdef __SSE4_1__
#define I(v) ((__m128i)(v))
#define F(v) ((__m128)(v))

OP v128_t wasm_v128_load64_zero(const void *from) { return (v128_t)_mm_loadl_epi64(from); }
OP v128_t wasm_i16x8_load8x8(const void *from) { return (v128_t)_mm_cvtepi8_epi16(_mm_loadl_epi64(from)); }
OP v128_t wasm_u16x8_load8x8(const void *from) { return (v128_t)_mm_cvtepu8_epi16(_mm_loadl_epi64(from)); }
OP v128_t wasm_i32x4_load16x4(const void *from) { return (v128_t)_mm_cvtepi16_epi32(_mm_loadl_epi64(from)); }
OP v128_t wasm_u16x8_extend_low_u8x16(v128_t v) { return (v128_t)_mm_cvtepu8_epi16(I(v)); }
OP v128_t wasm_u16x8_extend_high_u8x16(v128_t v) { return (v128_t)_mm_unpackhi_epi8(I(v), _mm_setzero_si128()); }
OP v128_t wasm_i32x4_extend_low_i16x8(v128_t v) { return (v128_t)_mm_cvtepi16_epi32(I(v)); }
OP v128_t wasm_i32x4_extend_high_i16x8(v128_t v) { return (v128_t)_mm_cvtepi16_epi32(_mm_srli_si128(I(v), 8)); }
OP v128_t wasm_i8x16_narrow_i16x8(v128_t a, v128_t b) { return (v128_t)_mm_packs_epi16(I(a), I(b)); }
OP v128_t wasm_i16x8_narrow_i32x4(v128_t a, v128_t b) { return (v128_t)_mm_packs_epi32(I(a), I(b)); }
OP v128_t wasm_u16x8_narrow_i32x4(v128_t a, v128_t b) { return (v128_t)_mm_packus_epi32(I(a), I(b)); }

// The addition lifts indices above 15 to those that give 0.
OP v128_t wasm_i8x16_swizzle(v128_t v, v128_t at) {
  return (v128_t)_mm_shuffle_epi8(I(v), _mm_adds_epu8(I(at), _mm_set1_epi8(0x70)));
}
OP int wasm_v128_any_true(v128_t v) { return !_mm_testz_si128(I(v), I(v)); }
OP uint32_t wasm_i32x4_bitmask(v128_t v) { return (uint32_t)_mm_movemask_ps(F(v)); }
OP v128_t wasm_i32x4_min(v128_t a, v128_t b) { return (v128_t)_mm_min_epi32(I(a), I(b)); }
OP v128_t wasm_i32x4_max(v128_t a, v128_t b) { return (v128_t)_mm_max_epi32(I(a), I(b)); }
OP v128_t wasm_i32x4_dot_i16x8(v128_t a, v128_t b) { return (v128_t)_mm_madd_epi16(I(a), I(b)); }

// b < a ? b : a, and a < b ? b : a: the processor's min and max with the operands in this order.
OP v128_t wasm_f32x4_pmin(v128_t a, v128_t b) { return (v128_t)_mm_min_ps(F(b), F(a)); }
OP v128_t wasm_f32x4_pmax(v128_t a, v128_t b) { return (v128_t)_mm_max_ps(F(b), F(a)); }

// NaN if an operand is NaN, and -0 < 0: both orders of the operands differ only then.
OP v128_t wasm_f32x4_min(v128_t a, v128_t b) {
  return (v128_t)_mm_or_ps(_mm_min_ps(F(a), F(b)), _mm_min_ps(F(b), F(a)));
}
OP v128_t wasm_f32x4_max(v128_t a, v128_t b) {
  __m128 most = _mm_and_ps(_mm_max_ps(F(a), F(b)), _mm_max_ps(F(b), F(a)));
  return (v128_t)_mm_or_ps(most, _mm_cmpunord_ps(F(a), F(b)));
}
OP v128_t wasm_f32x4_sqrt(v128_t v) { return (v128_t)_mm_sqrt_ps(F(v)); }
OP v128_t wasm_f32x4_floor(v128_t v) { return (v128_t)_mm_floor_ps(F(v)); }

// The conversion gives INT32_MIN for what is out of range.
OP v128_t wasm_i32x4_trunc_sat_f32x4(v128_t v) {
  __m128 number = _mm_and_ps(F(v), _mm_cmpord_ps(F(v), F(v)));
  __m128 above = _mm_cmpge_ps(number, _mm_set1_ps(0x1p31f));
  return (v128_t)_mm_xor_si128(_mm_cvttps_epi32(number), _mm_castps_si128(above));
}

#undef I
#undef F
#else  // NEON

OP v128_t wasm_v128_load64_zero(const void *from) { return (v128_t)vcombine_u8(vld1_u8(from), vdup_n_u8(0)); }
OP v128_t wasm_i16x8_load8x8(const void *from) { return (v128_t)vmovl_s8(vld1_s8(from)); }
OP v128_t wasm_u16x8_load8x8(const void *from) { return (v128_t)vmovl_u8(vld1_u8(from)); }
OP v128_t wasm_i32x4_load16x4(const void *from) { return (v128_t)vmovl_s16(vreinterpret_s16_s8(vld1_s8(from))); }
OP v128_t wasm_u16x8_extend_low_u8x16(v128_t v) { return (v128_t)vmovl_u8(vget_low_u8((uint8x16_t)v)); }
OP v128_t wasm_u16x8_extend_high_u8x16(v128_t v) { return (v128_t)vmovl_high_u8((uint8x16_t)v); }
OP v128_t wasm_i32x4_extend_low_i16x8(v128_t v) { return (v128_t)vmovl_s16(vget_low_s16((int16x8_t)v)); }
OP v128_t wasm_i32x4_extend_high_i16x8(v128_t v) { return (v128_t)vmovl_high_s16((int16x8_t)v); }
OP v128_t wasm_i8x16_narrow_i16x8(v128_t a, v128_t b) {
  return (v128_t)vqmovn_high_s16(vqmovn_s16((int16x8_t)a), (int16x8_t)b);
}
OP v128_t wasm_i16x8_narrow_i32x4(v128_t a, v128_t b) {
  return (v128_t)vqmovn_high_s32(vqmovn_s32((int32x4_t)a), (int32x4_t)b);
}
OP v128_t wasm_u16x8_narrow_i32x4(v128_t a, v128_t b) {
  return (v128_t)vqmovun_high_s32(vqmovun_s32((int32x4_t)a), (int32x4_t)b);
}
OP v128_t wasm_i8x16_swizzle(v128_t v, v128_t at) { return (v128_t)vqtbl1q_u8((uint8x16_t)v, (uint8x16_t)at); }
OP int wasm_v128_any_true(v128_t v) { return vmaxvq_u32((uint32x4_t)v) != 0; }
OP uint32_t wasm_i32x4_bitmask(v128_t v) {
  return vaddvq_u32((uint32x4_t)((u32x4)v >> 31 << (u32x4){0, 1, 2, 3}));
}
OP v128_t wasm_i32x4_min(v128_t a, v128_t b) { return (v128_t)vminq_s32((int32x4_t)a, (int32x4_t)b); }
OP v128_t wasm_i32x4_max(v128_t a, v128_t b) { return (v128_t)vmaxq_s32((int32x4_t)a, (int32x4_t)b); }
OP v128_t wasm_i32x4_dot_i16x8(v128_t a, v128_t b) {
  int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
  return (v128_t)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
OP v128_t wasm_f32x4_pmin(v128_t a, v128_t b) { return wasm_v128_bitselect(b, a, wasm_f32x4_lt(b, a)); }
OP v128_t wasm_f32x4_pmax(v128_t a, v128_t b) { return wasm_v128_bitselect(b, a, wasm_f32x4_lt(a, b)); }
OP v128_t wasm_f32x4_min(v128_t a, v128_t b) { return (v128_t)vminq_f32((float32x4_t)a, (float32x4_t)b); }
OP v128_t wasm_f32x4_max(v128_t a, v128_t b) { return (v128_t)vmaxq_f32((float32x4_t)a, (float32x4_t)b); }
OP v128_t wasm_f32x4_sqrt(v128_t v) { return (v128_t)vsqrtq_f32((float32x4_t)v); }
OP v128_t wasm_f32x4_floor(v128_t v) { return (v128_t)vrndmq_f32((float32x4_t)v); }
OP v128_t wasm_i32x4_trunc_sat_f32x4(v128_t v) { return (v128_t)vcvtq_s32_f32((float32x4_t)v); }
#endif

#undef OP
#endif

// Hides from the compiler where a vector comes from; KEEP also makes it be computed here.
#define HIDE(v) __asm__("" : ANY_REGISTER(v))
#define KEEP(v) __asm__ volatile("" : ANY_REGISTER(v))

// Tells the processor to load bytes that are `ahead` of an address into its second cache: the first waits for too few
// lines at once to read memory at full speed. The processor's own prefetcher starts over at each short row.
#ifdef __wasm__
#define FETCH(at, ahead, size) (void)(ahead)
#else
#define FETCH(at, ahead, size)                         \
  for (u32 byte = 0; byte < (size); byte += 64)        \
    __builtin_prefetch((const void *)((uintptr_t)(at) + (ahead) + byte), 0, 2)
#endif

// Unrolls the next loop fully, or in part: engines run out of registers where clang unrolls it fully.
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#ifdef __wasm__
#define UNROLL_SOME _Pragma("clang loop unroll(disable)")
#elif defined(__clang__)
#define UNROLL_SOME _Pragma("clang loop unroll_count(4)")
#else
#define UNROLL_SOME _Pragma("GCC unroll 4")
#endif
