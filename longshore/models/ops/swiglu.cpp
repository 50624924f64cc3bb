#include "longshore/models/ops/swiglu.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/elementwise/elementwise_kernels.h"
#include "longshore/models/ops/elementwise/gated_composition.h"
#include "longshore/models/ops/kernels/activations.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

template <const Op& op>
Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, op.name);
  expect(in[0] == in[1], op.name, "gate and up differ in type");
  return {in[0]};
}

template <const Op& op>
Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, op.name);
  expect(in[0] == in[1] && in[1] == in[2], op.name, "dy, gate and up differ in type");
  return {in[0], in[0]};
}

template <const Op& grad_op>
void vjp(Backward& backward, const Node& node) {
  ValueId gate = node.in[0], up = node.in[1];
  auto grads = backward.emit(grad_op, {}, {backward.gradient(node.out[0]), gate, up}, gate);
  if (backward.wants_gradient(gate)) backward.contribute(gate, grads[0]);
  if (backward.wants_gradient(up)) backward.contribute(up, grads[1]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 8.0 * out[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) {
  return {{.out = 0, .in = 0}, {.out = 0, .in = 1}};
}

std::vector<Reuse> reuse_grad(const std::any&, int) {
  return {{.out = 0, .in = 1}, {.out = 1, .in = 2}, {.out = 1, .in = 0}, {.out = 0, .in = 0}};
}

// --- CPU

template <class Activation, class T>
LONGSHORE_INLINE void gated_body(const T* gate, const T* up, T* out, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(out[i], Activation::value(load(gate[i])) * load(up[i]));
}

template <class Activation, class T>
LONGSHORE_INLINE void gated_grad_body(const T* dy, const T* gate, const T* up, T* dgate, T* dup,
                                      int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float d = load(dy[i]), u = load(up[i]);
    auto [value, slope] = Activation::value_and_slope(load(gate[i]));
    store(dgate[i], d * u * slope);
    store(dup[i], d * value);
  }
}

// The first argument tells the activation.
LONGSHORE_SIMD void gated_range(Silu, const float* gate, const float* up, float* out,
                                int64_t count) {
  gated_body<Silu>(gate, up, out, count);
}
LONGSHORE_SIMD void gated_range(Silu, const bfloat16* gate, const bfloat16* up, bfloat16* out,
                                int64_t count) {
  gated_body<Silu>(gate, up, out, count);
}
LONGSHORE_SIMD void gated_range(GeluTanh, const float* gate, const float* up, float* out,
                                int64_t count) {
  gated_body<GeluTanh>(gate, up, out, count);
}
LONGSHORE_SIMD void gated_range(GeluTanh, const bfloat16* gate, const bfloat16* up, bfloat16* out,
                                int64_t count) {
  gated_body<GeluTanh>(gate, up, out, count);
}
LONGSHORE_SIMD void gated_grad_range(Silu, const float* dy, const float* gate, const float* up,
                                     float* dgate, float* dup, int64_t count) {
  gated_grad_body<Silu>(dy, gate, up, dgate, dup, count);
}
LONGSHORE_SIMD void gated_grad_range(Silu, const bfloat16* dy, const bfloat16* gate,
                                     const bfloat16* up, bfloat16* dgate, bfloat16* dup,
                                     int64_t count) {
  gated_grad_body<Silu>(dy, gate, up, dgate, dup, count);
}
LONGSHORE_SIMD void gated_grad_range(GeluTanh, const float* dy, const float* gate, const float* up,
                                     float* dgate, float* dup, int64_t count) {
  gated_grad_body<GeluTanh>(dy, gate, up, dgate, dup, count);
}
LONGSHORE_SIMD void gated_grad_range(GeluTanh, const bfloat16* dy, const bfloat16* gate,
                                     const bfloat16* up, bfloat16* dgate, bfloat16* dup,
                                     int64_t count) {
  gated_grad_body<GeluTanh>(dy, gate, up, dgate, dup, count);
}

template <class Activation>
void run_cpu(const KernelCall& call) {
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      gated_range(Activation{}, call.in[0].as<T>() + begin, call.in[1].as<T>() + begin,
                  call.out[0].as<T>() + begin, end - begin);
    });
  });
}

