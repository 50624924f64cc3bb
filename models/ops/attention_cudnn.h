// Attention on GPUs by cuDNN's graphs. What they serve and the workspace they take are known from
// shapes alone, so that planning needs no GPU.
//
// The backward pass adds in a fixed order: the same operands give the same bits. On most GPUs that
// takes all gradients of scores at once, which grow with the square of the length, so it goes
// through the batch in parts: some of its rows, or some key/value heads of one row.
#pragma once

#include <compare>
#include <cstdint>

#include "models/ops/attention_kernels.h"

namespace longshore::models {

// What one graph computes, of operands whose rows may have more heads than it takes.
struct CudnnAttention {
  int64_t rows, length, heads, key_heads, head_dim;
  int64_t heads_of_row, key_heads_of_row;  // in memory
  int64_t window;                          // 0: none
  double scale;

  auto operator<=>(const CudnnAttention&) const = default;
};

bool cudnn_serves(const AttentionAttrs& attrs, const Type& q, const Type& k);

// All of the forward pass, and the first part of the backward pass: the others are like it.
CudnnAttention cudnn_forward(const AttentionAttrs& attrs, const Type& q, const Type& k);
CudnnAttention cudnn_backward(const AttentionAttrs& attrs, const Type& q, const Type& k);

// The most that a graph takes.
int64_t cudnn_forward_workspace(const CudnnAttention& attention);
int64_t cudnn_backward_workspace(const CudnnAttention& attention);

}  // namespace longshore::models
