// The attention mask holds numbers to add to scores: 0, or a very low score for a key that a query
// does not see. It serves libraries that know neither segments nor blocks. On a GPU our custom
// kernel makes it.
#pragma once

#include "longshore/models/ops/attention/attention_kernels.h"

namespace longshore::models {

// Added to a score it is all that is left, and a softmax of such scores alone is no NaN as that of
// infinities is.
inline constexpr float kHiddenScore = -1e30f;

struct AttentionMaskArguments {
  int64_t rows, length;  // T of longshore/models/ops/attention/attention.h
  KeyRule rule;          // of the first row; the others' ids follow
  // bfloat16 [rows,T,attention_mask_width(T)]: 0, or kHiddenScore where query i does not see key j.
  void* mask;
};

// T rounded up to whole vectors; the columns from T on are hidden.
constexpr int64_t attention_mask_width(int64_t length) { return (length + 7) / 8 * 8; }

// Into a cudaStream_t; throws Error when the launch fails.
void launch_attention_mask(const AttentionMaskArguments& arguments, void* stream);

using LaunchAttentionMask = void (*)(const AttentionMaskArguments&, void* stream);

}  // namespace longshore::models
