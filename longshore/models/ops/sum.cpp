#include "longshore/models/ops/sum.h"

#include <ATen/ops/sum.h>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/blocked_sum.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

struct GradAttrs {
  Type type;  // of the gradient: dloss does not tell it
};

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "sum");
  return {scalar_loss(in[0].dtype)};
}

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  const Type& out = std::any_cast<const GradAttrs&>(attrs).type;
  expect_inputs(in, 1, 1, "sum_grad");
  expect(in[0] == scalar_loss(out.dtype), "sum_grad", "dloss is not a scalar of the loss's type");
  return {out};
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0];
  backward.contribute(x, backward.emit(sum_grad_op, GradAttrs{backward.program()[x].type},
                                       {backward.gradient(node.out[0])}, x)[0]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 0, .bytes = operand_bytes(in, out)};
}

// --- CPU

template <class T>
LONGSHORE_INLINE double sum_body(const T* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += load(x[i]);
  return sum;
}

template <class T>
LONGSHORE_INLINE void fill_body(T* x, float value, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(x[i], value);
}

LONGSHORE_SIMD double sum_range(const float* x, int64_t count) { return sum_body(x, count); }
LONGSHORE_SIMD double sum_range(const bfloat16* x, int64_t count) { return sum_body(x, count); }
LONGSHORE_SIMD void fill_range(float* x, float value, int64_t count) { fill_body(x, value, count); }
LONGSHORE_SIMD void fill_range(bfloat16* x, float value, int64_t count) {
  fill_body(x, value, count);
}

void run_cpu(const KernelCall& call) {
  int64_t count = call.in[0].type.shape.count();
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    const T* x = call.in[0].as<T>();
    double sum = blocked_sum(call.workspace, count, [&](int64_t begin, int64_t size) {
      return sum_range(x + begin, size);
    });
    *call.out[0].as<float>() = static_cast<float>(sum);
  });
}

void run_grad_cpu(const KernelCall& call) {
  float dloss = *call.in[0].as<float>();
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    T* dx = call.out[0].as<T>();
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      fill_range(dx + begin, dloss, end - begin);
    });
  });
}

// --- composition

void run_composed(const KernelCall& call) {
  at::Tensor x = tensor(call, call.in[0]);
  tensor(call, call.out[0]).copy_(at::sum(x, compute_type(call.in[0])));
}

void run_grad_composed(const KernelCall& call) {
  tensor(call, call.out[0]).copy_(tensor(call, call.in[0]));
}

int64_t workspace_composed(const std::any&, std::span<const Type>, std::span<const Type>) {
  return kReductionBytes;
}

}  // namespace

const Op sum_op{.name = "sum",
                .infer = infer,
                .vjp = vjp,
                .cost = cost,
                .cpu = {run_cpu, workspace_blocked_sum<0>},
                .cuda = {run_composed, workspace_composed},
                .reference = {run_composed}};

const Op sum_grad_op{.name = "sum_grad",
                     .infer = infer_grad,
                     .cost = cost_grad,
                     .recompute_cost = RecomputeCost::low,
                     .cpu = {run_grad_cpu},
                     .cuda = {run_grad_composed},
                     .reference = {run_grad_composed}};

Var sum(Var x) { return x.trace->emit(sum_op, {}, {x})[0]; }

}  // namespace longshore::models
