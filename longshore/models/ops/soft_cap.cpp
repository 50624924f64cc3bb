#include "longshore/models/ops/soft_cap.h"

#include <ATen/ops/tanh.h>

#include <cmath>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/elementwise/elementwise_kernels.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

struct Attrs {
  double cap;
};

double cap_of(const std::any& attrs) { return std::any_cast<Attrs>(attrs).cap; }

// --- records

Types infer(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "soft_cap");
  expect(cap_of(attrs) > 0 && std::isfinite(cap_of(attrs)), "soft_cap",
         "the cap is not positive and finite");
  return {in[0]};
}

Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "soft_cap_grad");
  expect(in[0] == in[1], "soft_cap_grad", "dy and y differ in type");
  return {in[0]};
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0], y = node.out[0];
  backward.contribute(x,
                      backward.emit(soft_cap_grad_op, node.attrs, {backward.gradient(y), y}, x)[0]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 10.0 * out[0].shape.count(), .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 4.0 * out[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::vector<Reuse> reuse_grad(const std::any&, int) {
  return {{.out = 0, .in = 0}, {.out = 0, .in = 1}};
}

std::string print(const std::any& attrs) { return print_number("cap", cap_of(attrs)); }

// --- CPU

template <class T>
LONGSHORE_INLINE void cap_body(const T* x, float cap, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y[i], soft_capped(load(x[i]), cap));
}

template <class T>
LONGSHORE_INLINE void cap_grad_body(const T* dy, const T* y, float cap, T* dx, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(dx[i], load(dy[i]) * soft_cap_slope(load(y[i]), cap));
}

LONGSHORE_SIMD void cap_range(const float* x, float cap, float* y, int64_t count) {
  cap_body(x, cap, y, count);
}
LONGSHORE_SIMD void cap_range(const bfloat16* x, float cap, bfloat16* y, int64_t count) {
  cap_body(x, cap, y, count);
}
LONGSHORE_SIMD void cap_grad_range(const float* dy, const float* y, float cap, float* dx,
                                   int64_t count) {
  cap_grad_body(dy, y, cap, dx, count);
}
LONGSHORE_SIMD void cap_grad_range(const bfloat16* dy, const bfloat16* y, float cap, bfloat16* dx,
                                   int64_t count) {
  cap_grad_body(dy, y, cap, dx, count);
}

void run_cpu(const KernelCall& call) {
  float cap = static_cast<float>(cap_of(call.attrs));
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      cap_range(call.in[0].as<T>() + begin, cap, call.out[0].as<T>() + begin, end - begin);
    });
  });
}

void run_grad_cpu(const KernelCall& call) {
  float cap = static_cast<float>(cap_of(call.attrs));
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      cap_grad_range(call.in[0].as<T>() + begin, call.in[1].as<T>() + begin, cap,
                     call.out[0].as<T>() + begin, end - begin);
    });
  });
}

// --- composition

at::Tensor wide(const KernelCall& call, int input) {
  return tensor(call, call.in[input]).to(compute_type(call.in[input]));
}

void run_composed(const KernelCall& call) {
  double cap = cap_of(call.attrs);
  tensor(call, call.out[0]).copy_((wide(call, 0) / cap).tanh_().mul_(cap));
}

void run_grad_composed(const KernelCall& call) {
  at::Tensor tanh = wide(call, 1) / cap_of(call.attrs);
  tensor(call, call.out[0]).copy_((1 - tanh.square_()).mul_(wide(call, 0)));
}

// Temporaries of the composition, in its compute type.
template <int kTemporaries>
int64_t workspace_composed(const std::any&, std::span<const Type>, std::span<const Type> out) {
  return kTemporaries * allocated_bytes(out[0].shape.count() * size_bytes(Dtype::float32));
}

ElementwiseArguments with_cap(Elementwise function, const KernelCall& call) {
  ElementwiseArguments arguments = elementwise_arguments(function, call);
  arguments.cap = static_cast<float>(cap_of(call.attrs));
  return arguments;
}

}  // namespace

ElementwiseArguments soft_cap_arguments(const KernelCall& call) {
  return with_cap(Elementwise::soft_cap, call);
}
ElementwiseArguments soft_cap_grad_arguments(const KernelCall& call) {
  return with_cap(Elementwise::soft_cap_grad, call);
}

const Op soft_cap_op{.name = "soft_cap",
                     .infer = infer,
                     .vjp = vjp,
                     .cost = cost,
                     .print = print,
                     .reuse = reuse,
                     .recompute_cost = RecomputeCost::low,
                     .cpu = {run_cpu},
                     .cuda = {custom_kernel<launch_elementwise, soft_cap_arguments>()},
                     .cuda_composed = {run_composed, workspace_composed<2>},
                     .reference = {run_composed}};

const Op soft_cap_grad_op{.name = "soft_cap_grad",
                          .infer = infer_grad,
                          .cost = cost_grad,
                          .print = print,
                          .reuse = reuse_grad,
                          .recompute_cost = RecomputeCost::low,
                          .cpu = {run_grad_cpu},
                          .cuda = {custom_kernel<launch_elementwise, soft_cap_grad_arguments>()},
                          .cuda_composed = {run_grad_composed, workspace_composed<4>},
                          .reference = {run_grad_composed}};

Var soft_cap(Var x, double cap) { return x.trace->emit(soft_cap_op, Attrs{cap}, {x})[0]; }

}  // namespace longshore::models
