#include "longshore/models/ops/attention/attention_cudnn.h"

#include <algorithm>

#include "longshore/base/round_up.h"

namespace longshore::models {
namespace {

const AttentionAttrs& attrs_of(const std::any& attrs) {
  return std::any_cast<const AttentionAttrs&>(attrs);
}

int64_t largest_divisor(int64_t count, int64_t at_most) {
  int64_t divisor = std::clamp<int64_t>(at_most, 1, count);
  while (count % divisor != 0) --divisor;
  return divisor;
}

// The backward pass goes through a head's scores in blocks of so many queries and keys.
constexpr int64_t kQueriesOfBlock = 64, kKeysOfBlock = 128;

// The bytes of all score gradients of a head.
int64_t score_gradient_bytes(int64_t length) {
  return round_up(length, kQueriesOfBlock) * round_up(length, kKeysOfBlock) *
         size_bytes(Dtype::bfloat16);
}

// The bytes of a head's dq before it is rounded.
int64_t wide_dq_bytes(const CudnnAttention& a) {
  return a.length * a.head_dim * size_bytes(Dtype::float32);
}

// The most that dq of a head takes: as one product of all score gradients; or as a sum, which GPUs
// other than Hopper and Blackwell's for data centers hold twice where it need not be deterministic.
int64_t dq_bytes(const CudnnAttention& a) {
  return a.deterministic ? std::max(score_gradient_bytes(a.length), wide_dq_bytes(a))
                         : 2 * wide_dq_bytes(a);
}

// A part takes as many bytes as eight times q of the batch, which is little beside all that a large
// batch keeps, within these limits; and more where it would not have enough blocks of keys: about
// eight for each multiprocessor of a large GPU, for under a causal mask the first block takes as
// long as two of the middle. Rows of 4096 with 32 heads on 8 of 128 take an H200 1.29 times as long
// by 512 blocks as by 2048, and 1.10 times by 1024.
constexpr int64_t kPartBytes = int64_t{512} << 20;
constexpr int64_t kLeastBlocks = 1024;
// A key/value head's queries cannot be divided, for dk and dv are their sums. The backward pass of
// rows so long that they alone take more than this is left to flash attention.
constexpr int64_t kMaxPartBytes = int64_t{2} << 30;

// How many key/value heads a part of the backward pass takes, each with its group of query heads.
struct PartHeads {
  int64_t room;    // within the limits; 0 where one alone is too large
  int64_t wanted;  // for enough blocks
  int64_t most;    // where that needs more than `room`
};

PartHeads part_heads(const CudnnAttention& batch) {
  const int64_t group = batch.heads / batch.key_heads, bytes = group * dq_bytes(batch);
  const int64_t blocks = group * (round_up(batch.length, kKeysOfBlock) / kKeysOfBlock);
  const int64_t q_bytes =
      batch.rows * batch.length * batch.heads * batch.head_dim * size_bytes(Dtype::bfloat16);
  const int64_t room = std::clamp(8 * q_bytes, kPartBytes, kMaxPartBytes);
  return {room / bytes, ceil_div(kLeastBlocks, blocks), kMaxPartBytes / bytes};
}

// Of a row's heads. Parts have as many each, so their number divides that of the row.
int64_t key_heads_of_part(int64_t key_heads_of_row, const PartHeads& heads) {
  const int64_t within = largest_divisor(key_heads_of_row, heads.room);
  for (int64_t enough = heads.wanted; enough <= std::min(heads.most, key_heads_of_row); ++enough)
    if (key_heads_of_row % enough == 0) return std::max(within, enough);
  return std::max(within, largest_divisor(key_heads_of_row, heads.most));
}

// Alignment of the pieces, and what graphs take besides.
constexpr int64_t kSlack = 1024;

// The bytes of the mask of a row of the batch.
int64_t mask_row_bytes(int64_t length) {
  return length * attention_mask_width(length) * size_bytes(Dtype::bfloat16);
}

// Where a part begins, in an operand [B,T,heads*D].
void* part_of(const Ref& ref, const CudnnAttention& part, int64_t row, int64_t head) {
  const Shape& shape = ref.type.shape;
  const int64_t at = row * shape[1] * shape[2] + head * part.head_dim;
  return ref.as<std::byte>() + at * size_bytes(ref.type.dtype);
}

// Makes the mask of the part's rows, from `row` on, where the workspace begins; gives the rest.
std::span<std::byte> make_mask(const KernelCall& call, const CudnnAttention& part, int64_t row,
                               LaunchAttentionMask launch, CudnnOperands& operands) {
  if (!part.is_masked) return call.workspace;
  KeyRule rule = key_rule(call, row);
  if (part.is_causal) rule = {AttentionMask::full, 0, rule.segments, nullptr};
  const AttentionMaskArguments arguments{
      .rows = part.rows, .length = part.length, .rule = rule, .mask = call.workspace.data()};
  launch(arguments, call.stream);
  operands[mask] = arguments.mask;
  return call.workspace.subspan(static_cast<size_t>(cudnn_mask_bytes(part)));
}

CudnnAttention whole_batch(const AttentionAttrs& attrs, const Type& q, const Type& k) {
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
          .scale = options.score_scale(),
          .soft_cap = options.soft_cap,
          .is_masked = attrs.is_by_batch(),
          .is_causal = options.mask == AttentionMask::causal,
          .window = options.window < length && !attrs.blocks() ? options.window : 0,
          .deterministic = options.deterministic};
}

// So many rows at most that their masks take no more than the first; a row whose mask takes more
// than the second, from 16,385 positions on, is computed by blocks, which need none.
constexpr int64_t kMaskBytes = int64_t{256} << 20, kMostMaskBytes = int64_t{512} << 20;

int64_t most_rows(const CudnnAttention& attention) {
  return attention.is_masked ? kMaskBytes / mask_row_bytes(attention.length) : attention.rows;
}

// Scores that a window of T tokens' length leaves of all that a causal mask has.
double share_of_scores(int64_t window, int64_t length) {
  const double t = static_cast<double>(length), w = static_cast<double>(std::min(window, length));
  return (w * t - w * (w - 1) / 2) / (t * (t + 1) / 2);
}

// cuDNN's backward pass takes as long with a window as without. On an H200, flash attention's takes
// 0.8 times as long where a window leaves a quarter, with heads of 128.
constexpr double kLeastShare = 0.25;

}  // namespace

