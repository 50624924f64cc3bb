// Cached attention is attention: a text that is appended in any parts sees what the whole sees.
#include "longshore/models/ops/cached_attention/cached_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <omp.h>

#include "longshore/base/error.h"
#include "longshore/models/ops/kernels/aten.h"
#include "tests/models/harness.h"
#include "tests/models/ops/attention.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

constexpr uint64_t kInputs = 1100;

struct Case {
  const char* name;
  int64_t b, t, h, g;
  CachedAttentionOptions options;
  bool has_sinks = false;

  // The same as attention: each chunk is a segment.
  AttentionShape whole() const {
    AttentionShape shape{b, t, h, g, options.attention, {}, {}, has_sinks};
    if (options.chunk > 0)
      shape.segments = at::arange(t, at::kInt).div(options.chunk, "floor").expand({b, t});
    return shape;
  }
};

const Case kCases[]{
    {"plain", 2, 150, 4, 2, {{.head_dim = 16}}},
    {"one_kv_head", 1, 140, 6, 1, {{.head_dim = 20, .scale = 0.3}}},
    {"window", 1, 200, 2, 2, {{.head_dim = 8, .window = 70}}},
    {"narrow_window", 1, 70, 2, 1, {{.head_dim = 8, .window = 1}}},
    {"soft_cap", 2, 90, 4, 2, {{.head_dim = 24, .window = 33, .soft_cap = 2}}},
    {"sinks", 2, 90, 4, 2, {{.head_dim = 24}}, true},
    {"chunks", 1, 200, 4, 2, {{.head_dim = 8}, 66}},
    {"all", 2, 150, 6, 2, {{.head_dim = 20, .window = 50, .soft_cap = 2}, 64}, true},
};

Tensors random_text(const Case& c, Dtype dtype) {
  OpCase whole = attention_case(c.whole());
  return random_inputs(whole.trace(dtype), whole, kInputs);
}

at::Tensor attend(const Case& c, Dtype dtype, const Tensors& text, Target target) {
  Program program = attention_case(c.whole()).trace(dtype);
  return run_program(program, text, target).at("attention");
}

Program append_program(const Case& c, Dtype dtype, int64_t s, int64_t capacity) {
  Trace t("append");
  int64_t d = c.options.attention.head_dim;
  Var q = t.input("q", {{c.b, s, c.h * d}, dtype});
  Var k = t.input("k", {{c.b, s, c.g * d}, dtype}), v = t.input("v", {{c.b, s, c.g * d}, dtype});
  Type cache{{c.b, capacity, c.g, d}, dtype};
  Var positions = t.batch("positions", {{c.b, s}, Dtype::int32});
  const KeysAndValues before{t.state("key_cache", cache), t.state("value_cache", cache)};
  const KeysAndValues now{append_to_cache(k, before.keys, positions),
                          append_to_cache(v, before.values, positions)};
  CachedAttentionOptionalInputs optional;
  if (c.has_sinks) optional.sinks = t.weight("sinks", {{c.h}, dtype}, Weight{});
  t.output(cached_attention(q, now, positions, c.options, optional));
  t.output(now.keys, OutputRole::state);
  t.output(now.values, OutputRole::state);
  return t.finish();
}

// The text in parts of these lengths, the last of which is repeated as often as need be.
at::Tensor append(const Case& c, Dtype dtype, const Tensors& text, std::vector<int64_t> parts,
                  Target target) {
  int64_t capacity = c.t + 5, at = 0;
  auto options = at::TensorOptions(scalar_type(dtype));
  at::Tensor keys = at::zeros({c.b, capacity, c.g, c.options.attention.head_dim}, options);
  at::Tensor values = at::zeros_like(keys);
  std::vector<at::Tensor> contexts;
  for (size_t i = 0; at < c.t; ++i) {
    int64_t s = std::min(parts[std::min(i, parts.size() - 1)], c.t - at);
    Tensors in{{"key_cache", keys}, {"value_cache", values}};
    for (const char* name : {"q", "k", "v"}) in[name] = text.at(name).narrow(1, at, s).contiguous();
    if (c.has_sinks) in["sinks"] = text.at("sinks");
    in["positions"] = at::arange(at, at + s, at::kInt).unsqueeze(0).expand({c.b, s}).contiguous();
    Program program = append_program(c, dtype, s, capacity);
    Tensors out = run_program(program, in, target);
    contexts.push_back(out.at("cached_attention"));
    keys = out.at("append_to_cache");
    values = out.at("append_to_cache_2");
    at += s;
  }
  return at::cat(contexts, 1);
}

