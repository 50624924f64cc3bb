#include "longshore/models/ops/l2_penalty.h"

#include <ATen/ops/addcmul.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/mul.h>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/blocked_sum.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

struct Attrs {
  double factor;
};

struct GradAttrs {
  double factor;
  Dtype weight_gradient_dtype;
};

const GradAttrs& grad_attrs(const std::any& attrs) {
  return std::any_cast<const GradAttrs&>(attrs);
}

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "l2_penalty");
  return {scalar_loss(in[0].dtype)};
}

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "l2_penalty_grad");
  expect(in[0] == scalar_loss(in[1].dtype), "l2_penalty_grad",
         "dloss is not a scalar of the loss's type");
  return {{in[1].shape, grad_attrs(attrs).weight_gradient_dtype}};
}

void vjp(Backward& backward, const Node& node) {
  ValueId weight = node.in[0];
  const GradAttrs attrs{std::any_cast<const Attrs&>(node.attrs).factor,
                        backward.weight_gradient_dtype()};
  backward.accumulate(l2_penalty_grad_op, attrs, {backward.gradient(node.out[0]), weight}, weight);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 2.0 * in[0].shape.count(), .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in.size() - 1) * out[0].shape.count(),
          .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) {
  return print_number("factor", std::any_cast<const Attrs&>(attrs).factor);
}

std::string print_grad(const std::any& attrs) {
  return print_number("factor", grad_attrs(attrs).factor);
}

// --- CPU

template <class T>
LONGSHORE_INLINE double squares_body(const T* x, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += static_cast<double>(load(x[i])) * load(x[i]);
  return sum;
}

// `sum` may be `dweight`, or null.
template <class T>
LONGSHORE_INLINE void penalty_grad_body(const T* weight, const float* sum, float* dweight,
                                        float scale, int64_t count) {
  if (sum) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) dweight[i] = sum[i] + scale * load(weight[i]);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) dweight[i] = scale * load(weight[i]);
  }
}

LONGSHORE_SIMD double squares_range(const float* x, int64_t count) {
  return squares_body(x, count);
}
LONGSHORE_SIMD double squares_range(const bfloat16* x, int64_t count) {
  return squares_body(x, count);
}
LONGSHORE_SIMD void penalty_grad_range(const float* weight, const float* sum, float* dweight,
                                       float scale, int64_t count) {
  penalty_grad_body(weight, sum, dweight, scale, count);
}
LONGSHORE_SIMD void penalty_grad_range(const bfloat16* weight, const float* sum, float* dweight,
                                       float scale, int64_t count) {
  penalty_grad_body(weight, sum, dweight, scale, count);
}

void run_cpu(const KernelCall& call) {
  double factor = std::any_cast<const Attrs&>(call.attrs).factor;
  int64_t count = call.in[0].type.shape.count();
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    const T* weight = call.in[0].as<T>();
    double sum = blocked_sum(call.workspace, count, [&](int64_t begin, int64_t size) {
      return squares_range(weight + begin, size);
    });
    *call.out[0].as<float>() = static_cast<float>(factor * sum);
  });
}

void run_grad_cpu(const KernelCall& call) {
  float scale = static_cast<float>(2 * grad_attrs(call.attrs).factor * *call.in[0].as<float>());
  const float* sum = call.in.size() == 3 ? call.in[2].as<float>() : nullptr;
  float* dweight = call.out[0].as<float>();
  with_float_type(call.in[1].type.dtype, [&]<class T>(T) {
    const T* weight = call.in[1].as<T>();
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      penalty_grad_range(weight + begin, sum ? sum + begin : nullptr, dweight + begin, scale,
                         end - begin);
    });
  });
}

// --- composition

void run_composed(const KernelCall& call) {
  double factor = std::any_cast<const Attrs&>(call.attrs).factor;
  at::Tensor weight = tensor(call, call.in[0]).to(compute_type(call.in[0])).view({-1});
  tensor(call, call.out[0]).copy_(at::dot(weight, weight).mul_(factor));
}

void run_grad_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  at::Tensor weight = tensor(call, call.in[1]).to(out.scalar_type());
  at::Tensor scale = tensor(call, call.in[0]) * (2 * grad_attrs(call.attrs).factor);
  if (call.in.size() == 3)
    at::addcmul_out(out, tensor(call, call.in[2]), weight, scale);
  else
    at::mul_out(out, weight, scale);
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return widened_bytes(in[0]) + kReductionBytes;
}

int64_t workspace_grad_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return widened_bytes(in[1]) + kReductionBytes;
}

}  // namespace

const Op l2_penalty_op{.name = "l2_penalty",
                       .infer = infer,
                       .vjp = vjp,
                       .cost = cost,
                       .print = print,
                       .cpu = {run_cpu, workspace_blocked_sum<0>},
                       .cuda = {run_composed, workspace_composed},
                       .reference = {run_composed}};

const Op l2_penalty_grad_op{.name = "l2_penalty_grad",
                            .infer = infer_grad,
                            .cost = cost_grad,
                            .print = print_grad,
                            .sum_input = 2,
                            .recompute_cost = RecomputeCost::low,
                            .cpu = {run_grad_cpu},
                            .cuda = {run_grad_composed, workspace_grad_composed},
                            .reference = {run_grad_composed}};

Var l2_penalty(Var weight, double factor) {
  return weight.trace->emit(l2_penalty_op, Attrs{factor}, {weight})[0];
}

}  // namespace longshore::models
