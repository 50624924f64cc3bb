#include "models/ops/adamw/adamw.h"

#include "base/error.h"
#include "base/round_up.h"
#include "models/ir/infer.h"
#include "models/ir/print.h"
#include "models/ops/adamw/adamw_kernels.h"
#include "models/ops/kernels/block8.h"
#include "models/ops/kernels/own_kernel.h"
#include "models/ops/kernels/stochastic_rounding.h"

namespace longshore::models {
namespace {

void check_states(const AdamWOperands& at, std::span<const Type> in) {
  const Type &gradient = in[at.kGradient], &weight = in[at.kWeight], &m = in[at.kM];
  const Type& v = in[at.v()];
  bool wide = weight.dtype == Dtype::float64;
  expect(gradient.shape.rank() == 1, "adamw", "the gradient is no flat range");
  expect(gradient.dtype == (wide ? Dtype::float64 : Dtype::float32), "adamw",
         "the gradient is not f32 (f64 with a f64 weight)");
  expect(weight.shape == gradient.shape && m.shape == gradient.shape, "adamw",
         "gradient, weight and moments differ in shape");
  expect(m == v, "adamw", "the two moments differ in type");
  if (wide) {
    expect(m == weight, "adamw", "the moments of a f64 weight are not f64");
    return;
  }
  expect(weight.dtype == Dtype::float32 || weight.dtype == Dtype::bfloat16, "adamw",
         "the weight is neither f32 nor bf16");
  if (!at.has_scales()) {
    expect(m.dtype == Dtype::float32 || m.dtype == Dtype::bfloat16, "adamw",
           "moments are neither f32, nor bf16, nor u8 with scales");
    return;
  }
  Type scales = scale_type(gradient.shape.count());
  expect(m.dtype == Dtype::uint8, "adamw", "scales are given for moments that are not u8");
  expect(in[at.m_scale()] == scales && in[at.v_scale()] == scales, "adamw",
         "the scales are not f32, one for each 256 elements");
}

void check_rounding(const AdamWAttrs& attrs, const AdamWOperands& at, std::span<const Type> in) {
  bool narrow = size_bytes(in[at.kWeight].dtype) < 4 || size_bytes(in[at.kM].dtype) < 4;
  expect(narrow == at.rounds(), "adamw",
         narrow ? "something is rounded, but no step is given"
                : "a step is given, but nothing is rounded");
  if (!narrow) return;
  const Rounding& rounding = attrs.rounding;
  expect(in[at.step()] == Type{{}, Dtype::int32}, "adamw", "the step is not an i32 scalar");
  expect(rounding.first >= 0 && rounding.first % kRoundingGroup == 0, "adamw",
         "the range does not start at a multiple of 64 elements");
  expect(rounding.first <= kMaxRounded - in[at.kGradient].shape.count(), "adamw",
         "the range ends beyond 2^33 elements");
}

Types infer(const std::any& any, std::span<const Type> in) {
  const AdamWAttrs& attrs = adamw_attrs(any);
  using Operands = AdamWOperands;
  expect(in.size() == Operands::kLeast || in.size() == Operands::kRounded ||
             in.size() == Operands::kMost,
         "adamw", "there must be 8 inputs, 9 with a step, 11 with a step and scales");
  Operands at(in.size());
  check_states(at, in);
  check_rounding(attrs, at, in);
  const Type& weight = in[at.kWeight];
  Types out(in.begin() + at.kWeight, in.begin() + at.kWeight + at.states());
  if (attrs.compute_dtype != weight.dtype) {
    expect(weight.dtype != Dtype::bfloat16, "adamw", "a bf16 weight has no copy for computing");
    out.push_back({weight.shape, attrs.compute_dtype});
  }
  return out;
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 16.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int inputs) {
  AdamWOperands at(inputs);
  std::vector<Reuse> choices;
  for (int out = 0; out < at.states(); ++out)
    choices.push_back({.out = out, .in = out + at.kWeight});
  return choices;
}

std::string print(const std::any& any) {
  const auto& [h, compute_dtype, rounding] = adamw_attrs(any);
  std::string text = print_number("b1", h.b1) + ", " + print_number("b2", h.b2) + ", " +
                     print_number("epsilon", h.epsilon) + ", " +
                     print_number("weight_decay", h.weight_decay);
  if (rounding.seed) text += ", seed=" + std::to_string(rounding.seed);
  if (rounding.sequence) text += ", sequence=" + std::to_string(rounding.sequence);
  if (rounding.first) text += ", first=" + std::to_string(rounding.first);
  return text;
}

MomentFormat format_of(Dtype moment) {
  return moment == Dtype::uint8      ? MomentFormat::block8
         : moment == Dtype::bfloat16 ? MomentFormat::bfloat16
                                     : MomentFormat::float32;
}

}  // namespace

AdamWArguments adamw_arguments(const KernelCall& call) {
  const auto& [h, compute_dtype, rounding] = adamw_attrs(call.attrs);
  const AdamWOperands at(call.in.size());
  auto before = [&](int input) { return call.in[input].data; };
  auto after = [&](int input) { return call.out[at.output(input)].data; };
  auto scalar = [&](int i) { return call.in[at.learning_rate() + i].as<float>(); };
  AdamWArguments arguments{
      .count = call.in[at.kGradient].type.shape.count(),
      .weight_dtype = call.in[at.kWeight].type.dtype,
      .moments = format_of(call.in[at.kM].type.dtype),
      .gradient = call.in[at.kGradient].as<float>(),
      .weight_before = before(at.kWeight),
      .m_before = before(at.kM),
      .v_before = before(at.v()),
      .weight = after(at.kWeight),
      .m = after(at.kM),
      .v = after(at.v()),
      .compute = std::ssize(call.out) > at.states() ? call.out.back().as<bfloat16>() : nullptr,
      .learning_rate = scalar(0),
      .correction_1 = scalar(1),
      .correction_2 = scalar(2),
      .clip = scalar(3),
      .step = at.rounds() ? call.in[at.step()].as<int32_t>() : nullptr,
      .b1 = static_cast<float>(h.b1),
      .b2 = static_cast<float>(h.b2),
      .epsilon = static_cast<float>(h.epsilon),
      .decay = static_cast<float>(h.weight_decay),
      .rounding = rounding};
  if (!at.has_scales()) return arguments;
  arguments.m_scale_before = call.in[at.m_scale()].as<float>();
  arguments.v_scale_before = call.in[at.v_scale()].as<float>();
  arguments.m_scale = call.out[at.output(at.m_scale())].as<float>();
  arguments.v_scale = call.out[at.output(at.v_scale())].as<float>();
  return arguments;
}

const Op adamw_op{.name = "adamw",
                  .infer = infer,
                  .cost = cost,
                  .print = print,
                  .reuse = reuse,
                  .cpu = {adamw_cpu},
                  .cuda = {own_kernel<launch_adamw, adamw_arguments>()},
                  .cuda_composed = {adamw_composed, adamw_composed_workspace},
                  .reference = {adamw_composed}};

Type moment_type(MomentFormat format, int64_t count) {
  switch (format) {
    case MomentFormat::float32:
      return {{count}, Dtype::float32};
    case MomentFormat::bfloat16:
      return {{count}, Dtype::bfloat16};
    case MomentFormat::block8:
      return {{count}, Dtype::uint8};
  }
  throw InternalError("moment_type: unknown format");
}

Type scale_type(int64_t count) { return {{ceil_div(count, kBlock8)}, Dtype::float32}; }

std::vector<Var> adamw(const AdamW& hyperparameters, Dtype compute_dtype, Var gradient,
                       const AdamWState& state, const AdamWScalars& scalars,
                       const Rounding& rounding) {
  const auto& [weight, m, v, m_scale, v_scale] = state;
  const auto& [learning_rate, correction_1, correction_2, clip, step] = scalars;
  AdamWAttrs attrs{hyperparameters, compute_dtype, rounding};
  Trace& trace = *gradient.trace;
  if (m_scale.id || v_scale.id)
    return trace.emit(adamw_op, attrs,
                      {gradient, weight, m, m_scale, v, v_scale, learning_rate, correction_1,
                       correction_2, clip, step});
  if (step.id)
    return trace.emit(
        adamw_op, attrs,
        {gradient, weight, m, v, learning_rate, correction_1, correction_2, clip, step});
  return trace.emit(adamw_op, attrs,
                    {gradient, weight, m, v, learning_rate, correction_1, correction_2, clip});
}

}  // namespace longshore::models
