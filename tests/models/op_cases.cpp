// B batch, T length, C width, H query heads, G key/value heads, D head_dim, V vocabulary.
#include "tests/models/op_cases.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <iterator>
#include <sstream>

#include "models/families/lora.h"
#include "models/ir/add.h"
#include "models/ir/trace.h"
#include "models/ops/add_bias/add_bias.h"
#include "models/ops/attention/attention.h"
#include "models/ops/cached_attention/cached_attention.h"
#include "models/ops/embedding/embedding.h"
#include "models/ops/gelu.h"
#include "models/ops/kernels/aten.h"
#include "models/ops/l2_penalty.h"
#include "models/ops/linear/linear.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"
#include "models/ops/mean_square_error.h"
#include "models/ops/rms_norm/rms_norm.h"
#include "models/ops/rope/rope.h"
#include "models/ops/scale.h"
#include "models/ops/soft_cap.h"
#include "models/ops/square_sum/square_sum.h"
#include "models/ops/sum.h"
#include "models/ops/swiglu.h"
#include "models/ops/update/adamw.h"
#include "models/ops/update/lion.h"
#include "models/ops/update/sgd.h"
#include "tests/models/plain.h"
#include "tests/models/update_program.h"

namespace longshore::models {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kRopeBase = 100;
const Weight kTrained{};

template <class... Sizes>
std::string named(const char* op, Sizes... sizes) {
  std::ostringstream name;
  name << op;
  ((name << ' ' << sizes), ...);
  return name.str();
}

Type ints(Shape shape) { return {shape, Dtype::int32}; }

at::Tensor random_integers(at::IntArrayRef sizes, int64_t limit, uint64_t seed) {
  return at::randint(0, limit, sizes, at::detail::createCPUGenerator(seed), at::kInt);
}

// Some targets are ignored; with few tokens, the last one.
at::Tensor targets(int64_t b, int64_t t, int64_t vocabulary) {
  at::Tensor result = random_integers({b, t}, vocabulary, 7);
  at::Tensor flat = result.view({-1});
  for (int64_t i = flat.size(0) - 1; i > 0; i -= 5) flat[i] = kIgnoredTarget;
  return result;
}

// Not simply 0, 1, 2 ...: packed documents start anew.
at::Tensor positions(int64_t b, int64_t t) {
  at::Tensor row = at::arange(t, at::kInt);
  return (row.unsqueeze(0) + 3 * at::arange(b, at::kInt).unsqueeze(1)).remainder(301).to(at::kInt);
}

// --- linear

OpCase linear_case(int64_t b, int64_t t, int64_t k, int64_t n) {
  return {
      .name = named("linear", b, t, k, n),
      .trace =
          [=](Dtype dtype) {
            Trace trace("linear");
            Var x = trace.input("x", {{b, t, k}, dtype});
            trace.output(linear(x, trace.weight("w", {{n, k}, dtype}, kTrained)));
            return trace.finish();
          },
      .integers = {},
      .plain = [](const Tensors& in) { return std::vector{plain::linear(in.at("x"), in.at("w"))}; },
      .adjust = {}};
}

// x and w are used twice each, and an intermediate value is an output too.
OpCase shared_linear_case(int64_t b, int64_t t, int64_t k, int64_t n) {
  return {.name = named("linear, shared", b, t, k, n),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_linear");
                Var x = trace.input("x", {{b, t, k}, dtype});
                Var w = trace.weight("w", {{k, k}, dtype}, kTrained);
                Var first = linear(x, w);
                trace.output(first);
                trace.output(linear(first, w));
                trace.output(linear(x, trace.weight("u", {{n, k}, dtype}, kTrained)));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor first = plain::linear(in.at("x"), in.at("w"));
                return std::vector{first, plain::linear(first, in.at("w")),
                                   plain::linear(in.at("x"), in.at("u"))};
              },
          .adjust = {}};
}

// Added to what is there already.
OpCase sum_linear_case(int64_t b, int64_t t, int64_t k, int64_t n) {
  return {.name = named("linear, sum", b, t, k, n),
          .trace =
              [=](Dtype dtype) {
                Trace trace("sum_linear");
                Var x = trace.input("x", {{b, t, k}, dtype});
                Var sum = trace.input("sum", {{b, t, n}, dtype});
                trace.output(linear(x, trace.weight("w", {{n, k}, dtype}, kTrained), sum));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                return std::vector{plain::linear(in.at("x"), in.at("w")) + in.at("sum")};
              },
          .adjust = {}};
}

OpCase lora_case(int64_t b, int64_t t, int64_t k, int64_t n, int64_t rank) {
  const LoraProduct adapter{.rank = rank, .scale = 8.0 / static_cast<double>(rank)};
  return {
      .name = named("lora", b, t, k, n, rank),
      .trace =
          [=](Dtype dtype) {
            Trace trace("lora");
            Var x = trace.input("x", {{b, t, k}, dtype});
            Var y = linear(x, trace.weight("q_proj.weight", {{n, k}, dtype}, kTrained));
            trace.output(add_lora(adapter, x, y, "q_proj"));
            return trace.finish();
          },
      .integers = {},
      .plain =
          [=](const Tensors& in) {
            at::Tensor low = plain::linear(in.at("x"), in.at("q_proj.lora_A.weight"));
            return std::vector{plain::linear(in.at("x"), in.at("q_proj.weight")) +
                               plain::linear(low, in.at("q_proj.lora_B.weight")) * (8.0 / rank)};
          },
      .adjust = {}};
}

