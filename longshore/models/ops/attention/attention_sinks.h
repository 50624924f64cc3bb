// What attention sinks add to attention whose kernels know none of them: another denominator of the
// softmax, and their own gradient. On a GPU by our custom kernels.
//
// Sizes as in longshore/models/ops/attention/attention.h. Every query sees a key, its own at least,
// so that its log-sum-exp is finite.
#pragma once

#include "longshore/models/ops/attention/attention_kernels.h"

namespace longshore::models {

// Puts sinks into results that know none: log-sum-exps become those with the sink, and the context
// shrinks by as much.
struct AttentionSinksArguments {
  Dtype dtype;  // of sinks and context: float32 or bfloat16
  int64_t rows, length, heads, head_dim;
  const void* sinks;   // [H]
  void* context;       // [B,T,H*D]
  float* log_sum_exp;  // [B,H,T]
};

struct AttentionSinksGradArguments {
  Dtype dtype;  // of sinks, contexts and their gradients: float32 or bfloat16
  int64_t rows, length, heads, head_dim;
  const void *dcontext, *context;  // [B,T,H*D]
  const float* log_sum_exp;        // [B,H,T]
  const void* sinks;               // [H]
  float* partials;                 // [B*attention_sinks_ranges(B,T),H]
  const float* so_far;             // null where there is no sum yet; may be dsinks
  float* dsinks;                   // [H]
};

// How many ranges of a row's queries are summed apart: enough, with those of the other rows, to
// keep a GPU busy.
inline int64_t attention_sinks_ranges(int64_t rows, int64_t length) {
  const int64_t wanted = rows < 512 ? 512 / rows : 1;
  return wanted < length ? wanted : length;
}

AttentionSinksArguments attention_sinks_arguments(const KernelCall& call);
AttentionSinksGradArguments attention_sinks_grad_arguments(const KernelCall& call);

// Into a cudaStream_t; throw Error when the launch fails.
void launch_attention_sinks(const AttentionSinksArguments& arguments, void* stream);
void launch_attention_sinks_grad(const AttentionSinksGradArguments& arguments, void* stream);

// The first by ATen.
void add_sinks_composed(const KernelCall& call);

}  // namespace longshore::models
