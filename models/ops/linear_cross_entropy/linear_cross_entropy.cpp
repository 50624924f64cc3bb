#include "models/ops/linear_cross_entropy/linear_cross_entropy.h"

#include <cmath>
#include <vector>

#include "models/ir/backward.h"
#include "models/ir/infer.h"
#include "models/ir/print.h"
#include "models/ops/kernels/custom_kernel.h"
#include "models/ops/linear_cross_entropy/linear_cross_entropy_kernels.h"

namespace longshore::models {
namespace {

void expect_operands(std::span<const Type> in, const char* op) {
  expect(in[1].shape.rank() == 2 && in[0].shape.back() == in[1].shape[1], op,
         "x [.., C] and W [V,C] do not fit");
  expect(in[0].dtype == in[1].dtype, op, "x and W differ in dtype");
  expect(in[2].dtype == Dtype::int32 && in[2].shape.count() == in[0].shape.rows(), op,
         "targets are not one i32 a token");
}

Types infer(const std::any& attrs, std::span<const Type> in) {
  const double soft_cap = linear_cross_entropy_attrs(attrs).soft_cap;
  expect_inputs(in, 3, 3, "linear_cross_entropy");
  expect(soft_cap >= 0 && std::isfinite(soft_cap), "linear_cross_entropy",
         "soft_cap is neither 0 nor positive and finite");
  expect_operands(in, "linear_cross_entropy");
  return {scalar_loss(in[0].dtype)};
}

Types infer_grad(const std::any& any, std::span<const Type> in) {
  expect_inputs(in, 4, 5, "linear_cross_entropy_grad");
  expect_operands(in, "linear_cross_entropy_grad");
  Types out{in[0], scalar_loss(in[0].dtype)};
  if (linear_cross_entropy_grad_attrs(any).weight_gradient)
    out.push_back({in[1].shape, linear_cross_entropy_grad_attrs(any).weight_gradient_dtype});
  expect(in.size() == 4 || (out.size() == 3 && in[4] == out[2]), "linear_cross_entropy_grad",
         "the sum has another type than W's gradient");
  return out;
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0], weight = node.in[1];
  LinearCrossEntropyGradAttrs attrs{.soft_cap = linear_cross_entropy_attrs(node.attrs).soft_cap,
                                    .weight_gradient = backward.wants_gradient(weight),
                                    .weight_gradient_dtype = backward.weight_gradient_dtype()};
  std::vector<ValueId> in{x, weight, node.in[2], backward.gradient(node.out[0])};
  if (attrs.weight_gradient)
    if (ValueId sum = backward.sum_so_far(weight)) in.push_back(sum);
  auto out = backward.emit(linear_cross_entropy_grad_op, attrs, std::move(in), x);
  backward.remakes(node.out[0], out[1]);
  if (attrs.weight_gradient) backward.replace_sum(weight, out[2]);
  if (backward.wants_gradient(x)) backward.contribute(x, out[0]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  double logits = static_cast<double>(in[0].shape.rows()) * in[1].shape[0];
  return {.flops = 2.0 * logits * in[1].shape[1], .bytes = operand_bytes(in, out) + 8 * logits};
}

Cost cost_grad(const std::any& any, std::span<const Type> in, std::span<const Type> out) {
  double logits = static_cast<double>(in[0].shape.rows()) * in[1].shape[0];
  double products = linear_cross_entropy_grad_attrs(any).weight_gradient ? 3 : 2;
  return {.flops = products * 2.0 * logits * in[1].shape[1],
          .bytes = operand_bytes(in, out) + 16 * logits};
}

std::vector<Reuse> reuse_grad(const std::any& any, int inputs) {
  std::vector<Reuse> choices{{.out = 0, .in = 0}};  // a chunk of x is read before its dx is written
  if (inputs == 5 && linear_cross_entropy_grad_attrs(any).weight_gradient)
    choices.push_back({.out = 2, .in = 4});
  return choices;
}

std::string print_cap(double cap, const char* before) {
  if (cap == 0) return "";
  return before + print_number("soft_cap", cap);
}

std::string print(const std::any& attrs) {
  return print_cap(linear_cross_entropy_attrs(attrs).soft_cap, "");
}

std::string print_grad(const std::any& any) {
  const LinearCrossEntropyGradAttrs& attrs = linear_cross_entropy_grad_attrs(any);
  return (attrs.weight_gradient ? "input and weight" : "input") + print_cap(attrs.soft_cap, ", ");
}

}  // namespace

const Op linear_cross_entropy_op{
    .name = "linear_cross_entropy",
    .infer = infer,
    .vjp = vjp,
    .cost = cost,
    .print = print,
    .op_class = OpClass::matmul,
    .cpu = {linear_cross_entropy_cpu, linear_cross_entropy_cpu_workspace},
    .cuda = {kernel_of_parts<run_linear_cross_entropy, run_cublaslt, launch_cross_entropy_rows,
                             launch_total_loss>(),
             linear_cross_entropy_cuda_workspace},
    .cuda_composed = {linear_cross_entropy_composed, linear_cross_entropy_composed_workspace},
    .reference = {linear_cross_entropy_composed}};

const Op linear_cross_entropy_grad_op{
    .name = "linear_cross_entropy_grad",
    .infer = infer_grad,
    .cost = cost_grad,
    .print = print_grad,
    .reuse = reuse_grad,
    .op_class = OpClass::matmul,
    .cpu = {linear_cross_entropy_grad_cpu, linear_cross_entropy_grad_cpu_workspace},
    .cuda = {kernel_of_parts<run_linear_cross_entropy_grad, run_cublaslt, launch_cross_entropy_rows,
                             launch_total_loss>(),
             linear_cross_entropy_grad_cuda_workspace},
    .cuda_composed = {linear_cross_entropy_grad_composed,
                      linear_cross_entropy_grad_composed_workspace},
    .reference = {linear_cross_entropy_grad_composed}};

Var linear_cross_entropy(Var x, Var weight, Var targets, const LinearCrossEntropyOptions& options) {
  return x.trace->emit(linear_cross_entropy_op, LinearCrossEntropyAttrs{options.soft_cap},
                       {x, weight, targets})[0];
}

}  // namespace longshore::models