// --- rms_norm

OpCase rms_norm_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("rms_norm", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("rms_norm");
                Var x = trace.input("x", {{b, t, c}, dtype});
                trace.output(rms_norm(x, trace.weight("w", {{c}, dtype}, kTrained), kEpsilon));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                return std::vector{plain::rms_norm(in.at("x"), in.at("w"), kEpsilon)};
              },
          .adjust = {}};
}

// Residual connection around a norm; the norm's weight is used twice.
OpCase shared_rms_norm_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("rms_norm, shared", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_rms_norm");
                Var x = trace.input("x", {{b, t, c}, dtype});
                Var w = trace.weight("w", {{c}, dtype}, kTrained);
                Var sum = add(x, rms_norm(x, w, kEpsilon));
                trace.output(add(sum, rms_norm(sum, w, kEpsilon)));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor x = in.at("x"), w = in.at("w");
                at::Tensor sum = x + plain::rms_norm(x, w, kEpsilon);
                return std::vector{sum + plain::rms_norm(sum, w, kEpsilon)};
              },
          .adjust = {}};
}

// The heads of x are normalised by one weight and its whole rows by another, which is added to 1;
// the heads' weight is used both ways.
OpCase heads_rms_norm_case(int64_t b, int64_t t, int64_t h, int64_t d) {
  return {.name = named("rms_norm, heads", b, t, h, d),
          .trace =
              [=](Dtype dtype) {
                Trace trace("heads_rms_norm");
                Var x = trace.input("x", {{b, t, h * d}, dtype});
                Var heads = trace.weight("heads", {{d}, dtype}, kTrained);
                Var whole = trace.weight("whole", {{h * d}, dtype}, kTrained);
                Var sum = add(x, rms_norm(x, heads, kEpsilon));
                Var y = rms_norm(sum, whole, kEpsilon, {.weight_offset = 1});
                trace.output(add(sum, y));
                trace.output(rms_norm(y, heads, kEpsilon, {.weight_offset = 0.5}));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor x = in.at("x"), heads = in.at("heads");
                at::Tensor sum = x + plain::rms_norm(x, heads, kEpsilon);
                at::Tensor y = plain::rms_norm(sum, in.at("whole"), kEpsilon, 1);
                return std::vector{sum + y, plain::rms_norm(y, heads, kEpsilon, 0.5)};
              },
          .adjust = {}};
}

// --- rope

struct NamedScaling {
  const char* name;
  RopeScaling scaling;
};
const NamedScaling kPlainRope{"rope", {}};
const NamedScaling kLinearRope{"rope, linear", LinearRopeScaling{3}};
// Frequencies of all three kinds from head_dim 6 on.
const NamedScaling kLlama3Rope{"rope, llama3", Llama3RopeScaling{8, 1, 4, 64}};

OpCase rope_case(int64_t b, int64_t t, int64_t h, int64_t d,
                 const NamedScaling& scaling = kPlainRope) {
  return {
      .name = named(scaling.name, b, t, h, d),
      .trace =
          [=](Dtype dtype) {
            Trace trace("rope");
            RopeTable table =
                rope_table(trace.batch("positions", ints({b, t})), d, kRopeBase, scaling.scaling);
            Var x = trace.input("x", {{b, t, h * d}, dtype});
            trace.output(rope(x, table));
            return trace.finish();
          },
      .integers = {{"positions", positions(b, t)}},
      .plain =
          [=](const Tensors& in) {
            at::Tensor x = in.at("x");
            return std::vector{plain::rope(x, plain::rope_table(in.at("positions"), d, kRopeBase,
                                                                x.scalar_type(), scaling.scaling))};
          },
      .adjust = {}};
}

// --- attention

std::string name_of(const AttentionShape& shape) {
  const AttentionOptions& o = shape.options;
  std::ostringstream name;
  name << named("attention", shape.b, shape.t, shape.h, shape.g, o.head_dim);
  if (o.scale != 0) name << ", scale " << o.scale;
  if (o.window != 0) name << ", window " << o.window;
  if (o.soft_cap != 0) name << ", soft_cap " << o.soft_cap;
  if (shape.segments.defined()) name << ", segments";
  if (o.mask == AttentionMask::full) name << ", full";
  if (o.mask == AttentionMask::blocks) name << ", blocks";
  return name.str();
}

// Queries, keys and values are one value.
OpCase shared_attention_case(int64_t b, int64_t t, int64_t h, int64_t d) {
  return {.name = named("attention, shared", b, t, h, d),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_attention");
                Var x = trace.input("x", {{b, t, h * d}, dtype});
                trace.output(attention(x, x, x, {.head_dim = d}));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [=](const Tensors& in) {
                at::Tensor x = in.at("x");
                return std::vector{plain::attention(x, x, x, d)};
              },
          .adjust = {}};
}

// Caches of `capacity` tokens, full of earlier ones; row b of the batch goes on at first + 3 b.
struct CachedShape {
  int64_t b, s, h, g, capacity, first;
  AttentionOptions options;
};