template <class Activation>
void run_grad_cpu(const KernelCall& call) {
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      gated_grad_range(Activation{}, call.in[0].as<T>() + begin, call.in[1].as<T>() + begin,
                       call.in[2].as<T>() + begin, call.out[0].as<T>() + begin,
                       call.out[1].as<T>() + begin, end - begin);
    });
  });
}

// --- composition

at::Tensor value(Silu, const at::Tensor& gate) { return at::silu(gate); }
at::Tensor value(GeluTanh, const at::Tensor& gate) { return at::gelu(gate, "tanh"); }

struct GatedGradients {
  at::Tensor gate, up;
};

GatedGradients gradients(Silu, const at::Tensor& dy, const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor sigmoid = at::sigmoid(gate), silu = gate * sigmoid;
  return {dy * up * (sigmoid + silu * (1 - sigmoid)), dy * silu};
}

GatedGradients gradients(GeluTanh, const at::Tensor& dy, const at::Tensor& gate,
                         const at::Tensor& up) {
  return {at::gelu_backward(dy * up, gate, "tanh"), at::gelu(gate, "tanh").mul_(dy)};
}

template <class Activation>
void run_composed(const KernelCall& call) {
  for_each_part(call, [&](auto part, auto wide) {
    at::Tensor gate = wide(0), up = wide(1);
    part(call.out[0]).copy_(value(Activation{}, gate).mul_(up));
  });
}

template <class Activation>
void run_grad_composed(const KernelCall& call) {
  for_each_part(call, [&](auto part, auto wide) {
    GatedGradients found = gradients(Activation{}, wide(0), wide(1), wide(2));
    part(call.out[0]).copy_(found.gate);
    part(call.out[1]).copy_(found.up);
  });
}

}  // namespace

const Op swiglu_op{.name = "swiglu",
                   .infer = infer<swiglu_op>,
                   .vjp = vjp<swiglu_grad_op>,
                   .cost = cost,
                   .reuse = reuse,
                   .recompute_cost = RecomputeCost::low,
                   .cpu = {run_cpu<Silu>},
                   .cuda = own_elementwise<Elementwise::swiglu>(),
                   .cuda_composed = {run_composed<Silu>, workspace_gated<3>},
                   .reference = {run_composed<Silu>}};

const Op swiglu_grad_op{.name = "swiglu_grad",
                        .infer = infer_grad<swiglu_grad_op>,
                        .cost = cost,
                        .reuse = reuse_grad,
                        .recompute_cost = RecomputeCost::low,
                        .cpu = {run_grad_cpu<Silu>},
                        .cuda = own_elementwise<Elementwise::swiglu_grad>(),
                        .cuda_composed = {run_grad_composed<Silu>, workspace_gated<11>},
                        .reference = {run_grad_composed<Silu>}};

const Op geglu_op{.name = "geglu",
                  .infer = infer<geglu_op>,
                  .vjp = vjp<geglu_grad_op>,
                  .cost = cost,
                  .reuse = reuse,
                  .recompute_cost = RecomputeCost::low,
                  .cpu = {run_cpu<GeluTanh>},
                  .cuda = own_elementwise<Elementwise::geglu>(),
                  .cuda_composed = {run_composed<GeluTanh>, workspace_gated<3>},
                  .reference = {run_composed<GeluTanh>}};

const Op geglu_grad_op{.name = "geglu_grad",
                       .infer = infer_grad<geglu_grad_op>,
                       .cost = cost,
                       .reuse = reuse_grad,
                       .recompute_cost = RecomputeCost::low,
                       .cpu = {run_grad_cpu<GeluTanh>},
                       .cuda = own_elementwise<Elementwise::geglu_grad>(),
                       .cuda_composed = {run_grad_composed<GeluTanh>, workspace_gated<10>},
                       .reference = {run_grad_composed<GeluTanh>}};

Var swiglu(Var gate, Var up) { return gate.trace->emit(swiglu_op, {}, {gate, up})[0]; }
Var geglu(Var gate, Var up) { return gate.trace->emit(geglu_op, {}, {gate, up})[0]; }

}  // namespace longshore::models
