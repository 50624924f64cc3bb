#include "models/ops/rope/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/ir/backward.h"
#include "models/ir/infer.h"
#include "models/ir/print.h"
#include "models/ops/kernels/aten.h"
#include "models/ops/kernels/custom_kernel.h"
#include "models/ops/kernels/simd.h"
#include "models/ops/rope/rope_kernels.h"

namespace longshore::models {
namespace {

struct TableAttrs {
  int64_t head_dim;
  double base;
  RopeScaling scaling;
};

enum class Direction { forward, backward };  // backward rotates by the opposite angle

struct RopeAttrs {
  Direction direction;
};

// --- records

void expect_sound(std::monostate) {}
void expect_sound(const LinearRopeScaling& s) {
  expect(s.factor > 0, "rope_table", "linear scaling: factor is not positive");
}
void expect_sound(const Llama3RopeScaling& s) {
  expect(s.factor > 0, "rope_table", "llama3 scaling: factor is not positive");
  expect(0 < s.low_freq_factor && s.low_freq_factor < s.high_freq_factor, "rope_table",
         "llama3 scaling: not 0 < low_freq_factor < high_freq_factor");
  expect(s.original_max_position_embeddings > 0, "rope_table",
         "llama3 scaling: original_max_position_embeddings is not positive");
}

Types infer_table(const std::any& any, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "rope_table");
  expect(in[0].shape.rank() == 2 && in[0].dtype == Dtype::int32, "rope_table",
         "positions are not i32 [B,T]");
  const TableAttrs& attrs = std::any_cast<const TableAttrs&>(any);
  int64_t half = attrs.head_dim / 2;
  expect(attrs.head_dim > 0 && attrs.head_dim % 2 == 0, "rope_table", "head_dim is not even");
  std::visit([](const auto& scaling) { expect_sound(scaling); }, attrs.scaling);
  Type table{{in[0].shape[0], in[0].shape[1], half}, Dtype::float32};
  return {table, table};
}

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "rope");
  expect(in[0].shape.rank() == 3 && in[1] == in[2] && in[1].shape.rank() == 3 &&
             in[0].shape[0] == in[1].shape[0] && in[0].shape[1] == in[1].shape[1] &&
             in[0].shape[2] % (2 * in[1].shape[2]) == 0,
         "rope", "x [B,T,H*D] and the tables [B,T,D/2] do not fit");
  return {in[0]};
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0];
  if (backward.wants_gradient(x))
    backward.contribute(
        x, backward.emit(rope_op, RopeAttrs{Direction::backward},
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

std::string print_table(const std::any& any) {
  const TableAttrs& attrs = std::any_cast<const TableAttrs&>(any);
  return "head_dim=" + std::to_string(attrs.head_dim) + ", " + print_number("base", attrs.base) +
         std::visit([](const auto& scaling) { return print(scaling); }, attrs.scaling);
}

std::string print(const std::any& attrs) {
  return std::any_cast<RopeAttrs>(attrs).direction == Direction::forward ? "forward" : "backward";
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
  frequencies.low_freq_factor = s.low_freq_factor;
  frequencies.high_freq_factor = s.high_freq_factor;
  frequencies.original_length = s.original_max_position_embeddings;
}

RopeFrequencies frequencies_of(const TableAttrs& attrs) {
  RopeFrequencies frequencies{.base = attrs.base, .half = attrs.head_dim / 2};
  std::visit([&](const auto& scaling) { scale(frequencies, scaling); }, attrs.scaling);
  return frequencies;
}

void run_table_cpu(const KernelCall& call) {
  const RopeFrequencies frequencies = frequencies_of(std::any_cast<const TableAttrs&>(call.attrs));
  const int64_t half = frequencies.half;
  const int32_t* positions = call.in[0].as<int32_t>();
  float *cos = call.out[0].as<float>(), *sin = call.out[1].as<float>();
  parallel_ranges(call.in[0].type.shape.count(), [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < half; ++i) {
      const double frequency = frequencies(i);
      for (int64_t row = begin; row < end; ++row) {
        cos[row * half + i] = static_cast<float>(std::cos(positions[row] * frequency));
        sin[row * half + i] = static_cast<float>(std::sin(positions[row] * frequency));
      }
    }
  });
}

template <class T>
LONGSHORE_INLINE void rotate_body(const T* x, const float* cos, const float* sin, float sign,
                                  T* out, int64_t rows, int64_t heads, int64_t half) {
  for (int64_t row = 0; row < rows; ++row, cos += half, sin += half) {
    for (int64_t head = 0; head < heads; ++head, x += 2 * half, out += 2 * half) {
#pragma omp simd
      for (int64_t i = 0; i < half; ++i) {
        float first = load(x[i]), second = load(x[half + i]), s = sign * sin[i];
        store(out[i], first * cos[i] - second * s);
        store(out[half + i], second * cos[i] + first * s);
      }
    }
  }
}

LONGSHORE_SIMD void rotate_rows(const float* x, const float* cos, const float* sin, float sign,
                                float* out, int64_t rows, int64_t heads, int64_t half) {
  rotate_body(x, cos, sin, sign, out, rows, heads, half);
}
LONGSHORE_SIMD void rotate_rows(const bfloat16* x, const float* cos, const float* sin, float sign,
                                bfloat16* out, int64_t rows, int64_t heads, int64_t half) {
  rotate_body(x, cos, sin, sign, out, rows, heads, half);
}

float sign_of(const std::any& attrs) {
  return std::any_cast<RopeAttrs>(attrs).direction == Direction::forward ? 1.f : -1.f;
}

void run_cpu(const KernelCall& call) {
  int64_t half = call.in[1].type.shape.back(), width = call.in[0].type.shape.back();
  float sign = sign_of(call.attrs);
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.in[0].type.shape.rows(), [&](int64_t begin, int64_t end) {
      rotate_rows(call.in[0].as<T>() + begin * width, call.in[1].as<float>() + begin * half,
                  call.in[2].as<float>() + begin * half, sign, call.out[0].as<T>() + begin * width,
                  end - begin, width / (2 * half), half);
    });
  });
}

