#include <ATen/ops/arange.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/softmax.h>

#include <limits>

#include "longshore/base/pieces.h"
#include "longshore/models/ops/cached_attention/cached_attention_kernels.h"
#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {
namespace {

// Key/value heads whose scores exist at a time.
int64_t heads_at_once(const CachedAttentionSizes& s) {
  return std::clamp<int64_t>(kCompositionElements / (s.s * s.group() * s.p), 1, s.g);
}

// Of scores [g,S,H/G,P], which may be overwritten, and sinks [g,1,H/G,1], which may be undefined.
at::Tensor probabilities(at::Tensor scores, const at::Tensor& sinks) {
  if (!sinks.defined()) return at::softmax(scores, -1);
  return scores.sub_(at::logaddexp(at::logsumexp(scores, {-1}, true), sinks)).exp_();
}

}  // namespace

void append_to_cache_composed(const KernelCall& call) {
  const Shape& shape = call.out[0].type.shape;
  const int64_t s = call.in[0].type.shape[1];
  at::Tensor cache = tensor(call, call.out[0]);
  if (call.in[1].data != call.out[0].data) cache.copy_(tensor(call, call.in[1]));
  at::Tensor rows = tensor(call, call.in[0]).view({shape[0], s, shape[2], shape[3]});
  at::Tensor positions = tensor(call, call.in[2]).to(at::kLong);
  for (int64_t b = 0; b < shape[0]; ++b) cache[b].index_copy_(0, positions[b], rows[b]);
}

// Positions, with as many bytes as ATen's indices have.
int64_t append_to_cache_composed_workspace(const std::any&, std::span<const Type> in,
                                           std::span<const Type>) {
  return allocated_bytes(2 * in[2].bytes()) + (1 << 14);
}

void cached_attention_composed(const KernelCall& call) {
  const Types types = types_of(call.in);
  const CachedAttentionSizes s(call.attrs, types);
  const auto wide = compute_type(call.in[0]);
  at::Tensor positions = tensor(call, call.in[3]).to(at::kLong);
  const at::Tensor caches[2]{tensor(call, call.in[1]), tensor(call, call.in[2])};
  at::Tensor q = tensor(call, call.in[0]).view({s.b, s.s, s.g, s.group(), s.d});
  at::Tensor context = tensor(call, call.out[0]).view({s.b, s.s, s.g, s.group(), s.d});
  at::Tensor keys = at::arange(s.p, positions.options()), sinks;
  if (const Ref* given = cached_sinks_of(call))
    sinks = tensor(call, *given).to(wide).view({s.g, 1, s.group(), 1});
  for (int64_t b = 0; b < s.b; ++b) {
    at::Tensor last = positions[b], first = last - (s.window - 1);
    if (const Ref* spans = spans_of(call)) {
      const at::Tensor span = tensor(call, *spans).to(at::kLong)[b];  // [S,2]
      first = at::minimum(first, span.select(1, 0));
      last = at::maximum(last, span.select(1, 1));
    }
    const at::Tensor chunk = at::floor_divide(positions[b], s.chunk).mul_(s.chunk);
    first = at::maximum(first, chunk);
    last = at::minimum(last, chunk + (s.chunk - 1));
    at::Tensor hidden =
        keys.gt(last.view({s.s, 1, 1})).logical_or_(keys.lt(first.view({s.s, 1, 1})));  // [S,1,P]
    for_each_piece(s.g, heads_at_once(s), [&](int64_t first, int64_t count) {
      auto heads = [&](const at::Tensor& cache) {  // [g,P,D]
        return cache[b].narrow(1, first, count).to(wide).transpose(0, 1);
      };
      at::Tensor rows = q[b].narrow(1, first, count)
                            .to(wide)
                            .transpose(0, 1)
                            .reshape({count, s.s * s.group(), s.d});
      at::Tensor scores = at::matmul(rows, heads(caches[0]).transpose(1, 2)).mul_(s.scale);
      if (s.soft_cap > 0) scores.div_(s.soft_cap).tanh_().mul_(s.soft_cap);
      scores = scores.view({count, s.s, s.group(), s.p})
                   .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
      at::Tensor of_heads;  // [g,1,H/G,1]
      if (sinks.defined()) of_heads = sinks.narrow(0, first, count);
      at::Tensor part = at::matmul(probabilities(scores, of_heads).flatten(1, 2), heads(caches[1]));
      context[b]
          .narrow(1, first, count)
          .copy_(part.view({count, s.s, s.group(), s.d}).transpose(0, 1));
    });
  }
}

// Scores and probabilities, both caches' heads converted and made contiguous for the products,
// queries and context twice, masks and positions.
int64_t cached_attention_composed_workspace(const std::any& attrs, std::span<const Type> in,
                                            std::span<const Type>) {
  CachedAttentionSizes s(attrs, in);
  int64_t heads = heads_at_once(s), rows = heads * s.s * s.group();
  int64_t numbers = 2 * rows * s.p + 4 * heads * s.p * s.d + 4 * rows * s.d;
  if (cached_attention_attrs(attrs).sinks) numbers += 5 * rows;  // log-sum-exps
  return numbers * std::max(size_bytes(in[0].dtype), size_bytes(Dtype::float32)) +
         16 * (s.p + 7 * s.b * s.s) + 4 * s.s * s.p + (1 << 20);
}

}  // namespace longshore::models
