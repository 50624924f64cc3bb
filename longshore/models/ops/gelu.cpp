#include "longshore/models/ops/gelu.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/elementwise/elementwise_kernels.h"
#include "longshore/models/ops/kernels/activations.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "gelu");
  return {in[0]};
}

Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "gelu_grad");
  expect(in[0] == in[1], "gelu_grad", "dy and x differ in type");
  return {in[0]};
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0];
  backward.contribute(x,
                      backward.emit(gelu_grad_op, {}, {backward.gradient(node.out[0]), x}, x)[0]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 8.0 * out[0].shape.count(), .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 14.0 * out[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::vector<Reuse> reuse_grad(const std::any&, int) {
  return {{.out = 0, .in = 0}, {.out = 0, .in = 1}};
}

// --- CPU

template <class T>
LONGSHORE_INLINE void gelu_body(const T* x, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y[i], GeluTanh::value(load(x[i])));
}

template <class T>
LONGSHORE_INLINE void gelu_grad_body(const T* dy, const T* x, T* dx, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i)
    store(dx[i], load(dy[i]) * GeluTanh::value_and_slope(load(x[i])).slope);
}

LONGSHORE_SIMD void gelu_range(const float* x, float* y, int64_t count) { gelu_body(x, y, count); }
LONGSHORE_SIMD void gelu_range(const bfloat16* x, bfloat16* y, int64_t count) {
  gelu_body(x, y, count);
}
LONGSHORE_SIMD void gelu_grad_range(const float* dy, const float* x, float* dx, int64_t count) {
  gelu_grad_body(dy, x, dx, count);
}
LONGSHORE_SIMD void gelu_grad_range(const bfloat16* dy, const bfloat16* x, bfloat16* dx,
                                    int64_t count) {
  gelu_grad_body(dy, x, dx, count);
}

void run_cpu(const KernelCall& call) {
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      gelu_range(call.in[0].as<T>() + begin, call.out[0].as<T>() + begin, end - begin);
    });
  });
}

void run_grad_cpu(const KernelCall& call) {
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      gelu_grad_range(call.in[0].as<T>() + begin, call.in[1].as<T>() + begin,
                      call.out[0].as<T>() + begin, end - begin);
    });
  });
}

// --- composition: each one library call, which needs no temporaries

void run_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  at::gelu_out(out, tensor(call, call.in[0]), "tanh");
}

void run_grad_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  at::gelu_backward_out(out, tensor(call, call.in[0]), tensor(call, call.in[1]), "tanh");
}

}  // namespace

const Op gelu_op{.name = "gelu",
                 .infer = infer,
                 .vjp = vjp,
                 .cost = cost,
                 .reuse = reuse,
                 .recompute_cost = RecomputeCost::low,
                 .cpu = {run_cpu},
                 .cuda = own_elementwise<Elementwise::gelu>(),
                 .cuda_composed = {run_composed},
                 .reference = {run_composed}};

const Op gelu_grad_op{.name = "gelu_grad",
                      .infer = infer_grad,
                      .cost = cost_grad,
                      .reuse = reuse_grad,
                      .recompute_cost = RecomputeCost::low,
                      .cpu = {run_grad_cpu},
                      .cuda = own_elementwise<Elementwise::gelu_grad>(),
                      .cuda_composed = {run_grad_composed},
                      .reference = {run_grad_composed}};

Var gelu(Var x) { return x.trace->emit(gelu_op, {}, {x})[0]; }

}  // namespace longshore::models
