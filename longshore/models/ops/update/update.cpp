#include "longshore/models/ops/update/update.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/base/round_up.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/block8.h"
#include "longshore/models/ops/kernels/stochastic_rounding.h"
#include "longshore/models/ops/update/update_kernels.h"

namespace longshore::models {
namespace {

void check_states(const UpdateRule& rule, const UpdatePlaces& at, std::span<const Type> in) {
  const Type &gradient = in[at.kGradient], &weight = in[at.kWeight], &state = in[at.state(0)];
  bool wide = weight.dtype == Dtype::float64;
  expect(gradient.shape.rank() == 1, rule.name, "the gradient is no flat range");
  expect(gradient.dtype == (wide ? Dtype::float64 : Dtype::float32), rule.name,
         "the gradient is not f32 (f64 with a f64 weight)");
  expect(weight.shape == gradient.shape && state.shape == gradient.shape, rule.name,
         "gradient, weight and states differ in shape");
  for (int i = 1; i < at.states(); ++i)
    expect(in[at.state(i)] == state, rule.name, "states differ in type");
  if (wide) {
    expect(state == weight, rule.name, "the states of a f64 weight are not f64");
    return;
  }
  expect(weight.dtype == Dtype::float32 || weight.dtype == Dtype::bfloat16, rule.name,
         "the weight is neither f32 nor bf16");
  if (!at.has_scales()) {
    expect(state.dtype == Dtype::float32 || state.dtype == Dtype::bfloat16, rule.name,
           "states are neither f32, nor bf16, nor u8 with scales");
    return;
  }
  expect(state.dtype == Dtype::uint8, rule.name, "scales are given for states that are not u8");
  for (int i = 0; i < at.states(); ++i)
    expect(in[at.scales(i)] == scale_type(gradient.shape.count()), rule.name,
           "the scales are not f32, one for each 256 elements");
}

void check_rounding(const UpdateAttrs& attrs, const UpdatePlaces& at, std::span<const Type> in) {
  const char* name = attrs.optimizer.rule->name;
  bool narrow = size_bytes(in[at.kWeight].dtype) < 4 || size_bytes(in[at.state(0)].dtype) < 4;
  expect(narrow == at.rounds(), name,
         narrow ? "something is rounded, but no step is given"
                : "a step is given, but nothing is rounded");
  if (!narrow) return;
  const Rounding& rounding = attrs.rounding;
  expect(in[at.step()] == Type{{}, Dtype::int32}, name, "the step is not an i32 scalar");
  expect(rounding.first >= 0 && rounding.first % kRoundingGroup == 0, name,
         "the range does not start at a multiple of 64 elements");
  expect(rounding.first <= kMaxRounded - in[at.kGradient].shape.count(), name,
         "the range ends beyond 2^33 elements");
}

StateFormat format_of(Dtype state) {
  return state == Dtype::uint8      ? StateFormat::block8
         : state == Dtype::bfloat16 ? StateFormat::bfloat16
                                    : StateFormat::float32;
}

}  // namespace

Types infer_update(const std::any& any, std::span<const Type> in) {
  const UpdateAttrs& attrs = update_attrs(any);
  const UpdateRule& rule = *attrs.optimizer.rule;
  const UpdatePlaces at(rule, in.size());
  const int inputs = static_cast<int>(in.size());
  if (inputs != at.least() && inputs != at.rounded() && inputs != at.most())
    throw InternalError(std::string(rule.name) + ": there must be " + std::to_string(at.least()) +
                        " inputs, " + std::to_string(at.rounded()) + " with a step, " +
                        std::to_string(at.most()) + " with a step and scales");
  check_states(rule, at, in);
  check_rounding(attrs, at, in);
  const Type& weight = in[at.kWeight];
  Types out(in.begin() + at.kWeight, in.begin() + at.learning_rate());
  if (attrs.compute_dtype != weight.dtype) {
    expect(weight.dtype != Dtype::bfloat16, rule.name, "a bf16 weight has no copy for computing");
    out.push_back({weight.shape, attrs.compute_dtype});
  }
  return out;
}

// Memory decides how long an update takes; its few operations are counted as for AdamW.
Cost update_cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 16.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> update_reuse(const std::any& attrs, int inputs) {
  const UpdatePlaces at(*update_attrs(attrs).optimizer.rule, inputs);
  std::vector<Reuse> choices;
  for (int out = 0; out < at.kept(); ++out) choices.push_back({.out = out, .in = out + at.kWeight});
  return choices;
}

std::string print_update(const std::any& any) {
  const auto& [optimizer, compute_dtype, rounding] = update_attrs(any);
  std::string text;
  for (size_t i = 0; i < optimizer.rule->numbers.size(); ++i)
    text += print_number(optimizer.rule->numbers[i], optimizer.numbers[i]) + ", ";
  text += print_number("weight_decay", optimizer.weight_decay);
  if (rounding.seed) text += ", seed=" + std::to_string(rounding.seed);
  if (rounding.sequence) text += ", sequence=" + std::to_string(rounding.sequence);
  if (rounding.first) text += ", first=" + std::to_string(rounding.first);
  return text;
}

UpdateArguments update_arguments(const KernelCall& call) {
  const auto& [optimizer, compute_dtype, rounding] = update_attrs(call.attrs);
  const UpdatePlaces at = update_places(call);
  auto before = [&](int input) { return call.in[input].data; };
  auto after = [&](int input) { return call.out[at.output(input)].data; };
  UpdateArguments arguments{
      .count = call.in[at.kGradient].type.shape.count(),
      .weight_dtype = call.in[at.kWeight].type.dtype,
      .format = format_of(call.in[at.state(0)].type.dtype),
      .gradient = call.in[at.kGradient].as<float>(),
      .weight_before = before(at.kWeight),
      .weight = after(at.kWeight),
      .states = {},
      .compute = std::ssize(call.out) > at.kept() ? call.out.back().as<bfloat16>() : nullptr,
      .learning_rate = call.in[at.learning_rate()].as<float>(),
      .clip = call.in[at.clip()].as<float>(),
      .scalars = {},
      .step = at.rounds() ? call.in[at.step()].as<int32_t>() : nullptr,
      .numbers = {},
      .weight_decay = static_cast<float>(optimizer.weight_decay),
      .rounding = rounding};
  for (int i = 0; i < at.states(); ++i) {
    arguments.states[i] = {before(at.state(i)), nullptr, after(at.state(i)), nullptr};
    if (!at.has_scales()) continue;
    arguments.states[i].scales_before = call.in[at.scales(i)].as<float>();
    arguments.states[i].scales = call.out[at.output(at.scales(i))].as<float>();
  }
  for (size_t i = 0; i < optimizer.rule->scalars.size(); ++i)
    arguments.scalars[i] = call.in[at.scalar(static_cast<int>(i))].as<float>();
  std::ranges::copy(optimizer.numbers, arguments.numbers);
  return arguments;
}

Type state_type(StateFormat format, int64_t count) {
  switch (format) {
    case StateFormat::float32:
      return {{count}, Dtype::float32};
    case StateFormat::bfloat16:
      return {{count}, Dtype::bfloat16};
    case StateFormat::block8:
      return {{count}, Dtype::uint8};
  }
  throw InternalError("state_type: unknown format");
}

Type scale_type(int64_t count) { return {{ceil_div(count, kBlock8)}, Dtype::float32}; }

std::vector<Var> update(const Optimizer& optimizer, Dtype compute_dtype,
                        const UpdateOperands& operands, const Rounding& rounding) {
  return optimizer.rule->trace(optimizer, compute_dtype, operands, rounding);
}

std::vector<Var> trace_update(const Op& op, const Optimizer& optimizer, Dtype compute_dtype,
                              const UpdateOperands& operands, const Rounding& rounding) {
  std::vector<Var> in{operands.gradient, operands.weight};
  for (const auto& [value, scales] : operands.states) {
    in.push_back(value);
    if (scales.id) in.push_back(scales);
  }
  in.push_back(operands.learning_rate);
  in.insert(in.end(), operands.scalars.begin(), operands.scalars.end());
  in.push_back(operands.clip);
  if (operands.step.id) in.push_back(operands.step);
  return operands.gradient.trace->emit(op, UpdateAttrs{optimizer, compute_dtype, rounding}, in);
}

}  // namespace longshore::models