// --- composition

at::Tensor scaled(const at::Tensor& frequencies, std::monostate) { return frequencies; }
at::Tensor scaled(const at::Tensor& frequencies, const LinearRopeScaling& s) {
  return frequencies / s.factor;
}
at::Tensor scaled(const at::Tensor& frequencies, const Llama3RopeScaling& s) {
  at::Tensor turns = frequencies * (s.original_max_position_embeddings / (2 * std::numbers::pi));
  at::Tensor kept =
      ((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)).clamp_(0, 1);
  return (1 - kept) * frequencies / s.factor + kept * frequencies;
}

void run_table_composed(const KernelCall& call) {
  const TableAttrs& attrs = std::any_cast<const TableAttrs&>(call.attrs);
  at::Tensor positions = tensor(call, call.in[0]);
  at::Tensor frequencies = at::pow(
      at::Scalar(attrs.base),
      at::arange(0, attrs.head_dim, 2, positions.options().dtype(at::kDouble)) / -attrs.head_dim);
  frequencies =
      std::visit([&](const auto& scaling) { return scaled(frequencies, scaling); }, attrs.scaling);
  at::Tensor angles = positions.to(at::kDouble).unsqueeze(-1) * frequencies;
  tensor(call, call.out[0]).copy_(at::cos(angles));
  tensor(call, call.out[1]).copy_(at::sin(angles));
}

void run_composed(const KernelCall& call) {
  bool forward = std::any_cast<RopeAttrs>(call.attrs).direction == Direction::forward;
  const Shape& shape = call.in[0].type.shape;
  int64_t half = call.in[1].type.shape.back(), heads = shape.back() / (2 * half);
  auto wide = compute_type(call.in[0]);
  at::Tensor x = tensor(call, call.in[0]).to(wide).view({shape[0], shape[1], heads, 2, half});
  at::Tensor cos = tensor(call, call.in[1]).to(wide).unsqueeze(2);
  at::Tensor sin = tensor(call, call.in[2]).to(wide).unsqueeze(2);
  at::Tensor first = x.select(3, 0), second = x.select(3, 1);
  at::Tensor s = forward ? sin : -sin;
  at::Tensor rotated = at::cat({first * cos - second * s, second * cos + first * s}, -1);
  tensor(call, call.out[0]).copy_(rotated.view({shape[0], shape[1], shape[2]}));
}

// Angles and their functions, and eight rows of frequencies for scaling them.
int64_t workspace_table_composed(const std::any&, std::span<const Type>,
                                 std::span<const Type> out) {
  const Shape& table = out[0].shape;
  return (3 * table.count() + 8 * table.back()) * size_bytes(Dtype::float64) + (1 << 14);
}

// x, four products and two sums of its halves, and what these make together.
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return 5 * out[0].shape.count() * size_bytes(Dtype::float32) + in[1].bytes() + (1 << 14);
}

}  // namespace

RopeTableArguments rope_table_arguments(const KernelCall& call) {
  return {.frequencies = frequencies_of(std::any_cast<const TableAttrs&>(call.attrs)),
          .tokens = call.in[0].type.shape.count(),
          .positions = call.in[0].as<int32_t>(),
          .cos = call.out[0].as<float>(),
          .sin = call.out[1].as<float>()};
}

RopeArguments rope_arguments(const KernelCall& call) {
  const int64_t half = call.in[1].type.shape.back();
  return {.dtype = call.out[0].type.dtype,
          .tokens = call.in[0].type.shape.rows(),
          .heads = call.in[0].type.shape.back() / (2 * half),
          .half = half,
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

RopeTable rope_table(Var positions, int64_t head_dim, double base, const RopeScaling& scaling) {
  auto table =
      positions.trace->emit(rope_table_op, TableAttrs{head_dim, base, scaling}, {positions});
  return {table[0], table[1]};
}

Var rope(Var x, RopeTable table) {
  return x.trace->emit(rope_op, RopeAttrs{Direction::forward}, {x, table.cos, table.sin})[0];
}

}  // namespace longshore::models
