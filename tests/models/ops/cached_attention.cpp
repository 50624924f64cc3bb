#include "longshore/models/ops/cached_attention/cached_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/stack.h>

#include "longshore/models/ir/trace.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"

namespace longshore::models {
namespace {

// Caches of `capacity` tokens, full of earlier ones; row b of the batch goes on at first + 3 b.
struct CachedShape {
  int64_t b, s, h, g, capacity, first;
  AttentionOptions options;
  int64_t chunk = 0;
  bool has_sinks = false;
};

// With spans the second to the last token but one are a block.
Tensors integers_of(const CachedShape& shape) {
  const at::Tensor positions = (at::arange(shape.s, at::kInt).unsqueeze(0) + shape.first +
                                3 * at::arange(shape.b, at::kInt).unsqueeze(1))
                                   .to(at::kInt);
  Tensors integers{{"positions", positions}};
  if (shape.options.mask == AttentionMask::causal) return integers;
  at::Tensor spans = at::stack({positions, positions}, 2);
  const int64_t last = shape.s - 2;
  spans.narrow(1, 1, last).select(2, 0).copy_(positions.narrow(1, 1, 1));
  spans.narrow(1, 1, last).select(2, 1).copy_(positions.narrow(1, last, 1));
  integers["spans"] = spans;
  return integers;
}

OpCase cached_attention_case(const CachedShape& shape) {
  const auto [b, s, h, g, capacity, first, o, chunk, has_sinks] = shape;
  return {
      .name =
          named("cached_attention", b, s, h, g, capacity, first, o.head_dim, o.window, o.soft_cap) +
          (o.mask == AttentionMask::blocks ? ", blocks" : "") +
          (chunk > 0 ? ", chunk " + std::to_string(chunk) : "") + (has_sinks ? ", sinks" : ""),
      .trace =
          [=](Dtype dtype) {
            const AttentionOptions& options = shape.options;
            Trace trace("cached_attention");
            Var q = trace.input("q", {{shape.b, shape.s, shape.h * options.head_dim}, dtype});
            Type kv{{shape.b, shape.s, shape.g * options.head_dim}, dtype};
            Var k = trace.input("k", kv), v = trace.input("v", kv);
            Type cache{{shape.b, shape.capacity, shape.g, options.head_dim}, dtype};
            KeysAndValues before{trace.state("key_cache", cache),
                                 trace.state("value_cache", cache)};
            Var positions = trace.batch("positions", ints({shape.b, shape.s}));
            CachedAttentionOptionalInputs optional;
            if (shape.has_sinks)
              optional.sinks = trace.weight("sinks", {{shape.h}, dtype}, kTrained);
            if (options.mask == AttentionMask::blocks)
              optional.spans = trace.batch("spans", ints({shape.b, shape.s, 2}));
            const KeysAndValues now{append_to_cache(k, before.keys, positions),
                                    append_to_cache(v, before.values, positions)};
            trace.output(cached_attention(q, now, positions, {options, shape.chunk}, optional));
            trace.output(now.keys, OutputRole::state);
            trace.output(now.values, OutputRole::state);
            return trace.finish();
          },
      .integers = integers_of(shape),
      .plain = {},
      .adjust =
          [=](Tensors& in) {
            in.at("q").mul_(3);
            if (has_sinks) in.at("sinks").sub_(1).mul_(16);
          }};
}

std::vector<OpCase> small() {
  return {
      cached_attention_case({1, 1, 1, 1, 1, 0, {.head_dim = 2}}),
      cached_attention_case({2, 3, 4, 2, 11, 5, {.head_dim = 3, .scale = 0.4}}),
      cached_attention_case({1, 4, 3, 1, 9, 4, {.head_dim = 6, .window = 3, .soft_cap = 1.5}}),
      cached_attention_case(
          {2, 7, 3, 1, 16, 4, {.head_dim = 6, .window = 3, .mask = AttentionMask::blocks}}),
      cached_attention_case({2, 5, 6, 2, 13, 4, {.head_dim = 6}, 3, true}),
      cached_attention_case({2,
                             7,
                             3,
                             1,
                             16,
                             4,
                             {.head_dim = 6, .window = 3, .mask = AttentionMask::blocks},
                             6,
                             true}),
  };
}

std::vector<OpCase> large() {
  return {
      cached_attention_case({1, 1, 8, 2, 700, 650, {.head_dim = 64}}),
      cached_attention_case({2, 1, 4, 4, 300, 200, {.head_dim = 40, .window = 70}}),
      cached_attention_case({1, 1, 6, 1, 200, 130, {.head_dim = 256, .soft_cap = 2}}),
      cached_attention_case({2, 77, 6, 2, 500, 300, {.head_dim = 80, .window = 130}}),
      cached_attention_case(
          {1, 210, 4, 2, 300, 0, {.head_dim = 40, .window = 70, .mask = AttentionMask::blocks}}),
      cached_attention_case({1, 1, 8, 2, 700, 650, {.head_dim = 64, .window = 128}, 0, true}),
      cached_attention_case({2, 77, 6, 2, 500, 300, {.head_dim = 80}, 100}),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &append_to_cache_op, .tolerance = {}},
    {.op = &cached_attention_op, .tolerance = {1e-5, kRounding}},
};

}  // namespace

extern constinit const OpRecord cached_attention_record{kOps, small, large};

}  // namespace longshore::models
