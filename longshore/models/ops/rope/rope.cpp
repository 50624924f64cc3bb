#include "longshore/models/ops/rope/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/rope/rope_kernels.h"

namespace longshore::models {
namespace {

struct TableAttrs {
  int64_t rotary_dim;
  double base;
  RopeScaling scaling;
  std::optional<RopeTemperature> temperature;
};

enum class Direction { forward, backward };  // backward rotates by the opposite angle

struct RopeAttrs {
  Direction direction;
  RopeOptions options;
};

// --- records

void expect_sound(std::monostate) {}
void expect_sound(const LinearRopeScaling& s) {
  expect(s.factor > 0, "rope_table", "linear scaling: factor is not positive");
}
void expect_sound(const Llama3RopeScaling& s) {
  expect(s.factor > 0, "rope_table", "llama3 scaling: factor is not positive");
  expect(0 < s.low_freq_factor && s.low_freq_factor <= s.high_freq_factor, "rope_table",
         "llama3 scaling: not 0 < low_freq_factor <= high_freq_factor");
  expect(s.original_max_position_embeddings > 0, "rope_table",
         "llama3 scaling: original_max_position_embeddings is not positive");
}

void expect_sound(const YarnRopeScaling& s) {
  expect(s.factor > 0 && s.attention_factor > 0, "rope_table", "yarn: a factor is not positive");
  expect(0 < s.beta_slow && s.beta_slow < s.beta_fast, "rope_table",
         "yarn: not 0 < beta_slow < beta_fast");
  expect(s.original_max_position_embeddings > 0, "rope_table",
         "yarn: original_max_position_embeddings is not positive");
}

void expect_sound(const ProportionalRopeScaling& s) {
  expect(s.factor > 0 && s.turned >= 0 && s.turned <= 1, "rope_table",
         "proportional: the factor is not positive, or the share not between 0 and 1");
}

Types infer_table(const std::any& any, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "rope_table");
  expect(in[0].shape.rank() == 2 && in[0].dtype == Dtype::int32, "rope_table",
         "positions are not i32 [B,T]");
  const TableAttrs& attrs = std::any_cast<const TableAttrs&>(any);
  int64_t half = attrs.rotary_dim / 2;
  expect(attrs.rotary_dim > 0 && attrs.rotary_dim % 2 == 0, "rope_table", "rotary_dim is not even");
  expect(!std::holds_alternative<YarnRopeScaling>(attrs.scaling) || attrs.base > 1, "rope_table",
         "yarn: the base is not above 1");
  expect(!attrs.temperature || (attrs.temperature->beta >= 0 && attrs.temperature->length > 0),
         "rope_table", "a temperature without a length");
  std::visit([](const auto& scaling) { expect_sound(scaling); }, attrs.scaling);
  Type table{{in[0].shape[0], in[0].shape[1], half}, Dtype::float32};
  return {table, table};
}

int64_t head_dim(const RopeOptions& options, const Type& table) {
  return options.head_dim.value_or(2 * table.shape.back());
}

const RopeOptions& options_of(const std::any& any) {
  return std::any_cast<const RopeAttrs&>(any).options;
}

Types infer(const std::any& any, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "rope");
  expect(in[0].shape.rank() == 3 && in[1] == in[2] && in[1].shape.rank() == 3 &&
             in[0].shape[0] == in[1].shape[0] && in[0].shape[1] == in[1].shape[1],
         "rope", "x [B,T,H*D] and the tables [B,T,R/2] do not fit");
  const int64_t d = head_dim(options_of(any), in[1]);
  expect(d >= 2 * in[1].shape.back() && in[0].shape[2] % d == 0, "rope",
         "x [B,T,H*D] has no heads of D, or these are less than what turns");
  return {in[0]};
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0];
  if (backward.wants_gradient(x))
    backward.contribute(
        x, backward.emit(rope_op, RopeAttrs{Direction::backward, options_of(node.attrs)},
                         {backward.gradient(node.out[0]), node.in[1], node.in[2]}, x)[0]);
}