OpCase cached_attention_case(const CachedShape& shape) {
  const auto [b, s, h, g, capacity, first, o] = shape;
  return {.name = named("cached_attention", b, s, h, g, capacity, first, o.head_dim, o.window,
                        o.soft_cap),
          .trace =
              [=](Dtype dtype) {
                const AttentionOptions& options = shape.options;
                Trace trace("cached_attention");
                Var q = trace.input("q", {{shape.b, shape.s, shape.h * options.head_dim}, dtype});
                Type kv{{shape.b, shape.s, shape.g * options.head_dim}, dtype};
                Var k = trace.input("k", kv), v = trace.input("v", kv);
                Type cache{{shape.b, shape.capacity, shape.g, options.head_dim}, dtype};
                KeyValueCache before{trace.state("key_cache", cache),
                                     trace.state("value_cache", cache)};
                Var positions = trace.batch("positions", ints({shape.b, shape.s}));
                CachedAttention out = cached_attention(q, k, v, before, positions, options);
                trace.output(out.context);
                trace.output(out.cache.keys, OutputRole::state);
                trace.output(out.cache.values, OutputRole::state);
                return trace.finish();
              },
          .integers = {{"positions", (at::arange(s, at::kInt).unsqueeze(0) + first +
                                      3 * at::arange(b, at::kInt).unsqueeze(1))
                                         .to(at::kInt)}},
          .plain = {},
          .adjust = [](Tensors& in) { in.at("q").mul_(3); }};
}

// --- gated layers and add

struct Gated {
  const char* name;
  Var (*op)(Var gate, Var up);
  at::Tensor (*plain)(const at::Tensor& gate, const at::Tensor& up);
};
const Gated kSwiglu{"swiglu", swiglu, plain::swiglu};
const Gated kGeglu{"geglu", geglu, plain::geglu};

OpCase gated_case(const Gated& gated, int64_t b, int64_t t, int64_t c) {
  return {
      .name = named(gated.name, b, t, c),
      .trace =
          [=](Dtype dtype) {
            Trace trace(gated.name);
            Var gate = trace.input("gate", {{b, t, c}, dtype});
            trace.output(gated.op(gate, trace.input("up", {{b, t, c}, dtype})));
            return trace.finish();
          },
      .integers = {},
      .plain =
          [=](const Tensors& in) { return std::vector{gated.plain(in.at("gate"), in.at("up"))}; },
      .adjust = [](Tensors& in) { in.at("gate").mul_(4); }};
}

OpCase shared_gated_case(const Gated& gated, int64_t b, int64_t t, int64_t c) {
  return {
      .name = named((std::string(gated.name) + ", shared").c_str(), b, t, c),
      .trace =
          [=](Dtype dtype) {
            Trace trace(std::string("shared_") + gated.name);
            Var x = trace.input("x", {{b, t, c}, dtype});
            trace.output(gated.op(x, x));
            return trace.finish();
          },
      .integers = {},
      .plain = [=](const Tensors& in) { return std::vector{gated.plain(in.at("x"), in.at("x"))}; },
      .adjust = {}};
}

OpCase add_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("add", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("add");
                Var a = trace.input("a", {{b, t, c}, dtype});
                Var sum = add(a, trace.input("b", {{b, t, c}, dtype}));
                trace.output(add(sum, sum));
                trace.output(add(a, swiglu(sum, a)));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor a = in.at("a"), sum = a + in.at("b");
                return std::vector{sum + sum, a + plain::swiglu(sum, a)};
              },
          .adjust = {}};
}

// --- embedding

// `padding` is an id, or -1 for none.
OpCase embedding_case(int64_t b, int64_t t, int64_t vocabulary, int64_t c, int64_t padding = -1) {
  return {.name = named("embedding", b, t, vocabulary, c, padding),
          .trace =
              [=](Dtype dtype) {
                Trace trace("embedding");
                Var w = trace.weight("w", {{vocabulary, c}, dtype}, kTrained);
                trace.output(embedding(trace.batch("ids", ints({b, t})), w, padding));
                trace.output(embedding(trace.batch("more_ids", ints({b, t})), w, padding));
                return trace.finish();
              },
          .integers = {{"ids", random_integers({b, t}, vocabulary, 3)},
                       {"more_ids", random_integers({b, t}, (vocabulary + 1) / 2, 4)}},
          .plain =
              [=](const Tensors& in) {
                return std::vector{plain::embedding(in.at("ids"), in.at("w"), padding),
                                   plain::embedding(in.at("more_ids"), in.at("w"), padding)};
              },
          .adjust = {}};
}

OpCase take_rows_case(int64_t b, int64_t t, int64_t c, int64_t rows) {
  return {.name = named("take_rows", b, t, c, rows),
          .trace =
              [=](Dtype dtype) {
                Trace trace("take_rows");
                Var x = trace.input("x", {{b, t, c}, dtype});
                trace.output(take_rows(x, trace.batch("rows", ints({rows}))));
                return trace.finish();
              },
          .integers = {{"rows", random_integers({rows}, b * t, 5)}},
          .plain = {},
          .adjust = {}};
}

// --- linear_cross_entropy

