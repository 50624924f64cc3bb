// The kernels of the ops cached_attention and append_to_cache, one source for each target.
#pragma once

#include "longshore/models/ir/op.h"
#include "longshore/models/ops/cached_attention/cached_attention.h"

namespace longshore::models {

struct CachedAttentionAttrs {
  CachedAttentionOptions options;
  bool sinks = false;  // whether they follow the positions

  bool spans() const { return options.attention.mask == AttentionMask::blocks; }  // as the last
};

// B batch, S new tokens, P rows of a cache, H query heads, G key/value heads, D head_dim.
struct CachedAttentionSizes {
  int64_t b, s, p, h, g, d;
  double scale;
  double soft_cap;  // 0: none
  int64_t window;   // P where there is none
  int64_t chunk;    // likewise

  CachedAttentionSizes(const std::any& attrs, std::span<const Type> in);
  int64_t group() const { return h / g; }
};

inline const CachedAttentionAttrs& cached_attention_attrs(const std::any& attrs) {
  return std::any_cast<const CachedAttentionAttrs&>(attrs);
}

// Null where there are none.
inline const Ref* cached_sinks_of(const KernelCall& call) {
  return cached_attention_attrs(call.attrs).sinks ? &call.in[4] : nullptr;
}
inline const Ref* spans_of(const KernelCall& call) {
  return cached_attention_attrs(call.attrs).spans() ? &call.in.back() : nullptr;
}

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
