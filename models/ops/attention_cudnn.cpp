#include "models/ops/attention_cudnn.h"

#include <algorithm>
#include <cmath>

namespace longshore::models {
namespace {

const AttentionAttrs& attrs_of(const std::any& attrs) {
  return std::any_cast<const AttentionAttrs&>(attrs);
}

int64_t round_up(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

int64_t largest_divisor(int64_t count, int64_t at_most) {
  int64_t divisor = std::clamp<int64_t>(at_most, 1, count);
  while (count % divisor != 0) --divisor;
  return divisor;
}

// Of all score gradients of a head, in blocks of 64 queries by 128 keys.
int64_t score_gradient_bytes(int64_t length) {
  return round_up(length, 64) * round_up(length, 128) * size_bytes(Dtype::bfloat16);
}

// Parts are made as large as this allows. At 4096 tokens that is 8 heads of 32 blocks of keys,
// about two blocks for each multiprocessor of a large GPU.
constexpr int64_t kPartBytes = int64_t{256} << 20;
// A key/value head's queries cannot be divided, for dk and dv are their sums. Rows so long that
// they alone take more than this are left to flash attention.
constexpr int64_t kMostPartBytes = int64_t{1} << 30;

// Alignment of the pieces, and what graphs take besides.
constexpr int64_t kSlack = 1024;

}  // namespace

// cuDNN's own limits are wider on some GPUs: heads of up to 256 numbers on Hopper. A row of one
// position is refused in backward graphs.
bool cudnn_serves(const AttentionAttrs& attrs, const Type& q, const Type& k) {
  const int64_t head_dim = attrs.options.head_dim, length = q.shape[1];
  return q.dtype == Dtype::bfloat16 && attrs.options.soft_cap == 0 && !attrs.segments &&
         !attrs.prefix && head_dim % 8 == 0 && head_dim <= 128 && length > 1 &&
         q.shape[2] / k.shape[2] * score_gradient_bytes(length) <= kMostPartBytes;
}

CudnnAttention cudnn_forward(const AttentionAttrs& attrs, const Type& q, const Type& k) {
  const AttentionOptions& options = attrs.options;
  const int64_t d = options.head_dim, length = q.shape[1];
  const int64_t heads = q.shape[2] / d, key_heads = k.shape[2] / d;
  return {.rows = q.shape[0],
          .length = length,
          .heads = heads,
          .key_heads = key_heads,
          .head_dim = d,
          .heads_of_row = heads,
          .key_heads_of_row = key_heads,
          .window = options.window < length ? options.window : 0,
          .scale = options.scale == 0 ? 1 / std::sqrt(static_cast<double>(d)) : options.scale};
}

CudnnAttention cudnn_backward(const AttentionAttrs& attrs, const Type& q, const Type& k) {
  CudnnAttention part = cudnn_forward(attrs, q, k);
  const int64_t group = part.heads / part.key_heads;
  const int64_t key_heads = kPartBytes / (group * score_gradient_bytes(part.length));
  part.rows = largest_divisor(part.rows, key_heads / part.key_heads);
  // The log-sum-exps of a graph's rows must lie one after the other: only of one row can it take
  // some heads.
  if (part.rows == 1) part.key_heads = largest_divisor(part.key_heads, key_heads);
  part.heads = group * part.key_heads;
  return part;
}

int64_t cudnn_forward_workspace(const CudnnAttention&) { return kSlack; }

// dq is either one product of all score gradients, or a sum in float32 (Blackwell). The sums of
// dO*O of a row and, where query heads share a key/value head, dk and dv of each come on top.
// The sums and dq are what CompositeSDPABackwardNode declares in cudnn-frontend 1.32's
// node/scaled_dot_product_flash_attention.h; the rest is what engines 5, 6 and 7 of cuDNN 9.19
// report for compute capabilities 8.0 to 12.0, of which this is the most.
int64_t cudnn_backward_workspace(const CudnnAttention& a) {
  const int64_t heads = a.rows * a.heads, numbers = heads * a.length * a.head_dim;
  const int64_t dq =
      std::max(heads * score_gradient_bytes(a.length), numbers * size_bytes(Dtype::float32));
  const int64_t sums = heads * a.length * size_bytes(Dtype::float32);
  const int64_t dk_dv = a.heads == a.key_heads ? 0 : 2 * numbers * size_bytes(Dtype::bfloat16);
  return dq + sums + dk_dv + kSlack;
}

const char* attention_cuda_path(const std::any& any, std::span<const Type> in) {
  return cudnn_serves(attrs_of(any), in[0], in[1]) ? "fused attention (cuDNN)"
                                                   : attention_cuda_aten_path(any, in);
}

int64_t attention_cuda_workspace(const std::any& any, std::span<const Type> in,
                                 std::span<const Type> out) {
  const AttentionAttrs& attrs = attrs_of(any);
  return cudnn_serves(attrs, in[0], in[1])
             ? cudnn_forward_workspace(cudnn_forward(attrs, in[0], in[1]))
             : attention_cuda_aten_workspace(any, in, out);
}

int64_t attention_grad_cuda_workspace(const std::any& any, std::span<const Type> in,
                                      std::span<const Type> out) {
  const AttentionAttrs& attrs = attrs_of(any);
  return cudnn_serves(attrs, in[1], in[2])
             ? cudnn_backward_workspace(cudnn_backward(attrs, in[1], in[2]))
             : attention_grad_cuda_aten_workspace(any, in, out);
}

}  // namespace longshore::models
