#include "models/ops/cached_attention/cached_attention.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "models/ir/infer.h"
#include "models/ops/cached_attention/cached_attention_kernels.h"

namespace longshore::models {
namespace {

const AttentionOptions& options_of(const std::any& attrs) {
  return std::any_cast<const AttentionOptions&>(attrs);
}

Types infer(const std::any& attrs, std::span<const Type> in) {
  constexpr const char* kName = "cached_attention";
  expect_inputs(in, 6, 7, kName);
  const AttentionOptions& o = options_of(attrs);
  expect(o.head_dim > 0 && o.scale >= 0 && o.window >= 0 && o.soft_cap >= 0, kName,
         "head_dim is not positive, or scale, window or soft_cap below 0");
  const bool has_spans = o.mask == AttentionMask::blocks;
  expect(has_spans || o.mask == AttentionMask::causal, kName,
         "a cache serves a mask that is causal or of blocks");
  const Shape &q = in[0].shape, &k = in[1].shape, &cache = in[3].shape;
  expect(q.rank() == 3 && k.rank() == 3 && in[1] == in[2] && q[0] == k[0] && q[1] == k[1] &&
             in[0].dtype == in[1].dtype,
         kName, "q [B,S,H*D] and k, v [B,S,G*D] do not fit");
  expect(q[2] % o.head_dim == 0 && k[2] % o.head_dim == 0 && q[2] % k[2] == 0, kName,
         "query heads are not a multiple of key/value heads");
  expect(cache.rank() == 4 && in[3] == in[4] && in[3].dtype == in[1].dtype && cache[0] == k[0] &&
             cache[2] == k[2] / o.head_dim && cache[3] == o.head_dim && cache[1] >= q[1],
         kName, "the caches are not [B,P,G,D] with P of S or more");
  expect(in[5] == Type{{q[0], q[1]}, Dtype::int32}, kName, "positions are not i32 [B,S]");
  expect(std::ssize(in) == (has_spans ? 7 : 6), kName, "spans go with a mask of blocks");
  if (has_spans)
    expect(in[6] == Type{{q[0], q[1], 2}, Dtype::int32}, kName, "spans are not i32 [B,S,2]");
  return {in[0], in[3], in[4]};
}

// The cost with a full cache: two products with each row that is seen, and writes of k and v alone.
Cost cost(const std::any& attrs, std::span<const Type> in, std::span<const Type>) {
  CachedAttentionSizes sizes(attrs, in);
  double seen = static_cast<double>(std::min(sizes.p, sizes.window));
  double read = 2 * seen * static_cast<double>(sizes.b * sizes.g * sizes.d);
  return {.flops = 4 * seen * static_cast<double>(in[0].shape.count()),
          .bytes = read * static_cast<double>(size_bytes(in[3].dtype)) +
                   2.0 * static_cast<double>(in[0].bytes() + in[1].bytes() + in[2].bytes())};
}

std::vector<Reuse> reuse(const std::any&, int) {
  return {{.out = 1, .in = 3}, {.out = 2, .in = 4}};
}

std::string print(const std::any& attrs) {
  const AttentionOptions& o = options_of(attrs);
  std::ostringstream text;
  text << "head_dim=" << o.head_dim;
  if (o.scale != 0) text << ", scale=" << o.scale;
  if (o.window != 0) text << ", window=" << o.window;
  if (o.soft_cap != 0) text << ", soft_cap=" << o.soft_cap;
  if (o.mask == AttentionMask::blocks) text << ", mask=blocks";
  return text.str();
}

}  // namespace

CachedAttentionSizes::CachedAttentionSizes(const std::any& attrs, std::span<const Type> in) {
  const AttentionOptions& o = options_of(attrs);
  b = in[0].shape[0];
  s = in[0].shape[1];
  p = in[3].shape[1];
  g = in[3].shape[2];
  d = in[3].shape[3];
  h = in[0].shape[2] / d;
  scale = o.score_scale();
  soft_cap = o.soft_cap;
  window = o.window == 0 ? p : o.window;
}

const Op cached_attention_op{
    .name = "cached_attention",
    .infer = infer,
    .cost = cost,
    .print = print,
    .reuse = reuse,
    .op_class = OpClass::attention,
    .cpu = {cached_attention_cpu, cached_attention_cpu_workspace},
    .cuda = {cached_attention_composed, cached_attention_composed_workspace},
    .reference = {cached_attention_composed, cached_attention_composed_workspace}};

CachedAttention cached_attention(Var q, Var k, Var v, const KeyValueCache& cache, Var positions,
                                 const AttentionOptions& options, std::optional<Var> spans) {
  std::vector<Var> in{q, k, v, cache.keys, cache.values, positions};
  if (spans) in.push_back(*spans);
  auto out = q.trace->emit(cached_attention_op, options, in);
  return {out[0], {out[1], out[2]}};
}

}  // namespace longshore::models
