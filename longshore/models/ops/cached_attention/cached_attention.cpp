#include "longshore/models/ops/cached_attention/cached_attention.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/cached_attention/cached_attention_kernels.h"

namespace longshore::models {
namespace {

Types infer_append(const std::any&, std::span<const Type> in) {
  constexpr const char* kName = "append_to_cache";
  expect_inputs(in, 3, 3, kName);
  const Shape &rows = in[0].shape, &cache = in[1].shape;
  expect(rows.rank() == 3 && cache.rank() == 4 && in[0].dtype == in[1].dtype &&
             rows[0] == cache[0] && rows[1] <= cache[1] && rows[2] == cache[2] * cache[3],
         kName, "rows [B,S,G*D] and cache [B,P,G,D], P of S or more, do not fit");
  expect(in[2] == Type{{rows[0], rows[1]}, Dtype::int32}, kName, "positions are not i32 [B,S]");
  return {in[1]};
}

Types infer(const std::any& any, std::span<const Type> in) {
  constexpr const char* kName = "cached_attention";
  const CachedAttentionAttrs& attrs = cached_attention_attrs(any);
  const size_t count = 4 + (attrs.sinks ? 1 : 0) + (attrs.spans() ? 1 : 0);
  expect_inputs(in, count, count, kName);
  const AttentionOptions& o = attrs.options.attention;
  expect(o.head_dim > 0 && o.scale >= 0 && o.window >= 0 && o.soft_cap >= 0, kName,
         "head_dim is not positive, or scale, window or soft_cap below 0");
  expect(attrs.options.chunk >= 0, kName, "chunk is below 0");
  expect(o.mask != AttentionMask::full, kName, "a cache serves a mask that is causal or of blocks");
  const Shape &q = in[0].shape, &cache = in[1].shape;
  expect(q.rank() == 3 && cache.rank() == 4 && in[1] == in[2] && in[0].dtype == in[1].dtype &&
             cache[0] == q[0] && cache[1] >= q[1] && cache[3] == o.head_dim,
         kName, "q [B,S,H*D] and the caches [B,P,G,D], P of S or more, do not fit");
  expect(q[2] % (cache[2] * cache[3]) == 0, kName,
         "query heads are not a multiple of key/value heads");
  expect(in[3] == Type{{q[0], q[1]}, Dtype::int32}, kName, "positions are not i32 [B,S]");
  if (attrs.sinks)
    expect(in[4] == Type{{q[2] / o.head_dim}, in[0].dtype}, kName,
           "sinks are not [H] of q's dtype");
  if (attrs.spans())
    expect(in.back() == Type{{q[0], q[1], 2}, Dtype::int32}, kName, "spans are not i32 [B,S,2]");
  return {in[0]};
}

Cost cost_append(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return {.flops = 0, .bytes = 2.0 * static_cast<double>(in[0].bytes())};
}

// The cost with a full cache: two products with each row that is seen.
Cost cost(const std::any& attrs, std::span<const Type> in, std::span<const Type>) {
  CachedAttentionSizes sizes(attrs, in);
  double seen = static_cast<double>(std::min({sizes.p, sizes.window, sizes.chunk}));
  double read = 2 * seen * static_cast<double>(sizes.b * sizes.g * sizes.d);
  return {.flops = 4 * seen * static_cast<double>(in[0].shape.count()),
          .bytes = read * static_cast<double>(size_bytes(in[1].dtype)) +
                   2.0 * static_cast<double>(in[0].bytes())};
}

std::vector<Reuse> reuse_cache(const std::any&, int) { return {{.out = 0, .in = 1}}; }

std::string print(const std::any& any) {
  const CachedAttentionAttrs& attrs = cached_attention_attrs(any);
  const AttentionOptions& o = attrs.options.attention;
  std::ostringstream text;
  text << "head_dim=" << o.head_dim;
  if (o.scale != 0) text << ", scale=" << o.scale;
  if (o.window != 0) text << ", window=" << o.window;
  if (o.soft_cap != 0) text << ", soft_cap=" << o.soft_cap;
  if (attrs.options.chunk != 0) text << ", chunk=" << attrs.options.chunk;
  if (attrs.sinks) text << ", sinks";
  if (o.mask == AttentionMask::blocks) text << ", mask=blocks";
  return text.str();
}

}  // namespace

CachedAttentionSizes::CachedAttentionSizes(const std::any& attrs, std::span<const Type> in) {
  const auto& [o, chunk_size] = cached_attention_attrs(attrs).options;
  b = in[0].shape[0];
  s = in[0].shape[1];
  p = in[1].shape[1];
  g = in[1].shape[2];
  d = in[1].shape[3];
  h = in[0].shape[2] / d;
  scale = o.score_scale();
  soft_cap = o.soft_cap;
  window = o.window == 0 ? p : o.window;
  chunk = chunk_size == 0 ? p : chunk_size;
}

const Op append_to_cache_op{.name = "append_to_cache",
                            .infer = infer_append,
                            .cost = cost_append,
                            .reuse = reuse_cache,
                            .cpu = {append_to_cache_cpu},
                            .cuda = {append_to_cache_composed, append_to_cache_composed_workspace},
                            .reference = {append_to_cache_composed}};

const Op cached_attention_op{
    .name = "cached_attention",
    .infer = infer,
    .cost = cost,
    .print = print,
    .op_class = OpClass::attention,
    .cpu = {cached_attention_cpu, cached_attention_cpu_workspace},
    .cuda = {cached_attention_composed, cached_attention_composed_workspace},
    .reference = {cached_attention_composed, cached_attention_composed_workspace}};

Var append_to_cache(Var rows, Var cache, Var positions) {
  return rows.trace->emit(append_to_cache_op, {}, {rows, cache, positions})[0];
}

Var cached_attention(Var q, const KeysAndValues& cache, Var positions,
                     const CachedAttentionOptions& options,
                     const CachedAttentionOptionalInputs& optional) {
  std::vector<Var> in{q, cache.keys, cache.values, positions};
  for (Var one : {optional.sinks, optional.spans})
    if (one.id) in.push_back(one);
  const CachedAttentionAttrs attrs{options, static_cast<bool>(optional.sinks.id)};
  return q.trace->emit(cached_attention_op, attrs, in)[0];
}

}  // namespace longshore::models
