// Who computes attention on a GPU, and in how much workspace.
#include <algorithm>

#include "longshore/models/ops/attention/attention_blocks.h"
#include "longshore/models/ops/attention/attention_cudnn.h"
#include "longshore/models/ops/attention/attention_sinks.h"

namespace longshore::models {
namespace {

const AttentionAttrs& attrs_of(const std::any& attrs) {
  return std::any_cast<const AttentionAttrs&>(attrs);
}

// Attention on a GPU: by cuDNN on the GPUs that it serves.
int64_t workspace(CudnnGpus gpus, const CudnnAttention& part, CudnnPass pass, int64_t elsewhere) {
  if (gpus == CudnnGpus::none) return elsewhere;
  const int64_t by_cudnn = cudnn_mask_bytes(part) + cudnn_graph_workspace(part, pass);
  return gpus == CudnnGpus::all ? by_cudnn : std::max(by_cudnn, elsewhere);
}

}  // namespace

std::string attention_cuda_path(const std::any& any, std::span<const Type> in) {
  const AttentionAttrs& attrs = attrs_of(any);
  const std::string by_cudnn = "fused attention (cuDNN)",
                    elsewhere = flash_serves(attrs, in[0].dtype)
                                    ? attention_cuda_aten_path(any, in)
                                    : "blocks of cuBLASLt's matrix products";
  const CudnnGpus forward = cudnn_serves_on(attrs, in[0], in[1], CudnnPass::forward),
                  backward = cudnn_serves_on(attrs, in[0], in[1], CudnnPass::backward);
  const std::string grad = forward == backward ? "" : ", its gradient " + elsewhere;
  switch (forward) {
    case CudnnGpus::none:
      return elsewhere;
    case CudnnGpus::hopper:
      return by_cudnn + grad + " on Hopper, elsewhere " + elsewhere;
    case CudnnGpus::all_but_10:
      return by_cudnn + grad + ", on compute capability 10 " + elsewhere;
    case CudnnGpus::all:
      break;
  }
  return by_cudnn + grad;
}

int64_t attention_cuda_workspace(const std::any& any, std::span<const Type> in,
                                 std::span<const Type> out) {
  const AttentionAttrs& attrs = attrs_of(any);
  const Type &q = in[0], &k = in[1];
  return workspace(cudnn_serves_on(attrs, q, k, CudnnPass::forward), cudnn_forward(attrs, q, k),
                   CudnnPass::forward,
                   flash_serves(attrs, q.dtype) ? attention_cuda_aten_workspace(any, in, out)
                                                : attention_blocks_workspace(attrs, q, k));
}

int64_t attention_grad_cuda_workspace(const std::any& any, std::span<const Type> in,
                                      std::span<const Type> out) {
  const AttentionAttrs& attrs = attrs_of(any);
  const Type &q = in[1], &k = in[2];
  return workspace(cudnn_serves_on(attrs, q, k, CudnnPass::backward), cudnn_backward(attrs, q, k),
                   CudnnPass::backward,
                   flash_serves(attrs, q.dtype) ? attention_grad_cuda_aten_workspace(any, in, out)
                                                : attention_grad_blocks_workspace(attrs, q, k));
}

#ifdef LONGSHORE_CUDA

namespace {

constexpr AttentionBlockParts kBlockParts{.multiply = run_cublaslt,
                                          .softmax = launch_attention_softmax,
                                          .softmax_grad = launch_attention_softmax_grad,
                                          .zero = launch_zero,
                                          .round = launch_round};

}  // namespace

void attention_cuda(const KernelCall& call) {
  const AttentionAttrs& attrs = attrs_of(call.attrs);
  const Type &q = call.in[0].type, &k = call.in[1].type;
  if (cudnn_serves_here(attrs, q, k, CudnnPass::forward))
    run_attention_graphs(call, run_cudnn_graph, launch_attention_mask);
  else if (flash_serves(attrs, q.dtype))
    attention_flash(call);
  else
    run_attention_blocks(call, kBlockParts);
  if (attrs.sinks) launch_attention_sinks(attention_sinks_arguments(call), call.stream);
}

void attention_grad_cuda(const KernelCall& call) {
  const AttentionAttrs& attrs = attrs_of(call.attrs);
  const Type &q = call.in[1].type, &k = call.in[2].type;
  if (cudnn_serves_here(attrs, q, k, CudnnPass::backward))
    run_attention_grad_graphs(call, run_cudnn_graph, launch_attention_mask);
  else if (flash_serves(attrs, q.dtype))
    attention_grad_cuda_aten(call);
  else
    run_attention_grad_blocks(call, kBlockParts);
}

#endif

}  // namespace longshore::models
