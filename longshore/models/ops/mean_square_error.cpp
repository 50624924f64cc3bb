#include "longshore/models/ops/mean_square_error.h"

#include <ATen/ops/dot.h>
#include <ATen/ops/sub.h>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/blocked_sum.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "mean_square_error");
  expect(in[0] == in[1], "mean_square_error", "x and target differ in type");
  return {scalar_loss(in[0].dtype)};
}

Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "mean_square_error_grad");
  expect(in[1] == in[2], "mean_square_error_grad", "x and target differ in type");
  expect(in[0] == scalar_loss(in[1].dtype), "mean_square_error_grad",
         "dloss is not a scalar of the loss's type");
  return {in[1], in[0]};
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0], target = node.in[1], dloss = backward.gradient(node.out[0]);
  ValueId loss;
  auto contribute = [&](ValueId value, ValueId other) {
    if (!backward.wants_gradient(value)) return;
    auto out = backward.emit(mean_square_error_grad_op, {}, {dloss, value, other}, value);
    backward.contribute(value, out[0]);
    if (!loss) loss = out[1];
  };
  contribute(x, target);
  contribute(target, x);
  backward.remakes(node.out[0], loss);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 3.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 4.0 * out[0].shape.count(), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse_grad(const std::any&, int) {
  return {{.out = 0, .in = 1}, {.out = 0, .in = 2}};
}

// --- CPU

template <class T>
LONGSHORE_INLINE double square_error_body(const T* x, const T* target, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    double error = load(x[i]) - load(target[i]);
    sum += error * error;
  }
  return sum;
}

template <class T>
LONGSHORE_INLINE void error_grad_body(const T* a, const T* b, T* da, float scale, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(da[i], scale * (load(a[i]) - load(b[i])));
}

LONGSHORE_SIMD double square_error_range(const float* x, const float* target, int64_t count) {
  return square_error_body(x, target, count);
}
LONGSHORE_SIMD double square_error_range(const bfloat16* x, const bfloat16* target, int64_t count) {
  return square_error_body(x, target, count);
}
LONGSHORE_SIMD void error_grad_range(const float* a, const float* b, float* da, float scale,
                                     int64_t count) {
  error_grad_body(a, b, da, scale, count);
}
LONGSHORE_SIMD void error_grad_range(const bfloat16* a, const bfloat16* b, bfloat16* da,
                                     float scale, int64_t count) {
  error_grad_body(a, b, da, scale, count);
}

void run_cpu(const KernelCall& call) {
  int64_t count = call.in[0].type.shape.count();
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    const T *x = call.in[0].as<T>(), *target = call.in[1].as<T>();
    double sum = blocked_sum(call.workspace, count, [&](int64_t begin, int64_t size) {
      return square_error_range(x + begin, target + begin, size);
    });
    *call.out[0].as<float>() = static_cast<float>(sum / static_cast<double>(count));
  });
}

void run_grad_cpu(const KernelCall& call) {
  int64_t count = call.out[0].type.shape.count();
  float scale = static_cast<float>(2.0 * *call.in[0].as<float>() / static_cast<double>(count));
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    const T *a = call.in[1].as<T>(), *b = call.in[2].as<T>();
    T* da = call.out[0].as<T>();
    // A block's error is summed by the code that the loss alone uses, so that the two are equal;
    // its gradient, which may overwrite the block, then finds it in the cache.
    double sum = blocked_sum(call.workspace, count, [&](int64_t begin, int64_t size) {
      double block_sum = square_error_range(a + begin, b + begin, size);
      error_grad_range(a + begin, b + begin, da + begin, scale, size);
      return block_sum;
    });
    *call.out[1].as<float>() = static_cast<float>(sum / static_cast<double>(count));
  });
}

// --- composition

at::Tensor mean_square(const at::Tensor& error) {
  at::Tensor flat = error.view({-1});
  return at::dot(flat, flat).div_(flat.numel());
}

void run_composed(const KernelCall& call) {
  at::Tensor x = tensor(call, call.in[0]).to(compute_type(call.in[0]));
  tensor(call, call.out[0]).copy_(mean_square(at::sub(x, tensor(call, call.in[1]))));
}

// The difference takes the result's place, unless that would round it before it is scaled.
void run_grad_composed(const KernelCall& call) {
  at::Tensor a = tensor(call, call.in[1]), b = tensor(call, call.in[2]);
  at::Tensor out = tensor(call, call.out[0]);
  at::Tensor scale = tensor(call, call.in[0]) * (2.0 / static_cast<double>(out.numel()));
  auto wide = compute_type(call.in[1]);
  bool in_place = out.scalar_type() == wide;
  at::Tensor error = in_place ? at::sub_out(out, a, b) : at::sub(a.to(wide), b);
  tensor(call, call.out[1]).copy_(mean_square(error));
  error.mul_(scale);
  if (!in_place) out.copy_(error);
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return widened_bytes(in[0]) + wide_bytes(in[0]) + kReductionBytes;
}

int64_t workspace_grad_composed(const std::any&, std::span<const Type>, std::span<const Type> out) {
  return 2 * widened_bytes(out[0]) + kReductionBytes;
}

}  // namespace

const Op mean_square_error_op{.name = "mean_square_error",
                              .infer = infer,
                              .vjp = vjp,
                              .cost = cost,
                              .cpu = {run_cpu, workspace_blocked_sum<0>},
                              .cuda = {run_composed, workspace_composed},
                              .reference = {run_composed}};

const Op mean_square_error_grad_op{.name = "mean_square_error_grad",
                                   .infer = infer_grad,
                                   .cost = cost_grad,
                                   .reuse = reuse_grad,
                                   .cpu = {run_grad_cpu, workspace_blocked_sum<1>},
                                   .cuda = {run_grad_composed, workspace_grad_composed},
                                   .reference = {run_grad_composed}};

Var mean_square_error(Var x, Var target) {
  return x.trace->emit(mean_square_error_op, {}, {x, target})[0];
}

}  // namespace longshore::models
