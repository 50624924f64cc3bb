#include "models/ops/swiglu.h"

#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "models/backward.h"
#include "models/ops/aten.h"
#include "models/ops/infer.h"
#include "models/ops/simd.h"

namespace longshore::models {
namespace {

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "swiglu");
  expect(in[0] == in[1], "swiglu", "gate and up differ in type");
  return {in[0]};
}

Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "swiglu_grad");
  expect(in[0] == in[1] && in[1] == in[2], "swiglu_grad", "dy, gate and up differ in type");
  return {in[0], in[0]};
}

void vjp(Backward& backward, const Node& node) {
  ValueId gate = node.in[0], up = node.in[1];
  auto grads = backward.emit(swiglu_grad_op, {}, {backward.gradient(node.out[0]), gate, up}, gate);
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

template <class T>
LONGSHORE_INLINE void swiglu_body(const T* gate, const T* up, T* out, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float g = load(gate[i]);
    store(out[i], g / (1.f + exp_fast(-g)) * load(up[i]));
  }
}

template <class T>
LONGSHORE_INLINE void swiglu_grad_body(const T* dy, const T* gate, const T* up, T* dgate, T* dup,
                                       int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    float d = load(dy[i]), g = load(gate[i]), u = load(up[i]);
    float sigmoid = 1.f / (1.f + exp_fast(-g));
    float silu = g * sigmoid;
    store(dgate[i], d * u * (sigmoid + silu * (1.f - sigmoid)));
    store(dup[i], d * silu);
  }
}

LONGSHORE_SIMD void swiglu_range(const float* gate, const float* up, float* out, int64_t count) {
  swiglu_body(gate, up, out, count);
}
LONGSHORE_SIMD void swiglu_range(const bfloat16* gate, const bfloat16* up, bfloat16* out,
                                 int64_t count) {
  swiglu_body(gate, up, out, count);
}
LONGSHORE_SIMD void swiglu_grad_range(const float* dy, const float* gate, const float* up,
                                      float* dgate, float* dup, int64_t count) {
  swiglu_grad_body(dy, gate, up, dgate, dup, count);
}
LONGSHORE_SIMD void swiglu_grad_range(const bfloat16* dy, const bfloat16* gate, const bfloat16* up,
                                      bfloat16* dgate, bfloat16* dup, int64_t count) {
  swiglu_grad_body(dy, gate, up, dgate, dup, count);
}

void run_cpu(const KernelCall& call) {
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      swiglu_range(call.in[0].as<T>() + begin, call.in[1].as<T>() + begin,
                   call.out[0].as<T>() + begin, end - begin);
    });
  });
}

void run_grad_cpu(const KernelCall& call) {
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      swiglu_grad_range(call.in[0].as<T>() + begin, call.in[1].as<T>() + begin,
                        call.in[2].as<T>() + begin, call.out[0].as<T>() + begin,
                        call.out[1].as<T>() + begin, end - begin);
    });
  });
}

// --- composition

void run_composed(const KernelCall& call) {
  at::Tensor gate = tensor(call, call.in[0]).to(compute_type(call.in[0]));
  at::Tensor up = tensor(call, call.in[1]).to(compute_type(call.in[1]));
  tensor(call, call.out[0]).copy_(at::silu(gate).mul_(up));
}

void run_grad_composed(const KernelCall& call) {
  auto wide = [&](int i) { return tensor(call, call.in[i]).to(compute_type(call.in[i])); };
  at::Tensor dy = wide(0), gate = wide(1), up = wide(2);
  at::Tensor sigmoid = at::sigmoid(gate), silu = gate * sigmoid;
  at::Tensor dgate = dy * up * (sigmoid + silu * (1 - sigmoid)), dup = dy * silu;
  tensor(call, call.out[0]).copy_(dgate);
  tensor(call, call.out[1]).copy_(dup);
}

// Temporaries of the composition, in its compute type.
template <int kTemporaries>
int64_t workspace_composed(const std::any&, std::span<const Type>, std::span<const Type> out) {
  return kTemporaries * out[0].shape.count() * size_bytes(Dtype::float32);
}

}  // namespace

const Op swiglu_op{.name = "swiglu",
                   .infer = infer,
                   .vjp = vjp,
                   .cost = cost,
                   .reuse = reuse,
                   .price = Price::cheap,
                   .cpu = {run_cpu},
                   .cuda = {run_composed, workspace_composed<3>},
                   .reference = {run_composed}};

const Op swiglu_grad_op{.name = "swiglu_grad",
                        .infer = infer_grad,
                        .cost = cost,
                        .reuse = reuse_grad,
                        .price = Price::cheap,
                        .cpu = {run_grad_cpu},
                        .cuda = {run_grad_composed, workspace_composed<10>},
                        .reference = {run_grad_composed}};

Var swiglu(Var gate, Var up) { return gate.trace->emit(swiglu_op, {}, {gate, up})[0]; }

}  // namespace longshore::models