Cost cost_table(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 40.0 * out[0].shape.count(), .bytes = operand_bytes(in, out)};
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 3.0 * out[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::string print(std::monostate) { return ""; }
std::string print(const LinearRopeScaling& s) {
  return ", linear " + print_number("factor", s.factor);
}
std::string print(const Llama3RopeScaling& s) {
  return ", llama3 " + print_number("factor", s.factor) + ", " +
         print_number("low_freq_factor", s.low_freq_factor) + ", " +
         print_number("high_freq_factor", s.high_freq_factor) + ", " +
         print_number("original_max_position_embeddings", s.original_max_position_embeddings);
}

std::string print(const YarnRopeScaling& s) {
  return ", yarn " + print_number("factor", s.factor) + ", " +
         print_number("original_max_position_embeddings", s.original_max_position_embeddings) +
         ", " + print_number("beta_fast", s.beta_fast) + ", " +
         print_number("beta_slow", s.beta_slow) + (s.truncate ? "" : ", not truncated") + ", " +
         print_number("attention_factor", s.attention_factor);
}

std::string print(const ProportionalRopeScaling& s) {
  return ", proportional " + print_number("turned", s.turned) + ", " +
         print_number("factor", s.factor);
}

std::string print_table(const std::any& any) {
  const TableAttrs& attrs = std::any_cast<const TableAttrs&>(any);
  std::string text = "rotary_dim=" + std::to_string(attrs.rotary_dim) + ", " +
                     print_number("base", attrs.base) +
                     std::visit([](const auto& scaling) { return print(scaling); }, attrs.scaling);
  if (const auto& temperature = attrs.temperature) {
    text += ", " + print_number("temperature", temperature->beta) + " each " +
            print_number("length", temperature->length);
    if (temperature->first != 0) text += " from " + print_number("first", temperature->first);
  }
  return text;
}

std::string print(const std::any& any) {
  const RopeAttrs& attrs = std::any_cast<const RopeAttrs&>(any);
  std::string text = attrs.direction == Direction::forward ? "forward" : "backward";
  if (attrs.options.head_dim) text += ", head_dim=" + std::to_string(*attrs.options.head_dim);
  if (attrs.options.pairs == RopePairs::adjacent) text += ", adjacent pairs";
  return text;
}

// --- CPU

void scale(RopeFrequencies&, std::monostate) {}
void scale(RopeFrequencies& frequencies, const LinearRopeScaling& s) {
  frequencies.scaling = RopeFrequencies::Scaling::linear;
  frequencies.factor = s.factor;
}
void scale(RopeFrequencies& frequencies, const Llama3RopeScaling& s) {
  frequencies.scaling = RopeFrequencies::Scaling::llama3;
  frequencies.factor = s.factor;
  frequencies.divided_at = s.low_freq_factor;
  frequencies.kept_at = s.high_freq_factor;
  frequencies.original_length = s.original_max_position_embeddings;
}

struct YarnPairs {
  double kept, divided;  // the last that is kept, the first that is divided
};

// The pairs that make beta_fast and beta_slow turns, as transformers bounds them.
YarnPairs yarn_pairs(const YarnRopeScaling& s, double base, int64_t half) {
  const auto dim = static_cast<double>(2 * half);
  auto pair_of = [&](double turns) {
    return dim * std::log(s.original_max_position_embeddings / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  YarnPairs pairs{pair_of(s.beta_fast), pair_of(s.beta_slow)};
  if (s.truncate) pairs = {std::floor(pairs.kept), std::ceil(pairs.divided)};
  pairs = {std::max(pairs.kept, 0.), std::min(pairs.divided, dim - 1)};
  if (pairs.kept == pairs.divided) pairs.divided += 0.001;
  return pairs;
}

void scale(RopeFrequencies& frequencies, const YarnRopeScaling& s) {
  const YarnPairs pairs = yarn_pairs(s, frequencies.base, frequencies.half);
  frequencies.scaling = RopeFrequencies::Scaling::yarn;
  frequencies.factor = s.factor;
  frequencies.divided_at = pairs.divided;
  frequencies.kept_at = pairs.kept;
}

double turned_pairs(const ProportionalRopeScaling& s, int64_t half) {
  return std::floor(s.turned * static_cast<double>(2 * half) / 2);
}

void scale(RopeFrequencies& frequencies, const ProportionalRopeScaling& s) {
  frequencies.scaling = RopeFrequencies::Scaling::proportional;
  frequencies.factor = s.factor;
  frequencies.kept_at = turned_pairs(s, frequencies.half);
}

RopeFrequencies frequencies_of(const TableAttrs& attrs) {
  RopeFrequencies frequencies{.base = attrs.base, .half = attrs.rotary_dim / 2};
  std::visit([&](const auto& scaling) { scale(frequencies, scaling); }, attrs.scaling);
  return frequencies;
}

RopeAmplitude amplitude_of(const TableAttrs& attrs) {
  RopeAmplitude amplitude;
  if (const auto* yarn = std::get_if<YarnRopeScaling>(&attrs.scaling))
    amplitude.attention_factor = yarn->attention_factor;
  if (attrs.temperature) {
    amplitude.beta = attrs.temperature->beta;
    amplitude.length = attrs.temperature->length;
    amplitude.first = attrs.temperature->first;
  }
  return amplitude;
}

void run_table_cpu(const KernelCall& call) {
  const TableAttrs& attrs = std::any_cast<const TableAttrs&>(call.attrs);
  const RopeFrequencies frequencies = frequencies_of(attrs);
  const RopeAmplitude amplitude = amplitude_of(attrs);
  const int64_t half = frequencies.half;
  const int32_t* positions = call.in[0].as<int32_t>();
  float *cos = call.out[0].as<float>(), *sin = call.out[1].as<float>();
  parallel_ranges(call.in[0].type.shape.count(), [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < half; ++i) {
      const double frequency = frequencies(i);
      for (int64_t row = begin; row < end; ++row) {
        const double angle = positions[row] * frequency, by = amplitude(positions[row]);
        cos[row * half + i] = static_cast<float>(by * std::cos(angle));
        sin[row * half + i] = static_cast<float>(by * std::sin(angle));
      }
    }
  });
}

struct RopeRows {
  const float *cos, *sin;
  float sign;
  int64_t rows, heads, head_dim, half;
};

template <RopePairs kPairs, class T>
LONGSHORE_INLINE void rotate_body(const T* x, const RopeRows& r, T* out) {
  constexpr bool kAdjacent = kPairs == RopePairs::adjacent;
  const float *cos = r.cos, *sin = r.sin, sign = r.sign;
  const int64_t half = r.half, apart = kAdjacent ? 1 : half;
  for (int64_t row = 0; row < r.rows; ++row, cos += half, sin += half) {
    for (int64_t head = 0; head < r.heads; ++head, x += r.head_dim, out += r.head_dim) {
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        const int64_t at = kAdjacent ? 2 * i : i;
        float first = load(x[at]), second = load(x[at + apart]), s = sign * sin[i];
        store(out[at], first * cos[i] - second * s);
        store(out[at + apart], second * cos[i] + first * s);
      }
      if (out != x) std::copy(x + 2 * half, x + r.head_dim, out + 2 * half);
    }
  }
}

template <class T>
LONGSHORE_INLINE void rotate_pairs(RopePairs pairs, const T* x, const RopeRows& r, T* out) {
  pairs == RopePairs::adjacent ? rotate_body<RopePairs::adjacent>(x, r, out)
                               : rotate_body<RopePairs::halves>(x, r, out);
}

LONGSHORE_SIMD void rotate_rows(RopePairs pairs, const float* x, const RopeRows& r, float* out) {
  rotate_pairs(pairs, x, r, out);
}
LONGSHORE_SIMD void rotate_rows(RopePairs pairs, const bfloat16* x, const RopeRows& r,
                                bfloat16* out) {
  rotate_pairs(pairs, x, r, out);
}

float sign_of(const std::any& attrs) {
  return std::any_cast<const RopeAttrs&>(attrs).direction == Direction::forward ? 1.f : -1.f;
}

void run_cpu(const KernelCall& call) {
  const int64_t half = call.in[1].type.shape.back(), width = call.in[0].type.shape.back();
  const RopeOptions& options = options_of(call.attrs);
  const int64_t d = head_dim(options, call.in[1].type);
  const float sign = sign_of(call.attrs);
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.in[0].type.shape.rows(), [&](int64_t begin, int64_t end) {
      const RopeRows rows{.cos = call.in[1].as<float>() + begin * half,
                          .sin = call.in[2].as<float>() + begin * half,
                          .sign = sign,
                          .rows = end - begin,
                          .heads = width / d,
                          .head_dim = d,
                          .half = half};
      rotate_rows(options.pairs, call.in[0].as<T>() + begin * width, rows,
                  call.out[0].as<T>() + begin * width);
    });
  });
}