CudnnAttention cudnn_forward(const AttentionAttrs& attrs, const Type& q, const Type& k) {
  CudnnAttention part = whole_batch(attrs, q, k);
  part.rows = largest_divisor(part.rows, most_rows(part));
  return part;
}

CudnnAttention cudnn_backward(const AttentionAttrs& attrs, const Type& q, const Type& k) {
  CudnnAttention part = whole_batch(attrs, q, k);
  const int64_t group = part.heads / part.key_heads;
  const PartHeads heads = part_heads(part);
  const int64_t key_heads = std::max(heads.room, std::min(heads.wanted, heads.most));
  part.rows = largest_divisor(part.rows, std::min(key_heads / part.key_heads, most_rows(part)));
  // The log-sum-exps of a graph's rows must lie one after the other: only of one row can it take
  // some heads.
  if (part.rows == 1) part.key_heads = key_heads_of_part(part.key_heads, heads);
  part.heads = group * part.key_heads;
  return part;
}

// The limits of cuDNN 9.19: heads of more than 128 numbers and capped scores have no backward
// graphs but Hopper's, and masks none for compute capability 10 that adds in a fixed order. A row
// of one position is refused in backward graphs. The scores of one head have the sizes of a mask,
// and cudnn-frontend then gives them the mask's strides, by which it transposes them wrongly unless
// the mask is as wide as they are.
//
// Forward passes are kept to the same GPUs; of long rows, cuDNN's serves where flash attention has
// the backward pass. A mask grows as score gradients do.
CudnnGpus cudnn_serves_on(const AttentionAttrs& attrs, const Type& q, const Type& k,
                          CudnnPass pass) {
  const int64_t head_dim = attrs.options.head_dim, length = q.shape[1];
  if (q.dtype != Dtype::bfloat16 || head_dim % 8 != 0 || head_dim > 256 || length <= 1)
    return CudnnGpus::none;
  const CudnnAttention part =
      pass == CudnnPass::forward ? cudnn_forward(attrs, q, k) : cudnn_backward(attrs, q, k);
  if (pass == CudnnPass::backward && part.window != 0 && flash_serves(attrs, q.dtype) &&
      share_of_scores(part.window, length) < kLeastShare)
    return CudnnGpus::none;
  if (part.is_masked && mask_row_bytes(length) > kMostMaskBytes) return CudnnGpus::none;
  int64_t bytes = 0;  // of a query head, that grow with the length
  if (part.is_masked) bytes = score_gradient_bytes(length);
  if (pass == CudnnPass::backward) bytes = std::max(bytes, dq_bytes(part));
  if (part.heads / part.key_heads * bytes > kMaxPartBytes) return CudnnGpus::none;
  if (part.is_masked && part.heads == 1 && length != attention_mask_width(length))
    return CudnnGpus::none;
  if (head_dim > 128 || attrs.options.soft_cap != 0) return CudnnGpus::hopper;
  return part.is_masked && attrs.options.deterministic ? CudnnGpus::all_but_10 : CudnnGpus::all;
}

