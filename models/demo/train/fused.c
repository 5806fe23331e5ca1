// Element-wise steps of a Llama training step, fused, for one CPU thread.
//
// Matrices are bfloat16 (bf: the upper half of a float32); arithmetic is float32.
// fused.py compiles this file with -O3 -march=native and calls it through ctypes.
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint16_t bf;
typedef int64_t n_t;

static inline float up(bf x) {
  uint32_t u = (uint32_t)x << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

// Rounds to nearest even; NaN is not expected.
static inline bf down(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return (bf)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

// exp for x in [-87, 88]: 2^(integer) * polynomial, relative error below 1e-6.
static inline float fexp(float x) {
  x = fmaxf(-87.0f, fminf(x, 88.0f));
  float k = rintf(x * 1.442695041f);
  float r = x - k * 0.693359375f + k * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int32_t bits = ((int32_t)k + 127) << 23;
  float scale;
  memcpy(&scale, &bits, 4);
  return p * scale;
}

// x += delta (skipped when NULL); out = x / rms(x). inv keeps 1 / rms of each row.
void add_norm(float *restrict x, const bf *restrict delta, bf *restrict out, float *restrict inv, n_t rows, n_t dim,
              float eps) {
  for (n_t r = 0; r < rows; r++) {
    float *row = x + r * dim, sum = 0;
    if (delta)
      for (n_t i = 0; i < dim; i++) row[i] += up(delta[r * dim + i]);
    for (n_t i = 0; i < dim; i++) sum += row[i] * row[i];
    float s = 1.0f / sqrtf(sum / dim + eps);
    inv[r] = s;
    for (n_t i = 0; i < dim; i++) out[r * dim + i] = down(row[i] * s);
  }
}

// Backward of add_norm: dx += gradient through the norm; dx16 = dx, rounded. normed is the forward output.
void norm_back(const bf *restrict dout, const bf *restrict normed, const float *restrict inv, float *restrict dx,
               bf *restrict dx16, n_t rows, n_t dim) {
  for (n_t r = 0; r < rows; r++) {
    const bf *g = dout + r * dim, *y = normed + r * dim;
    float *d = dx + r * dim, dot = 0, s = inv[r];
    for (n_t i = 0; i < dim; i++) dot += up(g[i]) * up(y[i]);
    dot /= dim;
    for (n_t i = 0; i < dim; i++) {
      d[i] += s * (up(g[i]) - up(y[i]) * dot);
      dx16[r * dim + i] = down(d[i]);
    }
  }
}

// h = silu(gate) * up; gu holds rows of gate, then up.
void swiglu(const bf *restrict gu, bf *restrict h, n_t rows, n_t ffn) {
  for (n_t r = 0; r < rows; r++) {
    const bf *g = gu + r * 2 * ffn, *u = g + ffn;
    for (n_t i = 0; i < ffn; i++) {
      float x = up(g[i]);
      h[r * ffn + i] = down(x / (1.0f + fexp(-x)) * up(u[i]));
    }
  }
}

// Overwrites gu with its gradient.
void swiglu_back(bf *restrict gu, const bf *restrict dh, n_t rows, n_t ffn) {
  for (n_t r = 0; r < rows; r++) {
    bf *restrict g = gu + r * 2 * ffn, *restrict u = gu + r * 2 * ffn + ffn;
    for (n_t i = 0; i < ffn; i++) {
      float x = up(g[i]), y = up(u[i]), d = up(dh[r * ffn + i]);
      float s = 1.0f / (1.0f + fexp(-x));
      g[i] = down(d * y * s * (1.0f + x * (1.0f - s)));
      u[i] = down(d * x * s);
    }
  }
}

// One head row of the half-split rotation; sign -1 rotates back.
static inline void rotate(const bf *restrict in, bf *restrict out, const float *restrict cosine,
                          const float *restrict sine, n_t half, float scale, float sign) {
  for (n_t i = 0; i < half; i++) {
    float a = up(in[i]), b = up(in[i + half]), c = cosine[i] * scale, s = sine[i] * scale * sign;
    out[i] = down(a * c - b * s);
    out[i + half] = down(b * c + a * s);
  }
}

static inline n_t query_row(n_t b, n_t t, n_t h, n_t length, n_t heads, n_t group, n_t block) {
  return (b * heads + h / group * group) * length + (t / block * group + h % group) * block + t % block;
}

// Splits qkv (batch, length, heads + 2 kv, hd) into q, scaled, and k, v (batch, kv, length, hd).
// Queries are grouped by blocks of positions: q (batch, kv, length / block, group, block, hd).
// back != 0 goes the other way, for gradients.
void split_heads(bf *qkv, bf *q, bf *k, bf *v, const float *cosine, const float *sine, n_t batch,
                 n_t length, n_t heads, n_t kv, n_t hd, n_t block, float scale, int back) {
  n_t group = heads / kv, half = hd / 2, width = (heads + 2 * kv) * hd;
  for (n_t b = 0; b < batch; b++)
    for (n_t t = 0; t < length; t++) {
      bf *row = qkv + (b * length + t) * width;
      const float *c = cosine + t * half, *s = sine + t * half;
      for (n_t h = 0; h < heads; h++) {
        bf *to = q + query_row(b, t, h, length, heads, group, block) * hd;
        if (back) rotate(to, row + h * hd, c, s, half, scale, -1);
        else rotate(row + h * hd, to, c, s, half, scale, 1);
      }
      for (n_t h = 0; h < kv; h++) {
        bf *tk = k + ((b * kv + h) * length + t) * hd, *tv = v + ((b * kv + h) * length + t) * hd;
        bf *rk = row + (heads + h) * hd, *rv = row + (heads + kv + h) * hd;
        if (back) {
          rotate(tk, rk, c, s, half, 1, -1);
          memcpy(rv, tv, hd * 2);
        } else {
          rotate(rk, tk, c, s, half, 1, 1);
          memcpy(tv, rv, hd * 2);
        }
      }
    }
}

// Moves a, laid out as q above, to b (batch, length, heads, hd), or back.
void merge_heads(bf *a, bf *b, n_t batch, n_t length, n_t heads, n_t kv, n_t hd, n_t block, int back) {
  for (n_t i = 0; i < batch; i++)
    for (n_t t = 0; t < length; t++)
      for (n_t h = 0; h < heads; h++) {
        bf *x = a + query_row(i, t, h, length, heads, heads / kv, block) * hd;
        bf *y = b + ((i * length + t) * heads + h) * hd;
        if (back) memcpy(x, y, hd * 2);
        else memcpy(y, x, hd * 2);
      }
}

// Causal softmax in place over scores (rows, keys): row r may see keys 0 .. first + r % block.
void causal_softmax(bf *scores, n_t rows, n_t keys, n_t block, n_t first) {
  for (n_t r = 0; r < rows; r++) {
    bf *row = scores + r * keys;
    n_t n = first + r % block + 1;
    float top = -1e30f, sum = 0;
    float tmp[keys];
    for (n_t i = 0; i < n; i++) top = fmaxf(top, up(row[i]));
    for (n_t i = 0; i < n; i++) sum += tmp[i] = fexp(up(row[i]) - top);
    float s = 1.0f / sum;
    for (n_t i = 0; i < n; i++) row[i] = down(tmp[i] * s);
    memset(row + n, 0, (keys - n) * 2);
  }
}

// Overwrites dp with the gradient of the scores: p * (dp - sum(p * dp)).
void softmax_back(const bf *restrict p, bf *restrict dp, n_t rows, n_t keys, n_t block, n_t first) {
  for (n_t r = 0; r < rows; r++) {
    const bf *a = p + r * keys;
    bf *d = dp + r * keys;
    n_t n = first + r % block + 1;
    float dot = 0;
    for (n_t i = 0; i < n; i++) dot += up(a[i]) * up(d[i]);
    for (n_t i = 0; i < n; i++) d[i] = down(up(a[i]) * (up(d[i]) - dot));
    memset(d + n, 0, (keys - n) * 2);
  }
}

// Cross-entropy: writes each row's loss in nats and overwrites logits with scale * (softmax - onehot). A target below 0
// is skipped.
void cross_entropy(bf *logits, const n_t *target, float *loss, n_t rows, n_t vocab, float scale) {
  for (n_t r = 0; r < rows; r++) {
    bf *row = logits + r * vocab;
    n_t y = target[r];
    loss[r] = 0;
    if (y < 0) {
      memset(row, 0, vocab * 2);
      continue;
    }
    float top = -1e30f, sum = 0, goal = up(row[y]);
    float tmp[vocab];
    for (n_t i = 0; i < vocab; i++) top = fmaxf(top, up(row[i]));
    for (n_t i = 0; i < vocab; i++) sum += tmp[i] = fexp(up(row[i]) - top);
    loss[r] = logf(sum) + top - goal;
    float s = scale / sum;
    for (n_t i = 0; i < vocab; i++) row[i] = down(tmp[i] * s);
    row[y] = down((tmp[y] / sum - 1.0f) * scale);
  }
}

// Distillation: loss[r] = KL(teacher || student) * part + cross-entropy * (1 - part), without the teacher's entropy.
// Overwrites logits with scale * (softmax - part * teacher - (1 - part) * onehot). A target below 0 is skipped.
void distill(bf *restrict logits, const bf *restrict teacher, const n_t *target, float *loss, n_t rows,
             n_t vocab, float scale, float part) {
  for (n_t r = 0; r < rows; r++) {
    bf *row = logits + r * vocab;
    const bf *want = teacher + r * vocab;
    n_t y = target[r];
    loss[r] = 0;
    if (y < 0) {
      memset(row, 0, vocab * 2);
      continue;
    }
    float top = -1e30f, sum = 0, top2 = -1e30f, sum2 = 0, dot = 0, goal = up(row[y]);
    float p[vocab], q[vocab];
    for (n_t i = 0; i < vocab; i++) {
      top = fmaxf(top, up(row[i]));
      top2 = fmaxf(top2, up(want[i]));
    }
    for (n_t i = 0; i < vocab; i++) {
      sum += p[i] = fexp(up(row[i]) - top);
      sum2 += q[i] = fexp(up(want[i]) - top2);
      dot += q[i] * up(row[i]);
    }
    loss[r] = logf(sum) + top - part * dot / sum2 - (1 - part) * goal;
    for (n_t i = 0; i < vocab; i++) row[i] = down((p[i] / sum - part * q[i] / sum2) * scale);
    row[y] = down((p[y] / sum - part * q[y] / sum2 - (1 - part)) * scale);
  }
}

// total += x, for gradients of several micro-batches.
void accumulate(float *restrict total, const bf *restrict x, n_t n) {
  for (n_t i = 0; i < n; i++) total[i] += up(x[i]);
}
