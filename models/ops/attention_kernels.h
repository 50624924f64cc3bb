// The kernels behind the attention op, one source for each target.
#pragma once

#include "models/op.h"

namespace longshore::models {

struct AttentionAttrs {
  int64_t head_dim;
};

void attention_cpu(const KernelCall& call);
void attention_grad_cpu(const KernelCall& call);
int64_t attention_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                std::span<const Type> out);
int64_t attention_grad_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                     std::span<const Type> out);

void attention_cuda(const KernelCall& call);
void attention_grad_cuda(const KernelCall& call);
int64_t attention_cuda_workspace(const std::any& attrs, std::span<const Type> in,
                                 std::span<const Type> out);
int64_t attention_grad_cuda_workspace(const std::any& attrs, std::span<const Type> in,
                                      std::span<const Type> out);

// Scores of one head at a time, as a full matrix.
void attention_composed(const KernelCall& call);
void attention_grad_composed(const KernelCall& call);

}  // namespace longshore::models
