#include "longshore/models/ops/square_sum/square_sum.h"

#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/sqrt.h>

#include <algorithm>
#include <cmath>

#include "longshore/base/pieces.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/blocked_sum.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/square_sum/square_sum_kernels.h"

namespace longshore::models {
namespace {

// --- square_sum

Types infer_square_sum(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "square_sum");
  return {{{}, Dtype::float64}};
}

Cost cost_square_sum(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 2.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

LONGSHORE_SIMD double square_sum_range(const float* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

void run_square_sum_cpu(const KernelCall& call) {
  const float* x = call.in[0].as<float>();
  int64_t count = call.in[0].type.shape.count();
  *call.out[0].as<double>() = blocked_sum(call.workspace, count, [&](int64_t begin, int64_t size) {
    return square_sum_range(x + begin, size);
  });
}

void run_square_sum_composed(const KernelCall& call) {
  const at::Tensor x = tensor(call, call.in[0]).view({-1});
  at::Tensor sum = tensor(call, call.out[0]).zero_();
  for_each_piece(x.numel(), kCompositionElements, [&](int64_t begin, int64_t count) {
    const at::Tensor part = x.narrow(0, begin, count).to(at::kDouble);
    sum.add_(part.dot(part));
  });
}

int64_t workspace_square_sum_composed(const std::any&, std::span<const Type> in,
                                      std::span<const Type>) {
  return std::min(in[0].shape.count(), kCompositionElements) * size_bytes(Dtype::float64) +
         kReductionBytes;
}

// Sums so far.
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return in[0].bytes() + kReductionBytes;
}

// --- sum_in_order

// How many are added.
int64_t summed(const std::any& attrs) { return std::any_cast<int64_t>(attrs); }

Types infer_sum_in_order(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "sum_in_order");
  expect(
      in[0].shape.rank() == 1 && in[0].dtype == Dtype::float64 && summed(attrs) <= in[0].shape[0],
      "sum_in_order", "x is not f64 [k], or has too few");
  return {{{1}, Dtype::float64}};
}

Cost cost_sum_in_order(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

double added_in_order(const Ref& x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += x.as<double>()[i];
  return sum;
}

void run_sum_in_order_cpu(const KernelCall& call) {
  *call.out[0].as<double>() = added_in_order(call.in[0], summed(call.attrs));
}

at::Tensor composed_in_order(const KernelCall& call) {
  return tensor(call, call.in[0]).cumsum(0).select(0, -1);
}

void run_sum_in_order_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  const int64_t count = summed(call.attrs);
  if (count == 0)
    out.zero_();
  else
    out.copy_(tensor(call, call.in[0]).narrow(0, 0, count).cumsum(0).narrow(0, count - 1, 1));
}

// --- clip

struct ClipAttrs {
  double threshold;
};

Types infer_clip(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "clip");
  expect(in[0].shape.rank() == 1 && in[0].dtype == Dtype::float64, "clip",
         "the square sums are not f64 [k]");
  Type scalar{{}, Dtype::float32};
  return {scalar, scalar};
}

Cost cost_clip(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 3.0 + in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::string print_clip(const std::any& attrs) {
  return print_number("threshold", std::any_cast<ClipAttrs>(attrs).threshold);
}

void run_clip_cpu(const KernelCall& call) {
  double threshold = std::any_cast<ClipAttrs>(call.attrs).threshold;
  double norm = std::sqrt(added_in_order(call.in[0], call.in[0].type.shape[0]));
  *call.out[0].as<float>() = clip_factor(norm, threshold);
  *call.out[1].as<float>() = static_cast<float>(norm);
}

void run_clip_composed(const KernelCall& call) {
  double threshold = std::any_cast<ClipAttrs>(call.attrs).threshold;
  at::Tensor norm = at::sqrt(composed_in_order(call));
  if (threshold > 0)
    tensor(call, call.out[0]).copy_((threshold / norm).clamp_max_(1).nan_to_num_(0.0));
  else
    tensor(call, call.out[0]).fill_(1);
  tensor(call, call.out[1]).copy_(norm);
}

// --- custom kernels on CUDA

int64_t workspace_own(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return square_sum_partials(in[0].shape.count()) * size_bytes(Dtype::float64);
}

}  // namespace

SquareSumArguments square_sum_arguments(const KernelCall& call) {
  return {.count = call.in[0].type.shape.count(),
          .x = call.in[0].as<float>(),
          .partials = reinterpret_cast<double*>(call.workspace.data()),
          .result = call.out[0].as<double>()};
}

SumInOrderArguments sum_in_order_arguments(const KernelCall& call) {
  return {.count = summed(call.attrs),
          .x = call.in[0].as<double>(),
          .result = call.out[0].as<double>()};
}

ClipArguments clip_arguments(const KernelCall& call) {
  return {.count = call.in[0].type.shape.count(),
          .square_sums = call.in[0].as<double>(),
          .threshold = std::any_cast<ClipAttrs>(call.attrs).threshold,
          .factor = call.out[0].as<float>(),
          .norm = call.out[1].as<float>()};
}

const Op square_sum_op{
    .name = "square_sum",
    .infer = infer_square_sum,
    .cost = cost_square_sum,
    .cpu = {run_square_sum_cpu, workspace_blocked_sum<0>},
    .cuda = {custom_kernel<launch_square_sum, square_sum_arguments>(), workspace_own},
    .cuda_composed = {run_square_sum_composed, workspace_square_sum_composed},
    .reference = {run_square_sum_composed}};

const Op sum_in_order_op{.name = "sum_in_order",
                         .infer = infer_sum_in_order,
                         .cost = cost_sum_in_order,
                         .cpu = {run_sum_in_order_cpu},
                         .cuda = {custom_kernel<launch_sum_in_order, sum_in_order_arguments>()},
                         .cuda_composed = {run_sum_in_order_composed, workspace_composed},
                         .reference = {run_sum_in_order_composed}};

const Op clip_op{.name = "clip",
                 .infer = infer_clip,
                 .cost = cost_clip,
                 .print = print_clip,
                 .cpu = {run_clip_cpu},
                 .cuda = {custom_kernel<launch_clip, clip_arguments>()},
                 .cuda_composed = {run_clip_composed, workspace_composed},
                 .reference = {run_clip_composed}};

Var square_sum(Var x) { return x.trace->emit(square_sum_op, {}, {x})[0]; }

Var sum_in_order(Var x) { return sum_in_order(x, x.type().shape.count()); }

Var sum_in_order(Var x, int64_t count) { return x.trace->emit(sum_in_order_op, count, {x})[0]; }

float clip_factor(double norm, double threshold) {
  const double factor = threshold > 0 && !(norm <= threshold) ? threshold / norm : 1;
  return std::isnan(factor) ? 0.f : static_cast<float>(factor);
}

Clip clip(Var square_sums, double threshold) {
  auto out = square_sums.trace->emit(clip_op, ClipAttrs{threshold}, {square_sums});
  return {out[0], out[1]};
}

}  // namespace longshore::models