// --- composition

at::Tensor scaled(const at::Tensor& frequencies, double, std::monostate) { return frequencies; }
at::Tensor scaled(const at::Tensor& frequencies, double, const LinearRopeScaling& s) {
  return frequencies / s.factor;
}
at::Tensor scaled(const at::Tensor& frequencies, double, const Llama3RopeScaling& s) {
  at::Tensor turns = frequencies * (s.original_max_position_embeddings / (2 * std::numbers::pi));
  at::Tensor kept =
      ((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)).clamp_(0, 1);
  return (1 - kept) * frequencies / s.factor + kept * frequencies;
}
at::Tensor scaled(const at::Tensor& frequencies, double base, const YarnRopeScaling& s) {
  const int64_t half = frequencies.size(0);
  const YarnPairs pairs = yarn_pairs(s, base, half);
  at::Tensor numbers = at::arange(half, frequencies.options());
  at::Tensor kept = ((numbers - pairs.divided) / (pairs.kept - pairs.divided)).clamp_(0, 1);
  return (1 - kept) * frequencies / s.factor + kept * frequencies;
}
at::Tensor scaled(const at::Tensor& frequencies, double, const ProportionalRopeScaling& s) {
  const int64_t half = frequencies.size(0);
  at::Tensor turns = at::arange(half, frequencies.options()) < turned_pairs(s, half);
  return frequencies / s.factor * turns;
}

