// The kernels of the ops cached_attention and append_to_cache, one source for each target.
#pragma once

#include "models/ir/op.h"
#include "models/ops/attention/attention.h"

namespace longshore::models {

// B batch, S new tokens, P rows of a cache, H query heads, G key/value heads, D head_dim.
struct CachedAttentionSizes {
  int64_t b, s, p, h, g, d;
  double scale;
  double soft_cap;  // 0: none
  int64_t window;   // P where there is none

  CachedAttentionSizes(const std::any& attrs, std::span<const Type> in);
  int64_t group() const { return h / g; }
};

void append_to_cache_cpu(const KernelCall& call);
void cached_attention_cpu(const KernelCall& call);
int64_t cached_attention_cpu_workspace(const std::any& attrs, std::span<const Type> in,
                                       std::span<const Type> out);

// ATen compositions, on either device.
void append_to_cache_composed(const KernelCall& call);
int64_t append_to_cache_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                           std::span<const Type> out);
void cached_attention_composed(const KernelCall& call);
int64_t cached_attention_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                            std::span<const Type> out);

}  // namespace longshore::models