// With a cap of 0, there is none.
OpCase cross_entropy_case(int64_t b, int64_t t, int64_t c, int64_t vocabulary, double cap = 0) {
  return {
      .name = named(cap > 0 ? "linear_cross_entropy, capped" : "linear_cross_entropy", b, t, c,
                    vocabulary),
      .trace =
          [=](Dtype dtype) {
            Trace trace("linear_cross_entropy");
            Var x = trace.input("x", {{b, t, c}, dtype});
            Var w = trace.weight("w", {{vocabulary, c}, dtype}, kTrained);
            Var loss =
                linear_cross_entropy(x, w, trace.batch("targets", ints({b, t})), {.soft_cap = cap});
            trace.output(loss, OutputRole::loss);
            return trace.finish();
          },
      .integers = {{"targets", targets(b, t, vocabulary)}},
      .plain =
          [=](const Tensors& in) {
            return std::vector{plain::cross_entropy(in.at("x"), in.at("w"), in.at("targets"), cap)};
          },
      // Confident logits, so that losses of all sizes occur.
      .adjust = [](Tensors& in) { in.at("x").mul_(3); }};
}

// Tied embeddings: the weight is read at both ends, and x by another output as well.
OpCase tied_cross_entropy_case(int64_t b, int64_t t, int64_t c, int64_t vocabulary) {
  return {.name = named("linear_cross_entropy, tied", b, t, c, vocabulary),
          .trace =
              [=](Dtype dtype) {
                Trace trace("tied");
                Var w = trace.weight("w", {{vocabulary, c}, dtype}, kTrained);
                Var side = trace.input("side", {{b, t, c}, dtype});
                Var x = add(embedding(trace.batch("ids", ints({b, t})), w), side);
                Var all = trace.batch("targets", ints({b, t}));
                trace.output(linear_cross_entropy(x, w, all), OutputRole::loss);
                trace.output(swiglu(x, side));
                return trace.finish();
              },
          .integers = {{"ids", random_integers({b, t}, vocabulary, 3)},
                       {"targets", targets(b, t, vocabulary)}},
          .plain =
              [](const Tensors& in) {
                at::Tensor x = plain::embedding(in.at("ids"), in.at("w")) + in.at("side");
                return std::vector{plain::cross_entropy(x, in.at("w"), in.at("targets")),
                                   plain::swiglu(x, in.at("side"))};
              },
          .adjust = {}};
}

// --- gelu

// Numbers of order `scale`: with 4 the tails count, with 40 the exponential is 0 or infinite.
OpCase gelu_case(int64_t b, int64_t t, int64_t c, double scale) {
  return {.name = named("gelu", b, t, c, scale),
          .trace =
              [=](Dtype dtype) {
                Trace trace("gelu");
                trace.output(gelu(trace.input("x", {{b, t, c}, dtype})));
                return trace.finish();
              },
          .integers = {},
          .plain = [](const Tensors& in) { return std::vector{plain::gelu(in.at("x"))}; },
          .adjust = [=](Tensors& in) { in.at("x").mul_(scale); }};
}

// --- add_bias, scale, soft_cap

// The bias is used twice, and what comes between is an output too.
OpCase add_bias_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("add_bias", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("add_bias");
                Var x = trace.input("x", {{b, t, c}, dtype});
                Var bias = trace.weight("bias", {{c}, dtype}, kTrained);
                Var y = add_bias(x, bias);
                trace.output(y);
                trace.output(gelu(add_bias(y, bias)));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor y = in.at("x") + in.at("bias");
                return std::vector{y, plain::gelu(y + in.at("bias"))};
              },
          .adjust = {}};
}

OpCase scale_case(int64_t b, int64_t t, int64_t c, Factor precision = Factor::in_dtype_of_x) {
  double factor = std::sqrt(static_cast<double>(c));
  return {.name = named("scale", b, t, c, static_cast<int>(precision)),
          .trace =
              [=](Dtype dtype) {
                Trace trace("scale");
                trace.output(scale(trace.input("x", {{b, t, c}, dtype}), factor, precision));
                return trace.finish();
              },
          .integers = {},
          .plain = [=](const Tensors& in) { return std::vector{in.at("x") * factor}; },
          .adjust = {}};
}

OpCase soft_cap_case(int64_t b, int64_t t, int64_t c, double cap) {
  return {.name = named("soft_cap", b, t, c, cap),
          .trace =
              [=](Dtype dtype) {
                Trace trace("soft_cap");
                trace.output(soft_cap(trace.input("x", {{b, t, c}, dtype}), cap));
                return trace.finish();
              },
          .integers = {},
          .plain = [=](const Tensors& in) { return std::vector{plain::soft_cap(in.at("x"), cap)}; },
          .adjust = {}};
}

// --- losses of whole values

OpCase sum_case(Shape shape) {
  return {.name = named("sum", text(Type{shape})),
          .trace =
              [=](Dtype dtype) {
                Trace trace("sum");
                Var x = trace.input("x", {shape, dtype});
                trace.output(sum(x), OutputRole::loss);
                return trace.finish();
              },
          .integers = {},
          .plain = [](const Tensors& in) { return std::vector{in.at("x").sum()}; },
          .adjust = {}};
}

// What is summed has another reader.
OpCase shared_sum_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("sum, shared", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_sum");
                Var x = trace.input("x", {{b, t, c}, dtype});
                trace.output(gelu(x));
                trace.output(sum(x), OutputRole::loss);
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                return std::vector{plain::gelu(in.at("x")), in.at("x").sum()};
              },
          .adjust = {}};
}