bool cudnn_serves(const AttentionAttrs& attrs, const Type& q, const Type& k, CudnnPass pass,
                  int compute_capability) {
  switch (cudnn_serves_on(attrs, q, k, pass)) {
    case CudnnGpus::none:
      return false;
    case CudnnGpus::hopper:
      return compute_capability == 90;
    case CudnnGpus::all_but_10:
      return compute_capability >= 80 && compute_capability / 10 != 10;
    case CudnnGpus::all:
      break;
  }
  return compute_capability >= 80;
}

// Forward, cuDNN makes tensor maps at most. Backward, dq is either one product of all score
// gradients, or a sum in float32 (of Blackwell, and where it need not be deterministic). The sums
// of dO*O of a row and, where query heads share a key/value head, dk and dv of each come on top.
// The sums and dq are what CompositeSDPABackwardNode declares in cudnn-frontend 1.32's
// node/scaled_dot_product_flash_attention.h; the rest is what engines 5, 6 and 7 of cuDNN 9.19
// report for compute capabilities 8.0 to 12.0, of which this is the most
// (tests/models/attention_graphs_test.cpp asks them).
int64_t cudnn_graph_workspace(const CudnnAttention& a, CudnnPass pass) {
  if (pass == CudnnPass::forward) return kSlack;
  const int64_t heads = a.rows * a.heads, numbers = heads * a.length * a.head_dim;
  const int64_t dq = heads * dq_bytes(a);
  const int64_t sums = heads * a.length * size_bytes(Dtype::float32);
  const int64_t dk_dv = a.heads == a.key_heads ? 0 : 2 * numbers * size_bytes(Dtype::bfloat16);
  return dq + sums + dk_dv + kSlack;
}

int64_t cudnn_mask_bytes(const CudnnAttention& a) {
  return a.is_masked ? round_up(a.rows * mask_row_bytes(a.length), 512) : 0;
}

void run_attention_graphs(const KernelCall& call, RunCudnnGraph run,
                          LaunchAttentionMask launch_mask) {
  const auto &q_ref = call.in[0], &k_ref = call.in[1];
  const CudnnAttention part = cudnn_forward(attrs_of(call.attrs), q_ref.type, k_ref.type);
  for (int64_t row = 0; row < q_ref.type.shape[0]; row += part.rows) {
    auto of = [&](const Ref& ref) { return part_of(ref, part, row, 0); };
    CudnnOperands operands{{q, of(q_ref)},
                           {k, of(k_ref)},
                           {v, of(call.in[2])},
                           {out, of(call.out[0])},
                           {log_sum_exp, call.out[1].as<float>() + row * part.heads * part.length}};
    const auto workspace = make_mask(call, part, row, launch_mask, operands);
    run(part, CudnnPass::forward, operands, workspace, call.stream);
  }
}

void run_attention_grad_graphs(const KernelCall& call, RunCudnnGraph run,
                               LaunchAttentionMask launch_mask) {
  const auto &q_ref = call.in[1], &k_ref = call.in[2];
  const CudnnAttention part = cudnn_backward(attrs_of(call.attrs), q_ref.type, k_ref.type);
  const int64_t group = part.heads / part.key_heads;
  for (int64_t row = 0; row < q_ref.type.shape[0]; row += part.rows) {
    CudnnOperands operands;
    const auto workspace = make_mask(call, part, row, launch_mask, operands);
    for (int64_t key_head = 0; key_head < part.key_heads_of_row; key_head += part.key_heads) {
      const int64_t head = key_head * group;
      auto of_queries = [&](const Ref& ref) { return part_of(ref, part, row, head); };
      auto of_keys = [&](const Ref& ref) { return part_of(ref, part, row, key_head); };
      operands[dout] = of_queries(call.in[0]);
      operands[q] = of_queries(q_ref);
      operands[k] = of_keys(k_ref);
      operands[v] = of_keys(call.in[3]);
      operands[out] = of_queries(call.in[4]);
      operands[log_sum_exp] =
          call.in[5].as<float>() + (row * part.heads_of_row + head) * part.length;
      operands[dq] = of_queries(call.out[0]);
      operands[dk] = of_keys(call.out[1]);
      operands[dv] = of_keys(call.out[2]);
      run(part, CudnnPass::backward, operands, workspace, call.stream);
    }
  }
}

}  // namespace longshore::models
