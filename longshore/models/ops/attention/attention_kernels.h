// The kernels of the attention op, one source for each target.
#pragma once

#include "longshore/base/device.h"
#include "longshore/models/ir/op.h"
#include "longshore/models/ops/attention/attention.h"

namespace longshore::models {

struct AttentionAttrs {
  AttentionOptions options;
  bool segments = false;  // whether they are an input, after q, k, v and what gradients need
  bool sinks = false;     // whether they follow q, k, v

  bool blocks() const { return options.mask == AttentionMask::blocks; }  // whether the last is
  // Which keys a query sees depends on the batch.
  bool is_by_batch() const { return segments || blocks(); }
  // It does not, and scores are not capped.
  bool is_plain() const { return options.soft_cap == 0 && !is_by_batch(); }
};

// Which keys a query of one row of the batch sees.
struct KeyRule {
  AttentionMask mask;
  int64_t window;           // 0: none
  const int32_t* segments;  // [T], or null
  const int32_t* blocks;    // [T], or null

  // Without branches by what is read, so that many keys are read at once.
  LONGSHORE_DEVICE bool sees(int64_t query, int64_t key) const {
    bool is_seen =
        mask == AttentionMask::full || (key <= query && (window == 0 || query - key < window));
    if (blocks) is_seen |= (blocks[query] != 0) & (blocks[query] == blocks[key]);
    if (segments) is_seen &= segments[query] == segments[key];
    return is_seen;
  }
};

// The last inputs of the op and of its gradient; null where they are none.
struct AttentionIds {
  const Ref* segments = nullptr;
  const Ref* blocks = nullptr;
};

inline AttentionIds ids_of(const KernelCall& call) {
  const auto& attrs = std::any_cast<const AttentionAttrs&>(call.attrs);
  AttentionIds ids;
  size_t last = call.in.size();
  if (attrs.blocks()) ids.blocks = &call.in[--last];
  if (attrs.segments) ids.segments = &call.in[--last];
  return ids;
}

// Of the op itself; null where there are none.
inline const Ref* sinks_of(const KernelCall& call) {
  return std::any_cast<const AttentionAttrs&>(call.attrs).sinks ? &call.in[3] : nullptr;
}

inline KeyRule key_rule(const KernelCall& call, int64_t row) {
  const auto& options = std::any_cast<const AttentionAttrs&>(call.attrs).options;
  const AttentionIds ids = ids_of(call);
  auto of_row = [&](const Ref* all) {
    return all ? all->as<int32_t>() + row * all->type.shape[1] : nullptr;
  };
  return {.mask = options.mask,
          .window = options.window,
          .segments = of_row(ids.segments),
          .blocks = of_row(ids.blocks)};
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
void attention_flash(const KernelCall& call);  // as if there were no sinks
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
