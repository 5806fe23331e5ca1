// Log-probabilities of tokens: see webgpu/kernels/sample/score.go.
#include "log.h"
#include "logits.h"

#define UNSCORED 1

// ln softmax(logits)[next] of each row, or UNSCORED of a row without a softmax; sample.RecordScore.
void score(const dispatch *d, const thread *t) {
  u32 vocab = PARAM(1), stride = PARAM(2);
  range rows = share(t, PARAM(0), 1);
  for (u32 row = rows.from; row < rows.to; row++) {
    const f32 *z = AT(f32, 1) + row * stride;
    f32 most = most_of(z, vocab), next = finite_f32(z[min_u32(AT(u32, 2)[row], vocab - 1)]);
    f32 log_sum = log_f32((f32)sum_exp(z, vocab, most));
    AT(f32, 3)[row] = __builtin_fabsf(most) > -LOW / 2 ? UNSCORED : next - most - log_sum;
  }
}