OpCase mean_square_error_case(Shape shape) {
  return {.name = named("mean_square_error", text(Type{shape})),
          .trace =
              [=](Dtype dtype) {
                Trace trace("mean_square_error");
                Var x = trace.input("x", {shape, dtype});
                trace.output(mean_square_error(x, trace.input("target", {shape, dtype})),
                             OutputRole::loss);
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                return std::vector{plain::mean_square_error(in.at("x"), in.at("target"))};
              },
          .adjust = {}};
}

// The target is what the prediction was made from.
OpCase shared_mean_square_error_case(int64_t rows, int64_t c) {
  return {.name = named("mean_square_error, shared", rows, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_mean_square_error");
                Var x = trace.input("x", {{rows, c}, dtype});
                trace.output(mean_square_error(gelu(x), x), OutputRole::loss);
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor x = in.at("x");
                return std::vector{plain::mean_square_error(plain::gelu(x), x)};
              },
          .adjust = {}};
}

OpCase l2_penalty_case(int64_t n, int64_t k) {
  return {
      .name = named("l2_penalty", n, k),
      .trace =
          [=](Dtype dtype) {
            Trace trace("l2_penalty");
            trace.output(l2_penalty(trace.weight("w", {{n, k}, dtype}, kTrained), 0.7),
                         OutputRole::auxiliary_loss);
            return trace.finish();
          },
      .integers = {},
      .plain = [](const Tensors& in) { return std::vector{plain::l2_penalty(in.at("w"), 0.7)}; },
      .adjust = {}};
}

// The penalty's gradient is what another is added to, and is added to another.
OpCase shared_l2_penalty_case(int64_t rows, int64_t k) {
  return {.name = named("l2_penalty, shared", rows, k),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_l2_penalty");
                Var x = trace.input("x", {{rows, k}, dtype});
                Var w = trace.weight("w", {{k, k}, dtype}, kTrained);
                trace.output(l2_penalty(w, 0.5), OutputRole::auxiliary_loss);
                trace.output(linear(x, w));
                trace.output(l2_penalty(w, -1.25), OutputRole::auxiliary_loss);
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor w = in.at("w");
                return std::vector{plain::l2_penalty(w, 0.5), plain::linear(in.at("x"), w),
                                   plain::l2_penalty(w, -1.25)};
              },
          .adjust = {}};
}

// --- the optimizer's ops

// Where `adjust` gives the scalars their values, of the third step.
OpCase update_case(const Optimizer& optimizer, int64_t n) {
  return {.name = named(optimizer.rule->name, n),
          .trace =
              [=](Dtype dtype) {
                const Dtype state = dtype == Dtype::bfloat16 ? Dtype::float32 : dtype;
                return update_program(optimizer, {.weight = state, .compute = dtype}, n);
              },
          .integers = {},
          .plain = {},
          .adjust =
              [=](Tensors& in) {
                if (in.contains("second_moment")) in.at("second_moment").square_();
                in.at("learning_rate").fill_(0.01);
                for (size_t i = 0; i < optimizer.rule->scalars.size(); ++i)
                  in.at(optimizer.rule->scalars[i])
                      .fill_(optimizer.rule->scalar(optimizer.numbers, i, 3));
                in.at("clip").fill_(0.7);
              }};
}

// Of every rule.
std::vector<OpCase> update_cases(int64_t n) {
  return {update_case(adamw({.b1 = 0.9, .b2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1}), n),
          update_case(lion({.b1 = 0.9, .b2 = 0.99, .weight_decay = 0.1}), n),
          update_case(sgd({.momentum = 0.9, .weight_decay = 0.1}), n),
          update_case(sgd({.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}), n)};
}

OpCase square_sum_case(int64_t n) {
  return {.name = named("square_sum", n),
          .trace =
              [=](Dtype dtype) {
                Dtype wide = dtype == Dtype::bfloat16 ? Dtype::float32 : dtype;
                Trace trace("square_sum");
                trace.output(square_sum(trace.input("x", {{n}, wide})));
                Var all = trace.input("square_sums", {{n}, Dtype::float64});
                Clip clipped = clip(all, 0.5 * std::sqrt(static_cast<double>(n)));
                trace.output(clipped.factor);
                trace.output(clipped.norm);
                trace.output(clip(all, 0).factor);
                trace.output(clip(sum_in_order(all), 0).norm);
                trace.output(clip(all, 100 + 10 * std::sqrt(static_cast<double>(n))).factor);
                return trace.finish();
              },
          .integers = {},
          .plain = {},
          .adjust = [](Tensors& in) { in.at("square_sums").square_(); }};
}

// Window, segments and soft cap, each there or not, under every mask; with heads of whole vectors,
// which cuDNN takes, and without.
std::vector<OpCase> attention_combinations() {
  std::vector<OpCase> cases;
  for (AttentionMask mask : {AttentionMask::causal, AttentionMask::full, AttentionMask::blocks})
    for (int choice = 0; choice < 8; ++choice)
      for (int64_t head_dim : {6, 8}) {
        if (mask == AttentionMask::full && (choice & 1)) continue;
        const bool has_all = choice == (mask == AttentionMask::full ? 6 : 7);
        const int64_t b = has_all ? 2 : 1;
        AttentionShape shape{b, 7, 2, 1, {.head_dim = head_dim, .mask = mask}};
        if (choice & 1) shape.options.window = 3;
        if (choice & 2) shape.options.soft_cap = 1.5;
        if (choice & 4) shape.segments = segments_of(b, 7, {1, 4});
        // The second is one of two segments, where there are some, and longer than the window.
        if (mask == AttentionMask::blocks) shape.blocks = blocks_of(b, 7, {{0, 2}, {2, 6}});
        cases.push_back(attention_case(shape));
      }
  return cases;
}