void run_table_composed(const KernelCall& call) {
  const TableAttrs& attrs = std::any_cast<const TableAttrs&>(call.attrs);
  at::Tensor positions = tensor(call, call.in[0]);
  at::Tensor frequencies =
      at::pow(at::Scalar(attrs.base),
              at::arange(0, attrs.rotary_dim, 2, positions.options().dtype(at::kDouble)) /
                  -attrs.rotary_dim);
  frequencies = std::visit(
      [&](const auto& scaling) { return scaled(frequencies, attrs.base, scaling); }, attrs.scaling);
  at::Tensor places = positions.to(at::kDouble).unsqueeze(-1);
  at::Tensor angles = places * frequencies;
  const RopeAmplitude by = amplitude_of(attrs);
  at::Tensor amplitude = ((places + by.first) / by.length)
                             .floor_()
                             .log1p_()
                             .mul_(by.beta)
                             .add_(1)
                             .mul_(by.attention_factor);
  tensor(call, call.out[0]).copy_(at::cos(angles).mul_(amplitude));
  tensor(call, call.out[1]).copy_(at::sin(angles).mul_(amplitude));
}

void run_composed(const KernelCall& call) {
  const RopeOptions& options = options_of(call.attrs);
  const Shape& shape = call.in[0].type.shape;
  const int64_t half = call.in[1].type.shape.back(), d = head_dim(options, call.in[1].type);
  auto wide = compute_type(call.in[0]);
  at::Tensor x = tensor(call, call.in[0]).to(wide).view({shape[0], shape[1], shape.back() / d, d});
  at::Tensor cos = tensor(call, call.in[1]).to(wide).unsqueeze(2);
  at::Tensor sin = tensor(call, call.in[2]).to(wide).unsqueeze(2) * sign_of(call.attrs);
  const bool is_adjacent = options.pairs == RopePairs::adjacent;
  auto of_pairs = [&](int64_t which) {
    return is_adjacent ? x.slice(-1, which, 2 * half, 2)
                       : x.slice(-1, which * half, (which + 1) * half);
  };
  at::Tensor first = of_pairs(0), second = of_pairs(1);
  at::Tensor one = first * cos - second * sin, other = second * cos + first * sin;
  at::Tensor turned =
      is_adjacent ? at::stack({one, other}, -1).flatten(-2) : at::cat({one, other}, -1);
  tensor(call, call.out[0])
      .copy_(at::cat({turned, x.slice(-1, 2 * half)}, -1).view({shape[0], shape[1], shape[2]}));
}

