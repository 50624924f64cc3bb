// The kernels of the attention op, one source for each target.
#pragma once

#include "models/ir/op.h"
#include "models/ops/attention/attention.h"

namespace longshore::models {

struct AttentionAttrs {
  AttentionOptions options;
  bool segments = false;  // whether they are the last input

  // Which keys a query sees depends on their places alone, and scores are not capped.
  bool is_plain() const { return options.soft_cap == 0 && !segments; }
};

// The segments of a row of the batch; null where there are none.
inline const int32_t* segments_of_row(const KernelCall& call, int64_t row) {
  if (!std::any_cast<const AttentionAttrs&>(call.attrs).segments) return nullptr;
  const Ref& segments = call.in.back();
  return segments.as<int32_t>() + row * segments.type.shape[1];
}

// Throws InternalError.
[[noreturn]] void refuse_attention(const AttentionAttrs& attrs, Dtype dtype);

void attention_cpu(const KernelCall& call);
void attention_grad_cpu(const KernelCall& call);
int64_t attention_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                std::span<const Type> out);
int64_t attention_grad_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                     std::span<const Type> out);

// By cuDNN where it serves, else by flash attention or by blocks of scores: in builds with CUDA.
void attention_cuda(const KernelCall& call);
void attention_grad_cuda(const KernelCall& call);
int64_t attention_cuda_workspace(const std::any& attrs, std::span<const Type> in,
                                 std::span<const Type> out);
int64_t attention_grad_cuda_workspace(const std::any& attrs, std::span<const Type> in,
                                      std::span<const Type> out);

// By ATen: flash attention where it serves, else the compositions below.
inline bool flash_serves(const AttentionAttrs& attrs, Dtype dtype) {
  const int64_t head_dim = attrs.options.head_dim;
  return dtype == Dtype::bfloat16 && attrs.is_plain() && head_dim % 8 == 0 && head_dim <= 256;
}
void attention_cuda_aten(const KernelCall& call);
void attention_grad_cuda_aten(const KernelCall& call);
int64_t attention_cuda_aten_workspace(const std::any& attrs, std::span<const Type> in,
                                      std::span<const Type> out);
int64_t attention_grad_cuda_aten_workspace(const std::any& attrs, std::span<const Type> in,
                                           std::span<const Type> out);

// The paths of the forward kernels; the backward kernels take the same.
std::string attention_cpu_path(const std::any& attrs, std::span<const Type> in);
std::string attention_cuda_path(const std::any& attrs, std::span<const Type> in);
std::string attention_cuda_aten_path(const std::any& attrs, std::span<const Type> in);

// ATen compositions, on either device.
void attention_composed(const KernelCall& call);
void attention_grad_composed(const KernelCall& call);
int64_t attention_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                     std::span<const Type> out);
int64_t attention_grad_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                          std::span<const Type> out);

}  // namespace longshore::models