// Tiles are 128 queries by 512 (backward 256) keys, the reference's blocks 512 queries.
std::vector<OpCase> attention_over_tiles() {
  return {
      attention_case({1, 700, 4, 2, {.head_dim = 64, .window = 50}}),
      attention_case({1, 900, 3, 1, {.head_dim = 20, .window = 300}}),
      attention_case({1, 1400, 2, 1, {.head_dim = 16, .window = 601}}),
      attention_case({1, 513, 2, 2, {.head_dim = 32, .soft_cap = 2}}),
      attention_case({2, 700, 2, 1, {.head_dim = 40}, segments_of(2, 700, {1, 126, 200, 260})}),
      attention_case({3,
                      650,
                      3,
                      1,
                      {.head_dim = 24, .scale = 0.3, .window = 150, .soft_cap = 5},
                      segments_of(3, 650, {100, 180, 129})}),
      attention_case({1, 120, 1, 1, {.head_dim = 256}, segments_of(1, 120, {60})}),
      attention_case({1, 60, 1, 1, {.head_dim = 8}, segments_of(1, 60, {7})}),
      attention_case({1, 700, 4, 2, {.head_dim = 64, .mask = AttentionMask::full}}),
      attention_case({2,
                      650,
                      2,
                      1,
                      {.head_dim = 24, .soft_cap = 5, .mask = AttentionMask::full},
                      segments_of(2, 650, {100, 390})}),
      attention_case({2,
                      700,
                      4,
                      2,
                      {.head_dim = 64, .mask = AttentionMask::blocks},
                      {},
                      blocks_of(2, 700, {{0, 130}, {200, 456}, {690, 700}})}),
      attention_case({2,
                      900,
                      3,
                      1,
                      {.head_dim = 20, .window = 150, .mask = AttentionMask::blocks},
                      segments_of(2, 900, {300, 390}),
                      blocks_of(2, 900, {{0, 40}, {290, 600}, {690, 890}})}),
  };
}

void append(std::vector<OpCase>& cases, std::vector<OpCase> more) {
  std::move(more.begin(), more.end(), std::back_inserter(cases));
}

}  // namespace

at::Tensor blocks_of(int64_t b, int64_t t, const std::vector<std::pair<int64_t, int64_t>>& blocks) {
  at::Tensor ids = at::zeros({b, t}, at::kInt);
  for (int64_t row = 0; row < b; ++row)
    for (size_t i = 0; i < blocks.size(); ++i) {
      const int64_t begin = std::min(t, blocks[i].first + row),
                    end = std::min(t, blocks[i].second + row);
      ids[row].narrow(0, begin, end - begin).fill_(static_cast<int64_t>(5 * i % 7 + 1));
    }
  return ids;
}

OpCase attention_case(const AttentionShape& shape) {
  const auto& [b, t, h, g, options, segments, blocks] = shape;
  OpCase op_case{
      .name = name_of(shape),
      .trace =
          [=](Dtype dtype) {
            int64_t d = options.head_dim;
            Trace trace("attention");
            Var q = trace.input("q", {{b, t, h * d}, dtype});
            Var k = trace.input("k", {{b, t, g * d}, dtype});
            Var v = trace.input("v", {{b, t, g * d}, dtype});
            AttentionRows rows;
            if (segments.defined()) rows.segments = trace.batch("segments", ints({b, t}));
            if (blocks.defined()) rows.blocks = trace.batch("blocks", ints({b, t}));
            trace.output(attention(q, k, v, options, rows));
            return trace.finish();
          },
      .integers = {},
      .plain =
          [=](const Tensors& in) {
            return std::vector{plain::attention(in.at("q"), in.at("k"), in.at("v"), options,
                                                plain::visible_keys(t, options, segments, blocks))};
          },
      // Scores that differ much, so that the largest so far changes from tile to tile.
      .adjust = [](Tensors& in) { in.at("q").mul_(3); }};
  if (segments.defined()) op_case.integers["segments"] = segments;
  if (blocks.defined()) op_case.integers["blocks"] = blocks;
  return op_case;
}

at::Tensor segments_of(int64_t b, int64_t t, const std::vector<int64_t>& lengths) {
  at::Tensor ids = at::full({b, t}, 5, at::kInt);
  int64_t begin = 0, id = 1000000;
  for (int64_t length : lengths) {
    ids.narrow(1, begin, length).fill_(id);
    begin += length;
    id = id == 1000000 ? 0 : id + 7;
  }
  return ids;
}

