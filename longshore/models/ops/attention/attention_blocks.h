// Attention on GPUs where no library has a fused kernel for it: in float32, of odd heads and, on
// some GPUs, of capped scores or packed rows. Products by cuBLASLt; between them our custom
// kernels: scale, cap, mask and softmax in one, their gradients in another. As in flash attention
// (Dao 2023, arXiv 2307.08691) products take probabilities and their gradients in the operands'
// type, and the backward pass computes scores again.
//
// A block of scores is that of R queries of a row of the batch and all S keys that one of them may
// see, for one query head of each key/value head: [G,R,W], W being S up to whole vectors. Other
// sizes as in longshore/models/ops/attention/attention.h.
#pragma once

#include <cstdint>

#include "longshore/base/bfloat16.h"
#include "longshore/base/device.h"
#include "longshore/models/ops/attention/attention_kernels.h"
#include "longshore/models/ops/kernels/cublaslt_matmul.h"

namespace longshore::models {

// --- custom kernels

struct AttentionBlock {
  int64_t heads;           // G
  int64_t query, queries;  // the first in the row, and R
  int64_t key, keys;       // the first in the row, and S
  int64_t width;           // W
};

struct AttentionScores {
  AttentionBlock block;
  float scale, soft_cap;  // 0: they stay
  KeyRule rule;
  // [G,R,W]: at first the products of queries and keys. Columns from S on are not read.
  float* scores;
};

// Scores become probabilities.
struct AttentionSoftmaxArguments {
  AttentionScores scores;
  float* log_sum_exp;   // of the first head's first query; heads are `head_stride` apart
  int64_t head_stride;  // in elements
  Dtype dtype;          // of the probabilities: float32 or bfloat16
  void* probabilities;  // [G,R,W]; float32 may lie where scores do
};

// Scores and the gradients of probabilities become probabilities and the gradients of products.
struct AttentionSoftmaxGradArguments {
  AttentionScores scores;
  const float* log_sum_exp;  // as above
  int64_t head_stride;
  Dtype dtype;  // of all that follows but dprobabilities
  // Results and their gradients, of the first head's first query: D numbers, queries and heads so
  // far apart.
  const void *out, *dout;
  int64_t head_dim, out_query_stride, out_head_stride;
  float* dprobabilities;  // [G,R,W], products of dout and values
  void* probabilities;    // [G,R,W]; float32 may lie where scores do
  void* dproducts;        // [G,R,W]; float32 may lie where dprobabilities do
};

struct ZeroArguments {
  float* numbers;
  int64_t count;
};

struct RoundArguments {
  const float* from;
  int64_t count;
  bfloat16* to;
};

// Into a cudaStream_t; throw Error when the launch fails.
void launch_attention_softmax(const AttentionSoftmaxArguments& arguments, void* stream);
void launch_attention_softmax_grad(const AttentionSoftmaxGradArguments& arguments, void* stream);
void launch_zero(const ZeroArguments& arguments, void* stream);
void launch_round(const RoundArguments& arguments, void* stream);

// --- the op

// By these.
struct AttentionBlockParts {
  RunProduct multiply;
  void (*softmax)(const AttentionSoftmaxArguments&, void* stream);
  void (*softmax_grad)(const AttentionSoftmaxGradArguments&, void* stream);
  void (*zero)(const ZeroArguments&, void* stream);
  void (*round)(const RoundArguments&, void* stream);
};

void run_attention_blocks(const KernelCall& call, const AttentionBlockParts& parts);
void run_attention_grad_blocks(const KernelCall& call, const AttentionBlockParts& parts);
int64_t attention_blocks_workspace(const AttentionAttrs& attrs, const Type& q, const Type& k);
int64_t attention_grad_blocks_workspace(const AttentionAttrs& attrs, const Type& q, const Type& k);

}  // namespace longshore::models
