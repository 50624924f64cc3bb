#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy.h"

#include <cmath>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/linear_cross_entropy/linear_cross_entropy_kernels.h"

namespace longshore::models {
namespace {

void expect_operands(std::span<const Type> in, const char* op) {
  expect(in[1].shape.rank() == 2 && in[0].shape.back() == in[1].shape[1], op,
         "x [.., C] and W [V,C] do not fit");
  expect(in[0].dtype == in[1].dtype, op, "x and W differ in dtype");
  expect(in[2].dtype == Dtype::int32, op, "targets are not i32");
}

// The losses of targets like these.
Type loss_type(const LinearCrossEntropyAttrs& attrs, std::span<const Type> in, const char* op) {
  const int64_t tokens = in[0].shape.rows(), targets = in[2].shape.count();
  const bool is_sum = attrs.reduction == Reduction::sum;
  expect(!is_sum || targets == tokens, op, "targets are not one a token");
  expect(targets % tokens == 0 && targets <= tokens * kMaxTargets, op,
         "targets are not at most 256 a token, the same number of each");
  const Type scalar = scalar_loss(in[0].dtype);
  return is_sum ? scalar : Type{in[2].shape, scalar.dtype};
}

void expect_frozen(std::span<const Type> in, int z, const char* op) {
  if (z < 0) return;
  const Type &input = in[z], &weight = in[z + 1];
  expect(weight.shape.rank() == 2 && input.shape.back() == weight.shape[1] &&
             weight.shape[0] == in[1].shape[0] && input.shape.rows() == in[0].shape.rows(),
         op, "z [.., D] and U [V,D] do not fit");
  expect(input.dtype == in[0].dtype && weight.dtype == in[0].dtype, op,
         "z or U differs from x in dtype");
}

Types infer(const std::any& attrs, std::span<const Type> in) {
  const LinearCrossEntropyAttrs& of_loss = linear_cross_entropy_attrs(attrs);
  expect_inputs(in, 3, 5, "linear_cross_entropy");
  expect(in.size() != 4, "linear_cross_entropy", "z is there without U");
  expect(of_loss.soft_cap >= 0 && std::isfinite(of_loss.soft_cap), "linear_cross_entropy",
         "soft_cap is neither 0 nor positive and finite");
  expect_operands(in, "linear_cross_entropy");
  expect_frozen(in, cross_entropy_operands(in.size(), nullptr).z, "linear_cross_entropy");
  return {loss_type(of_loss, in, "linear_cross_entropy")};
}

Types infer_grad(const std::any& any, std::span<const Type> in) {
  const LinearCrossEntropyGradAttrs& attrs = linear_cross_entropy_grad_attrs(any);
  const int frozen = attrs.has_frozen ? 2 : 0;
  expect_inputs(in, 4 + frozen, 5 + frozen, "linear_cross_entropy_grad");
  expect_operands(in, "linear_cross_entropy_grad");
  const CrossEntropyOperands at = cross_entropy_operands(in.size(), &attrs);
  expect_frozen(in, at.z, "linear_cross_entropy_grad");
  Types out{in[0], loss_type(attrs.of_loss, in, "linear_cross_entropy_grad")};
  expect(in[3] == out[1], "linear_cross_entropy_grad", "dloss has another type than the loss");
  if (attrs.weight_gradient) out.push_back({in[1].shape, attrs.weight_gradient_dtype});
  expect(at.sum < 0 || (attrs.weight_gradient && in[at.sum] == out[at.dweight]),
         "linear_cross_entropy_grad", "the sum has another type than W's gradient");
  if (attrs.has_frozen) out.push_back(in[at.z]);
  return out;
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0], weight = node.in[1];
  LinearCrossEntropyGradAttrs attrs{.of_loss = linear_cross_entropy_attrs(node.attrs),
                                    .weight_gradient = backward.wants_gradient(weight),
                                    .weight_gradient_dtype = backward.weight_gradient_dtype(),
                                    .has_frozen = node.in.size() > 3};
  std::vector<ValueId> in{x, weight, node.in[2], backward.gradient(node.out[0])};
  if (attrs.has_frozen) in.insert(in.end(), node.in.begin() + 3, node.in.end());
  if (attrs.weight_gradient)
    if (ValueId sum = backward.sum_so_far(weight)) in.push_back(sum);
  const CrossEntropyOperands at = cross_entropy_operands(in.size(), &attrs);
  auto out = backward.emit(linear_cross_entropy_grad_op, attrs, std::move(in), x);
  // A gradient that follows from losses needs them first.
  if (attrs.of_loss.reduction == Reduction::sum) backward.remakes(node.out[0], out[1]);
  if (attrs.weight_gradient) backward.replace_sum(weight, out[at.dweight]);
  if (backward.wants_gradient(x)) backward.contribute(x, out[0]);
  if (!attrs.has_frozen) return;
  if (backward.wants_gradient(node.in[4]))
    throw InternalError("linear_cross_entropy: U is to have a gradient, which is not there");
  if (backward.wants_gradient(node.in[3])) backward.contribute(node.in[3], out[at.dz]);
}

// The FLOPs of a product of all logits, by their number: of x and W, and of z and U.
double flops_of_logits(std::span<const Type> in, int z) {
  const auto width = static_cast<double>(in[1].shape[1] + (z < 0 ? 0 : in[z + 1].shape[1]));
  return 2.0 * width;
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  double logits = static_cast<double>(in[0].shape.rows()) * in[1].shape[0];
  const int z = cross_entropy_operands(in.size(), nullptr).z;
  return {.flops = logits * flops_of_logits(in, z), .bytes = operand_bytes(in, out) + 8 * logits};
}

Cost cost_grad(const std::any& any, std::span<const Type> in, std::span<const Type> out) {
  const LinearCrossEntropyGradAttrs& attrs = linear_cross_entropy_grad_attrs(any);
  double logits = static_cast<double>(in[0].shape.rows()) * in[1].shape[0];
  const int z = cross_entropy_operands(in.size(), &attrs).z;
  const double of_weight = attrs.weight_gradient ? 2.0 * in[1].shape[1] : 0;
  return {.flops = logits * (2 * flops_of_logits(in, z) + of_weight),
          .bytes = operand_bytes(in, out) + 16 * logits};
}

std::vector<Reuse> reuse_grad(const std::any& any, int inputs) {
  const CrossEntropyOperands at =
      cross_entropy_operands(static_cast<size_t>(inputs), &linear_cross_entropy_grad_attrs(any));
  std::vector<Reuse> choices{{.out = 0, .in = 0}};  // a chunk of x is read before its dx is written
  if (at.sum >= 0) choices.push_back({.out = at.dweight, .in = at.sum});
  if (at.z >= 0) choices.push_back({.out = at.dz, .in = at.z});
  return choices;
}

std::string print_loss(const LinearCrossEntropyAttrs& attrs) {
  std::string text = attrs.reduction == Reduction::none ? "each" : "";
  if (attrs.soft_cap != 0)
    text += (text.empty() ? "" : ", ") + print_number("soft_cap", attrs.soft_cap);
  return text;
}

std::string print(const std::any& attrs) { return print_loss(linear_cross_entropy_attrs(attrs)); }

std::string print_grad(const std::any& any) {
  const LinearCrossEntropyGradAttrs& attrs = linear_cross_entropy_grad_attrs(any);
  const std::string of_loss = print_loss(attrs.of_loss);
  return (attrs.weight_gradient ? "input and weight" : "input") +
         (of_loss.empty() ? "" : ", " + of_loss);
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

CrossEntropyOperands cross_entropy_operands(size_t inputs,
                                            const LinearCrossEntropyGradAttrs* attrs) {
  CrossEntropyOperands at;
  if (!attrs) {
    if (inputs > 3) at.z = 3;
    return at;
  }
  if (attrs->has_frozen) at.z = 4;
  if (inputs == (attrs->has_frozen ? 7 : 5)) at.sum = static_cast<int>(inputs) - 1;
  if (attrs->weight_gradient) at.dweight = 2;
  if (attrs->has_frozen) at.dz = attrs->weight_gradient ? 3 : 2;
  return at;
}

CrossEntropyRowsArguments cross_entropy_rows(const KernelCall& call,
                                             const LinearCrossEntropyAttrs& attrs, float* losses,
                                             int64_t token, int64_t rows) {
  const Type &x = call.in[0].type, &targets = call.in[2].type;
  const int64_t of_row = targets.shape.count() / x.shape.rows();
  const bool is_each = attrs.reduction == Reduction::none, has_gradient = call.out.size() > 1;
  const float* dloss = has_gradient ? call.in[3].as<float>() : nullptr;
  return {.rows = rows,
          .vocabulary = call.in[1].type.shape[0],
          .targets_of_row = of_row,
          .logits = nullptr,
          .targets = call.in[2].as<int32_t>() + token * of_row,
          .cap = static_cast<float>(attrs.soft_cap),
          .losses = losses + token * of_row,
          .dtype = x.dtype,
          .dlogits = nullptr,
          .dloss = dloss && is_each ? dloss + token * of_row : dloss,
          .reduction = attrs.reduction};
}

Var linear_cross_entropy(Var x, Var weight, Var targets, const LinearCrossEntropyOptions& options,
                         const std::optional<FrozenLogits>& beside) {
  std::vector<Var> in{x, weight, targets};
  if (beside) in.insert(in.end(), {beside->input, beside->weight});
  return x.trace->emit(linear_cross_entropy_op,
                       LinearCrossEntropyAttrs{options.soft_cap, options.reduction}, in)[0];
}

}  // namespace longshore::models