std::vector<OpCase> small_cases() {
  std::vector<OpCase> cases{
      linear_case(1, 1, 1, 1),
      linear_case(2, 3, 5, 4),
      shared_linear_case(2, 3, 4, 3),
      rms_norm_case(1, 1, 1),
      rms_norm_case(2, 3, 5),
      shared_rms_norm_case(2, 2, 7),
      heads_rms_norm_case(2, 2, 3, 5),
      rope_case(1, 1, 1, 2),
      rope_case(2, 3, 2, 6),
      rope_case(2, 3, 2, 6, kLinearRope),
      rope_case(2, 3, 2, 6, kLlama3Rope),
      attention_case({1, 1, 1, 1, {.head_dim = 2}}),
      attention_case({2, 1, 4, 2, {.head_dim = 2}}),
      attention_case({2, 5, 4, 2, {.head_dim = 3}}),
      attention_case({1, 7, 3, 1, {.head_dim = 4}}),
      shared_attention_case(1, 6, 2, 3),
      cached_attention_case({1, 1, 1, 1, 1, 0, {.head_dim = 2}}),
      cached_attention_case({2, 3, 4, 2, 11, 5, {.head_dim = 3, .scale = 0.4}}),
      cached_attention_case({1, 4, 3, 1, 9, 4, {.head_dim = 6, .window = 3, .soft_cap = 1.5}}),
      gated_case(kSwiglu, 1, 1, 1),
      gated_case(kSwiglu, 2, 3, 5),
      shared_gated_case(kSwiglu, 1, 3, 5),
      gated_case(kGeglu, 1, 1, 1),
      gated_case(kGeglu, 2, 3, 5),
      shared_gated_case(kGeglu, 1, 3, 5),
      add_case(2, 3, 5),
      add_bias_case(1, 1, 1),
      add_bias_case(2, 3, 5),
      scale_case(2, 3, 5),
      sum_linear_case(1, 2, 5, 3),
      lora_case(2, 3, 5, 4, 3),
      soft_cap_case(2, 3, 5, 0.7),
      soft_cap_case(1, 1, 7, 30),
      gelu_case(1, 1, 1, 1),
      gelu_case(2, 3, 5, 2),
      sum_case({1}),
      sum_case({2, 3, 5}),
      shared_sum_case(1, 3, 5),
      mean_square_error_case({1, 1}),
      mean_square_error_case({2, 1, 3, 5}),
      shared_mean_square_error_case(3, 5),
      l2_penalty_case(1, 1),
      l2_penalty_case(3, 5),
      shared_l2_penalty_case(3, 5),
      embedding_case(1, 1, 1, 1),
      embedding_case(2, 5, 4, 3),
      take_rows_case(2, 3, 4, 5),
      cross_entropy_case(1, 1, 3, 5),
      cross_entropy_case(2, 6, 5, 11),
      cross_entropy_case(2, 270, 3, 9001),  // 256 tokens a chunk
      cross_entropy_case(2, 6, 5, 11, 1.5),
      tied_cross_entropy_case(2, 4, 3, 7),
      tied_cross_entropy_case(1, 300, 3, 8200),
      square_sum_case(7),
  };
  append(cases, update_cases(5));
  append(cases, attention_combinations());
  return cases;
}

std::vector<OpCase> large_cases() {
  std::vector<OpCase> cases{
      linear_case(1, 1, 7, 5),
      linear_case(1, 3, 33, 17),
      linear_case(2, 150, 96, 130),
      linear_case(1, 700, 256, 300),
      shared_linear_case(3, 67, 72, 24),
      sum_linear_case(1, 3, 33, 17),
      sum_linear_case(2, 150, 96, 130),
      lora_case(2, 150, 96, 130, 3),
      rms_norm_case(1, 1, 5),
      rms_norm_case(1, 3, 33),
      rms_norm_case(2, 257, 320),
      rms_norm_case(1, 1, 4097),
      rms_norm_case(1, 3, 1024),
      rms_norm_case(1, 2, 12288),  // beyond what a GPU's block can hold
      shared_rms_norm_case(3, 41, 100),
      heads_rms_norm_case(1, 1, 3, 7),
      heads_rms_norm_case(2, 67, 6, 40),
      heads_rms_norm_case(1, 33, 4, 128),
      rope_case(1, 1, 1, 2),
      rope_case(1, 37, 3, 64),
      rope_case(2, 300, 2, 80),
      rope_case(1, 5, 2, 10),
      rope_case(2, 300, 1, 64, kLinearRope),
      rope_case(2, 300, 1, 64, kLlama3Rope),
      attention_case({1, 1, 2, 1, {.head_dim = 64}}),
      attention_case({1, 17, 1, 1, {.head_dim = 16}}),
      attention_case({2, 128, 2, 2, {.head_dim = 32}}),
      attention_case({1, 129, 3, 1, {.head_dim = 40}}),
      attention_case({1, 513, 2, 1, {.head_dim = 20}}),
      attention_case({2, 700, 4, 2, {.head_dim = 64}}),
      attention_case({1, 700, 2, 1, {.head_dim = 80}}),
      attention_case({1, 700, 6, 2, {.head_dim = 128}}),
      shared_attention_case(1, 650, 2, 24),
      cached_attention_case({1, 1, 8, 2, 700, 650, {.head_dim = 64}}),
      cached_attention_case({2, 1, 4, 4, 300, 200, {.head_dim = 40, .window = 70}}),
      cached_attention_case({1, 1, 6, 1, 200, 130, {.head_dim = 256, .soft_cap = 2}}),
      cached_attention_case({2, 77, 6, 2, 500, 300, {.head_dim = 80, .window = 130}}),
      gated_case(kSwiglu, 1, 1, 1),
      gated_case(kSwiglu, 1, 7, 1),
      gated_case(kSwiglu, 3, 111, 121),
      shared_gated_case(kSwiglu, 1, 33, 31),
      gated_case(kGeglu, 1, 7, 1),
      gated_case(kGeglu, 3, 111, 121),
      shared_gated_case(kGeglu, 1, 33, 31),
      add_case(1, 1, 1),
      add_case(3, 111, 121),
      add_bias_case(1, 1, 7),
      add_bias_case(1, 63, 33),
      add_bias_case(3, 111, 121),
      add_bias_case(2, 300, 160),
      scale_case(1, 7, 1),
      scale_case(3, 111, 121),
      scale_case(3, 111, 121, Factor::in_float32),
      soft_cap_case(1, 7, 1, 2),
      soft_cap_case(3, 111, 121, 0.5),
      soft_cap_case(3, 111, 121, 30),
      gelu_case(1, 1, 7, 1),
      gelu_case(3, 111, 121, 4),
      gelu_case(1, 33, 31, 40),
      sum_case({1, 7}),
      sum_case({3, 111, 999}),
      shared_sum_case(1, 33, 31),
      mean_square_error_case({7}),
      mean_square_error_case({3, 111, 999}),
      shared_mean_square_error_case(33, 31),
      l2_penalty_case(256, 256),
      l2_penalty_case(333, 999),
      shared_l2_penalty_case(67, 72),
      embedding_case(1, 1, 11, 1),
      embedding_case(2, 300, 40, 33),
      embedding_case(2, 300, 40, 33, 7),
      embedding_case(2, 100, 40, 64, 0),
      embedding_case(4, 256, 1000, 320),
      embedding_case(1, 9, 3, 4100),
      take_rows_case(3, 100, 33, 17),
      take_rows_case(1, 9, 320, 1),
      cross_entropy_case(1, 1, 16, 7),
      cross_entropy_case(1, 5, 33, 33),
      cross_entropy_case(5, 500, 32, 1000),  // chunks of 2096, 404
      cross_entropy_case(3, 300, 48, 5000),  // chunks of 416, 416, 68
      cross_entropy_case(1, 5, 33, 33, 2),
      cross_entropy_case(2, 410, 24, 2600, 5),  // chunks of 800, 20
      tied_cross_entropy_case(3, 300, 48, 5000),
      square_sum_case(1),
      square_sum_case(65536),
      square_sum_case(300001),
  };
  for (int64_t n : {1, 17, 70001}) append(cases, update_cases(n));
  append(cases, attention_over_tiles());
  return cases;
}

