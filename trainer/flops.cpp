#include "trainer/flops.h"

namespace longshore::trainer {

// MaxText, maxtext_utils.calculate_tflops_training_per_device. A product of [m,k] and [k,n] is
// 2*m*k*n; the backward pass has two products for each of the forward pass.
double training_flops(const models::DecoderConfig& model, int64_t micro_batches) {
  double tokens = static_cast<double>(model.batch) * model.length;
  double q_width = static_cast<double>(model.query_heads) * model.head_dim;
  double kv_width = static_cast<double>(model.kv_heads) * model.head_dim;
  double mlp = 3 * 2 * tokens * model.mlp_width * model.width;
  double qkv = 2 * tokens * model.width * (q_width + 2 * kv_width);
  double out = 2 * tokens * model.width * q_width;
  double causal_attention = 4 * tokens * model.length * q_width / 2;
  double head = 2 * tokens * model.width * model.vocabulary;
  return 3 * ((mlp + qkv + out + causal_attention) * model.layers + head) * micro_batches;
}

}  // namespace longshore::trainer
