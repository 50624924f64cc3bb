#include "trainer/flops.h"

#include <algorithm>

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
  double attention = 0;
  for (int layer = 0; layer < model.layers; ++layer) {
    bool has_window = model.window > 0 && (model.windowed.empty() || model.windowed[layer]);
    double window = has_window ? std::min<double>(model.window, model.length) : model.length;
    // Of the keys that a query sees, all but those of the first window count; there it is half.
    attention += 4 * model.batch * q_width * window * (model.length - window / 2);
  }
  double head = 2 * tokens * model.width * model.vocabulary;
  return 3 * ((mlp + qkv + out) * model.layers + attention + head) * micro_batches;
}

}  // namespace longshore::trainer
