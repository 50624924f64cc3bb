// The kernels behind the attention op, one source for each target.
#pragma once

#include "models/op.h"
#include "models/ops/attention.h"

namespace longshore::models {

struct AttentionAttrs {
  AttentionOptions options;
  // Which inputs follow the ones that are always there, in this order.
  bool segments = false, prefix = false;

  // Which keys a query sees depends on their places alone, and scores are not capped.
  bool is_plain() const { return options.soft_cap == 0 && !segments && !prefix; }
};

// What a kernel finds of AttentionMask after its first `first` inputs; null where not given.
struct MaskRefs {
  const Ref* segments = nullptr;
  const Ref* prefix = nullptr;

  MaskRefs(const KernelCall& call, size_t first) {
    const auto& attrs = std::any_cast<const AttentionAttrs&>(call.attrs);
    if (attrs.segments) segments = &call.in[first++];
    if (attrs.prefix) prefix = &call.in[first];
  }
};

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
bool flash_serves(const AttentionAttrs& attrs, Dtype dtype);
void attention_cuda_aten(const KernelCall& call);
void attention_grad_cuda_aten(const KernelCall& call);
int64_t attention_cuda_aten_workspace(const std::any& attrs, std::span<const Type> in,
                                      std::span<const Type> out);
int64_t attention_grad_cuda_aten_workspace(const std::any& attrs, std::span<const Type> in,
                                           std::span<const Type> out);

// Of the forward kernels; the backward ones take the same.
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