class CachedAttentionOf : public testing::TestWithParam<Case> {};

TEST_P(CachedAttentionOf, PartsIsAttentionToTheWhole) {
  const Case& c = GetParam();
  for (Target target : {Target::cpu, Target::reference}) {
    Tensors text = random_text(c, Dtype::float32);
    at::Tensor whole = attend(c, Dtype::float32, text, Target::reference);
    for (const std::vector<int64_t>& parts :
         {std::vector<int64_t>{c.t}, std::vector<int64_t>{1, 1, 64, 33, 17}})
      EXPECT_LE(difference(append(c, Dtype::float32, text, parts, target), whole), 1e-5);
  }
}

// In how many parts the text comes makes no difference to the bit, nor do threads.
TEST_P(CachedAttentionOf, PartsAreTheSameToTheBit) {
  const Case& c = GetParam();
  int threads = omp_get_max_threads();
  for (Dtype dtype : {Dtype::float32, Dtype::bfloat16}) {
    Tensors text = random_text(c, dtype);
    at::Tensor whole = append(c, dtype, text, {c.t}, Target::cpu);
    EXPECT_TRUE(equal_bits(append(c, dtype, text, {1}, Target::cpu), whole));
    for (int count : {1, 3}) {
      omp_set_num_threads(count);
      EXPECT_TRUE(equal_bits(append(c, dtype, text, {57, 2, 19}, Target::cpu), whole));
    }
    omp_set_num_threads(threads);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CachedAttentionOf, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CachedAttention, RefusesPositionsOutsideTheCache) {
  const Case c{"", 1, 2, 1, 1, {{.head_dim = 2}}};
  Tensors in = random_text(c, Dtype::float32);
  in["key_cache"] = in["value_cache"] = at::zeros({1, 4, 1, 2});
  Program program = append_program(c, Dtype::float32, 2, 4);
  for (int32_t position : {-1, 4}) {
    in["positions"] = at::full({1, 2}, position, at::kInt);
    EXPECT_THROW(run_program(program, in, Target::cpu), InternalError) << position;
  }
}

TEST(CachedAttention, RefusesWhatDoesNotFit) {
  const Case good{"", 2, 3, 4, 2, {{.head_dim = 6}}};
  EXPECT_NO_THROW(append_program(good, Dtype::float32, 3, 3));
  EXPECT_THROW(append_program(good, Dtype::float32, 4, 3), InternalError);  // more than the cache
  Case odd = good;
  odd.h = 3;
  EXPECT_THROW(append_program(odd, Dtype::float32, 3, 9), InternalError);
  Case backwards = good;
  backwards.options.chunk = -1;
  EXPECT_THROW(append_program(backwards, Dtype::float32, 3, 3), InternalError);
}

TEST(CachedAttention, PrintsWhatIsSet) {
  auto printed = [](const Case& c) {
    const Program program = append_program(c, Dtype::float32, 1, 4);
    const Node& node = program.nodes.back();
    return node.op->print(node.attrs);
  };
  EXPECT_EQ(printed({"", 1, 1, 1, 1, {{.head_dim = 6}}}), "head_dim=6");
  EXPECT_EQ(printed({"", 1, 1, 1, 1, {{.head_dim = 6, .window = 2}, 3}, true}),
            "head_dim=6, window=2, chunk=3, sinks");
}

// A state that enters must leave.
TEST(CachedAttention, StatesLeaveAsTheyEntered) {
  Trace t("lost");
  t.output(t.input("x", {{1}, Dtype::float32}));
  t.state("cache", {{1, 2, 3, 4}, Dtype::float32});
  EXPECT_THROW(t.finish(), InternalError);
}

}  // namespace
}  // namespace longshore::models
