#include "longshore/models/ops/clamped_swiglu.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/sigmoid.h>

#include <cmath>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/elementwise/elementwise_kernels.h"
#include "longshore/models/ops/elementwise/gated_composition.h"
#include "longshore/models/ops/kernels/activations.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

const ClampedSwigluOptions& options_of(const std::any& attrs) {
  return std::any_cast<const ClampedSwigluOptions&>(attrs);
}

ClampedGate gate_of(const std::any& attrs) {
  const auto& [alpha, limit] = options_of(attrs);
  return {static_cast<float>(alpha), static_cast<float>(limit)};
}

// --- records

Types infer(const std::any& attrs, std::span<const Type> in) {
  const auto& [alpha, limit] = options_of(attrs);
  expect_inputs(in, 2, 2, "clamped_swiglu");
  expect(in[0] == in[1], "clamped_swiglu", "gate and up differ in type");
  expect(std::isfinite(alpha), "clamped_swiglu", "alpha is not finite");
  expect(limit > 0 && std::isfinite(limit), "clamped_swiglu",
         "the limit is not positive and finite");
  return {in[0]};
}

Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "clamped_swiglu_grad");
  expect(in[0] == in[1] && in[1] == in[2], "clamped_swiglu_grad", "dy, gate and up differ in type");
  return {in[0], in[0]};
}

void vjp(Backward& backward, const Node& node) {
  const ValueId gate = node.in[0], up = node.in[1];
  const auto grads = backward.emit(clamped_swiglu_grad_op, node.attrs,
                                   {backward.gradient(node.out[0]), gate, up}, gate);
  if (backward.wants_gradient(gate)) backward.contribute(gate, grads[0]);
  if (backward.wants_gradient(up)) backward.contribute(up, grads[1]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 12.0 * static_cast<double>(out[0].shape.count()),
          .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) {
  return {{.out = 0, .in = 0}, {.out = 0, .in = 1}};
}

std::vector<Reuse> reuse_grad(const std::any&, int) {
  return {{.out = 0, .in = 1}, {.out = 1, .in = 2}, {.out = 1, .in = 0}, {.out = 0, .in = 0}};
}

std::string print(const std::any& attrs) {
  const auto& [alpha, limit] = options_of(attrs);
  return print_number("alpha", alpha) + ", " + print_number("limit", limit);
}

// --- CPU

template <class T>
LONGSHORE_INLINE void gated_body(ClampedGate gated, const T* gate, const T* up, T* out,
                                 int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(out[i], gated.value(load(gate[i]), load(up[i])));
}

template <class T>
LONGSHORE_INLINE void gated_grad_body(ClampedGate gated, const T* dy, const T* gate, const T* up,
                                      T* dgate, T* dup, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float d = load(dy[i]);
    const ClampedGate::Slopes slopes = gated.slopes(load(gate[i]), load(up[i]));
    store(dgate[i], d * slopes.gate);
    store(dup[i], d * slopes.up);
  }
}

#define LONGSHORE_CLAMPED_SWIGLU(T)                                                                \
  LONGSHORE_SIMD void gated_range(ClampedGate gated, const T* gate, const T* up, T* out,           \
                                  int64_t count) {                                                 \
    gated_body(gated, gate, up, out, count);                                                       \
  }                                                                                                \
  LONGSHORE_SIMD void gated_grad_range(ClampedGate gated, const T* dy, const T* gate, const T* up, \
                                       T* dgate, T* dup, int64_t count) {                          \
    gated_grad_body(gated, dy, gate, up, dgate, dup, count);                                       \
  }
LONGSHORE_CLAMPED_SWIGLU(float)
LONGSHORE_CLAMPED_SWIGLU(bfloat16)
#undef LONGSHORE_CLAMPED_SWIGLU

void run_cpu(const KernelCall& call) {
  const ClampedGate gated = gate_of(call.attrs);
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      gated_range(gated, call.in[0].as<T>() + begin, call.in[1].as<T>() + begin,
                  call.out[0].as<T>() + begin, end - begin);
    });
  });
}

void run_grad_cpu(const KernelCall& call) {
  const ClampedGate gated = gate_of(call.attrs);
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      gated_grad_range(gated, call.in[0].as<T>() + begin, call.in[1].as<T>() + begin,
                       call.in[2].as<T>() + begin, call.out[0].as<T>() + begin,
                       call.out[1].as<T>() + begin, end - begin);
    });
  });
}

// --- composition

void run_composed(const KernelCall& call) {
  const ClampedSwigluOptions& options = options_of(call.attrs);
  for_each_part(call, [&](auto part, auto wide) {
    at::Tensor gate = at::clamp_max(wide(0), options.limit);
    at::Tensor gated = (gate * options.alpha).sigmoid_().mul_(gate);
    part(call.out[0]).copy_(gated.mul_(at::clamp(wide(1), -options.limit, options.limit).add_(1)));
  });
}

void run_grad_composed(const KernelCall& call) {
  const ClampedSwigluOptions& options = options_of(call.attrs);
  for_each_part(call, [&](auto part, auto wide) {
    const at::Tensor dy = wide(0), all_gate = wide(1), all_up = wide(2);
    const at::Tensor gate = at::clamp_max(all_gate, options.limit);
    const at::Tensor up = at::clamp(all_up, -options.limit, options.limit).add_(1);
    const at::Tensor sigmoid = at::sigmoid(gate * options.alpha), gated = gate * sigmoid;
    at::Tensor dgate = dy * up * (sigmoid + options.alpha * gated * (1 - sigmoid));
    at::Tensor dup = dy * gated;
    dgate.masked_fill_(all_gate.le(options.limit).logical_not_(), 0);
    dup.masked_fill_(all_up.abs().le(options.limit).logical_not_(), 0);
    part(call.out[0]).copy_(dgate);
    part(call.out[1]).copy_(dup);
  });
}

ElementwiseArguments with_options(Elementwise function, const KernelCall& call) {
  ElementwiseArguments arguments = elementwise_arguments(function, call);
  arguments.clamped = gate_of(call.attrs);
  return arguments;
}

}  // namespace

ElementwiseArguments clamped_swiglu_arguments(const KernelCall& call) {
  return with_options(Elementwise::clamped_swiglu, call);
}
ElementwiseArguments clamped_swiglu_grad_arguments(const KernelCall& call) {
  return with_options(Elementwise::clamped_swiglu_grad, call);
}

const Op clamped_swiglu_op{.name = "clamped_swiglu",
                           .infer = infer,
                           .vjp = vjp,
                           .cost = cost,
                           .print = print,
                           .reuse = reuse,
                           .recompute_cost = RecomputeCost::low,
                           .cpu = {run_cpu},
                           .cuda = {custom_kernel<launch_elementwise, clamped_swiglu_arguments>()},
                           .cuda_composed = {run_composed, workspace_gated<5>},
                           .reference = {run_composed}};

const Op clamped_swiglu_grad_op{
    .name = "clamped_swiglu_grad",
    .infer = infer_grad,
    .cost = cost,
    .print = print,
    .reuse = reuse_grad,
    .recompute_cost = RecomputeCost::low,
    .cpu = {run_grad_cpu},
    .cuda = {custom_kernel<launch_elementwise, clamped_swiglu_grad_arguments>()},
    .cuda_composed = {run_grad_composed, workspace_gated<18>},
    .reference = {run_grad_composed}};

Var clamped_swiglu(Var gate, Var up, const ClampedSwigluOptions& options) {
  return gate.trace->emit(clamped_swiglu_op, options, {gate, up})[0];
}

}  // namespace longshore::models