std::vector<OpCase> real_cases() {
  constexpr int64_t kTokens = 600, kVocabulary = 128256;
  return {rms_norm_case(1, kTokens, 4096),
          rms_norm_case(1, kTokens, 8192),
          heads_rms_norm_case(1, kTokens, 32, 128),
          heads_rms_norm_case(1, kTokens, 8, 256),
          heads_rms_norm_case(1, kTokens, 16, 64),
          rope_case(1, kTokens, 32, 128),
          rope_case(1, kTokens, 8, 64, kLlama3Rope),
          gated_case(kSwiglu, 1, kTokens, 14336),
          gated_case(kGeglu, 1, kTokens, 14336),
          gelu_case(1, 257, 4304, 3),
          add_bias_case(1, kTokens, 3584),
          embedding_case(1, kTokens, kVocabulary, 256),
          cross_entropy_case(1, kTokens, 64, kVocabulary),
          cross_entropy_case(1, 1600, 16, 40000),  // groups of 1536, 64; in chunks of 512
          cross_entropy_case(1, 70, 64, 262144, 30),
          update_cases(1 << 22)[0]};
}

at::Tensor random_normal(const Type& type, uint64_t seed) {
  return at::randn(type.shape.sizes(), at::detail::createCPUGenerator(seed), at::kDouble)
      .to(scalar_type(type.dtype));
}

Tensors random_inputs(const Program& program, const OpCase& op_case, uint64_t seed) {
  Tensors inputs = op_case.integers;
  for (ValueId id : program.inputs) {
    const Value& value = program[id];
    if (value.type.dtype == Dtype::int32) continue;
    at::Tensor x = random_normal(value.type, ++seed);
    if (value.source == Source::weight && value.type.shape.rank() == 1) x.mul_(0.25).add_(1);
    if (value.source == Source::weight && value.type.shape.rank() == 2)
      x.div_(std::sqrt(static_cast<double>(value.type.shape.back())));
    inputs[value.name] = x;
  }
  if (op_case.adjust) op_case.adjust(inputs);
  return inputs;
}

Tensors random_cotangents(const Program& program, uint64_t seed) {
  Tensors cotangents;
  for (const Output& output : program.outputs) {
    const Value& value = program[output.value];
    cotangents[value.name] = random_normal(value.type, ++seed);
  }
  return cotangents;
}

BackwardProgram differentiate(const Program& program, std::vector<ValueId> accumulate) {
  bool wide = std::any_of(program.values.begin(), program.values.end(),
                          [](const Value& value) { return value.type.dtype == Dtype::float64; });
  return backward(program, {.accumulate = std::move(accumulate),
                            .weight_gradient_dtype = wide ? Dtype::float64 : Dtype::float32});
}

Tensors convert(const Tensors& values, const Program& program) {
  Tensors converted;
  for (const auto& [name, tensor] : values)
    if (ValueId id = program.find(name))
      converted[name] = tensor.to(scalar_type(program[id].type.dtype));
  return converted;
}

}  // namespace longshore::models
