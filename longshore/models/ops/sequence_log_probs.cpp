#include "longshore/models/ops/sequence_log_probs.h"

#include <algorithm>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/segment_sums.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"

namespace longshore::models {
namespace {

// --- record

// Of losses or of log-probabilities, and of targets and segments.
void expect_operands(std::span<const Type> in, const char* op) {
  expect_inputs(in, 3, 3, op);
  const Shape& shape = in[0].shape;
  expect(shape.rank() == 2 && in[0].dtype == reduction_dtype(in[0].dtype), op,
         "the first input is not f32 or f64 [B,T]");
  const Type integers{shape, Dtype::int32};
  expect(in[1] == integers && in[2] == integers, op, "targets or segments are not i32 [B,T]");
}

Types infer(const std::any&, std::span<const Type> in) {
  expect_operands(in, "sequence_log_probs");
  return {in[0], in[0]};
}

Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_operands(in, "sequence_log_probs_grad");
  return {in[0]};
}

void vjp(Backward& backward, const Node& node) {
  const ValueId losses = node.in[0];
  if (!backward.wants_gradient(losses)) return;
  const auto out = backward.emit(sequence_log_probs_grad_op, {},
                                 {backward.gradient(node.out[0]), node.in[1], node.in[2]}, losses);
  backward.contribute(losses, out[0]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

// --- CPU

// Calls f(first position of a row, first position of that row's segment, its end) for each segment.
template <class F>
void for_each_segment(const KernelCall& call, F f) {
  const int64_t rows = call.in[0].type.shape[0], t = call.in[0].type.shape[1];
  const auto* const segments = call.in[2].as<int32_t>();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t begin = row * t, end = begin; begin < (row + 1) * t; begin = end) {
      while (end < (row + 1) * t && segments[end] == segments[begin]) ++end;
      if (segments[begin] > 0 && segments[begin] <= t) f(row * t, begin, end);
    }
}

void run_cpu(const KernelCall& call) {
  const auto* const losses = call.in[0].as<float>();
  const auto *const targets = call.in[1].as<int32_t>(), *const segments = call.in[2].as<int32_t>();
  float *const sums = call.out[0].as<float>(), *const counts = call.out[1].as<float>();
  std::fill_n(sums, call.out[0].type.shape.count(), 0.f);
  std::fill_n(counts, call.out[1].type.shape.count(), 0.f);
  for_each_segment(call, [&](int64_t row, int64_t begin, int64_t end) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = begin; i < end; ++i) {
      if (targets[i] == kIgnoredTarget) continue;
      sum -= losses[i];
      ++count;
    }
    const int64_t place = row + segments[begin] - 1;
    sums[place] = static_cast<float>(sum);
    counts[place] = static_cast<float>(count);
  });
}

void run_grad_cpu(const KernelCall& call) {
  const auto* const dsums = call.in[0].as<float>();
  const auto *const targets = call.in[1].as<int32_t>(), *const segments = call.in[2].as<int32_t>();
  auto* const dlosses = call.out[0].as<float>();
  std::fill_n(dlosses, call.out[0].type.shape.count(), 0.f);
  for_each_segment(call, [&](int64_t row, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (targets[i] != kIgnoredTarget) dlosses[i] = -dsums[row + segments[begin] - 1];
  });
}

// --- composition

void run_composed(const KernelCall& call) {
  const at::Tensor counted = tensor(call, call.in[1]).ne(kIgnoredTarget);
  const at::Tensor segments = tensor(call, call.in[2]);
  tensor(call, call.out[0])
      .copy_(segment_sums((tensor(call, call.in[0]) * counted).neg_(), segments));
  tensor(call, call.out[1]).copy_(segment_sums(counted, segments));
}

void run_grad_composed(const KernelCall& call) {
  const at::Tensor dsums = tensor(call, call.in[0]), segments = tensor(call, call.in[2]);
  const at::Tensor counts = tensor(call, call.in[1]).ne(kIgnoredTarget).logical_and(segments.gt(0));
  tensor(call, call.out[0]).copy_(of_segments(dsums, segments).neg_().mul_(counts));
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  constexpr int64_t kTensors = 12;  // of 8 bytes for each position
  return kTensors * allocated_bytes(8 * (in[0].shape.count() + in[0].shape[0])) + (1 << 20);
}

}  // namespace

const Op sequence_log_probs_op{.name = "sequence_log_probs",
                               .infer = infer,
                               .vjp = vjp,
                               .cost = cost,
                               .recompute_cost = RecomputeCost::low,
                               .cpu = {run_cpu},
                               .cuda = {run_composed, workspace_composed},
                               .reference = {run_composed}};

const Op sequence_log_probs_grad_op{.name = "sequence_log_probs_grad",
                                    .infer = infer_grad,
                                    .cost = cost,
                                    .recompute_cost = RecomputeCost::low,
                                    .cpu = {run_grad_cpu},
                                    .cuda = {run_grad_composed, workspace_composed},
                                    .reference = {run_grad_composed}};

SequenceLogProbs sequence_log_probs(Var losses, Var targets, Var segments) {
  const std::vector<Var> out =
      losses.trace->emit(sequence_log_probs_op, {}, {losses, targets, segments});
  return {out[0], out[1]};
}

}  // namespace longshore::models
