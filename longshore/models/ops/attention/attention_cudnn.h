// Attention on GPUs by cuDNN's graphs. What they serve and the workspace they take are known from
// shapes alone, so that planning needs no GPU.
//
// A deterministic backward pass takes, on most GPUs, all gradients of scores at once, which grow
// with the square of the length; another takes dq in float32. So it goes through the batch in
// parts: some of its rows, or some key/value heads of one row.
//
// Graphs know a window and what comes later, but neither segments nor blocks: what these hide is
// added to the scores.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "longshore/models/ops/attention/attention_kernels.h"
#include "longshore/models/ops/attention/attention_mask.h"

namespace longshore::models {

// What one graph computes, of operands whose rows may have more heads than it takes.
struct CudnnAttention {
  int64_t rows, length, heads, key_heads, head_dim;
  int64_t heads_of_row, key_heads_of_row;  // in memory
  double scale, soft_cap;                  // 0: scores are not capped
  bool is_masked;                          // by numbers that are added
  bool is_causal;                          // by the graph
  int64_t window;                          // by the graph; 0: none
  bool deterministic;                      // backward

  auto operator<=>(const CudnnAttention&) const = default;
};

enum class CudnnPass { forward, backward };

// GPUs by their compute capability.
enum class CudnnGpus {
  none,
  hopper,      // 9.0
  all_but_10,  // from 8.0 on, without the Blackwells of data centers
  all,         // from 8.0 on
};

CudnnGpus cudnn_serves_on(const AttentionAttrs& attrs, const Type& q, const Type& k,
                          CudnnPass pass);
// On a GPU of that compute capability, 10 times major and minor.
bool cudnn_serves(const AttentionAttrs& attrs, const Type& q, const Type& k, CudnnPass pass,
                  int compute_capability);
// On the current device, in builds with CUDA.
bool cudnn_serves_here(const AttentionAttrs& attrs, const Type& q, const Type& k, CudnnPass pass);

// The first part of each pass: the others are like it.
CudnnAttention cudnn_forward(const AttentionAttrs& attrs, const Type& q, const Type& k);
CudnnAttention cudnn_backward(const AttentionAttrs& attrs, const Type& q, const Type& k);

// The most that a graph takes.
int64_t cudnn_graph_workspace(const CudnnAttention& part, CudnnPass pass);
// The bytes of a part's mask, which lies before the graph's workspace; 0 where there is none.
int64_t cudnn_mask_bytes(const CudnnAttention& part);

// Names of a graph's operands, by which it is given where they begin. Masks are bfloat16
// [rows,T,attention_mask_width(T)], the others as the op has them.
enum CudnnOperand : int64_t { q = 1, k, v, mask, out, log_sum_exp, dout, dq, dk, dv };
using CudnnOperands = std::unordered_map<int64_t, void*>;

using RunCudnnGraph = void (*)(const CudnnAttention& part, CudnnPass pass, CudnnOperands& operands,
                               std::span<std::byte> workspace, void* stream);

// Into a cudaStream_t, in builds with CUDA. Throws Error.
void run_cudnn_graph(const CudnnAttention& part, CudnnPass pass, CudnnOperands& operands,
                     std::span<std::byte> workspace, void* stream);

// The workspace that a graph takes on a GPU that need not be here, in builds with CUDA. Its
// properties are cuDNN's JSON (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). cuDNN compiles kernels
// for it, which takes a second and a libcuda.so.1 to hand them to. Throws Error, as
// run_cudnn_graph() does there, where no graph serves or takes as little as was planned.
int64_t cudnn_plan_workspace(const CudnnAttention& part, CudnnPass pass, int compute_capability,
                             const std::string& properties);

// The op and its gradient where cuDNN serves, by what is given.
void run_attention_graphs(const KernelCall& call, RunCudnnGraph run, LaunchAttentionMask mask);
void run_attention_grad_graphs(const KernelCall& call, RunCudnnGraph run, LaunchAttentionMask mask);

}  // namespace longshore::models