// Angles and their functions, and eight rows of frequencies for scaling them.
int64_t workspace_table_composed(const std::any&, std::span<const Type>,
                                 std::span<const Type> out) {
  const Shape& table = out[0].shape;
  return (3 * table.count() + 3 * table.rows() + 8 * table.back()) * size_bytes(Dtype::float64) +
         (1 << 14);
}

// x, four products and two sums of its pairs, and what these make together, twice.
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return 6 * out[0].shape.count() * size_bytes(Dtype::float32) + in[1].bytes() + (1 << 14);
}

}  // namespace

RopeTableArguments rope_table_arguments(const KernelCall& call) {
  const TableAttrs& attrs = std::any_cast<const TableAttrs&>(call.attrs);
  return {.frequencies = frequencies_of(attrs),
          .amplitude = amplitude_of(attrs),
          .tokens = call.in[0].type.shape.count(),
          .positions = call.in[0].as<int32_t>(),
          .cos = call.out[0].as<float>(),
          .sin = call.out[1].as<float>()};
}

RopeArguments rope_arguments(const KernelCall& call) {
  const RopeOptions& options = options_of(call.attrs);
  const int64_t d = head_dim(options, call.in[1].type);
  return {.dtype = call.out[0].type.dtype,
          .tokens = call.in[0].type.shape.rows(),
          .heads = call.in[0].type.shape.back() / d,
          .head_dim = d,
          .half = call.in[1].type.shape.back(),
          .pairs = options.pairs,
          .x = call.in[0].data,
          .cos = call.in[1].as<float>(),
          .sin = call.in[2].as<float>(),
          .sign = sign_of(call.attrs),
          .out = call.out[0].data};
}

const Op rope_table_op{.name = "rope_table",
                       .infer = infer_table,
                       .cost = cost_table,
                       .print = print_table,
                       .recompute_cost = RecomputeCost::low,
                       .cpu = {run_table_cpu},
                       .cuda = {custom_kernel<launch_rope_table, rope_table_arguments>()},
                       .cuda_composed = {run_table_composed, workspace_table_composed},
                       .reference = {run_table_composed}};

const Op rope_op{.name = "rope",
                 .infer = infer,
                 .vjp = vjp,
                 .cost = cost,
                 .print = print,
                 .reuse = reuse,
                 .recompute_cost = RecomputeCost::low,
                 .cpu = {run_cpu},
                 .cuda = {custom_kernel<launch_rope, rope_arguments>()},
                 .cuda_composed = {run_composed, workspace_composed},
                 .reference = {run_composed}};

RopeTable rope_table(Var positions, int64_t rotary_dim, double base, const RopeScaling& scaling,
                     const std::optional<RopeTemperature>& temperature) {
  auto table = positions.trace->emit(
      rope_table_op, TableAttrs{rotary_dim, base, scaling, temperature}, {positions});
  return {table[0], table[1]};
}

Var rope(Var x, RopeTable table, const RopeOptions& options) {
  return x.trace->emit(rope_op, RopeAttrs{Direction::forward, options},
                       {x, table.cos, table.sin})[0];
}

}  // namespace longshore::models
