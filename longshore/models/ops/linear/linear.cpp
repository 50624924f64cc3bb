#include "longshore/models/ops/linear/linear.h"

#include <cstring>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten_product.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/matrix_vector.h"
#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "longshore/models/ops/linear/linear_kernels.h"

namespace longshore::models {
namespace {

// Weight gradients are wider than what they are made from: bf16 activations, float32 sums.
struct WeightGradAttrs {
  Dtype dtype;
};

double product_flops(int64_t m, int64_t n, int64_t k) { return 2.0 * m * n * k; }

// --- shape rules

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "linear");
  expect(in[1].shape.rank() == 2 && in[0].shape.back() == in[1].shape[1], "linear",
         "x [.., K] and W [N,K] do not fit");
  expect(in[0].dtype == in[1].dtype, "linear", "x and W differ in dtype");
  return {{in[0].shape.with_back(in[1].shape[0]), in[0].dtype}};
}

Types infer_input_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "linear_input_grad");
  expect(in[1].shape.rank() == 2 && in[0].shape.back() == in[1].shape[0], "linear_input_grad",
         "dy [.., N] and W [N,K] do not fit");
  return {{in[0].shape.with_back(in[1].shape[1]), in[0].dtype}};
}

Types infer_weight_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "linear_weight_grad");
  expect(in[0].shape.rows() == in[1].shape.rows(), "linear_weight_grad", "dy and x differ in rows");
  return {{{in[0].shape.back(), in[1].shape.back()}, std::any_cast<WeightGradAttrs>(attrs).dtype}};
}

// --- gradients and costs

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0], weight = node.in[1], dy = backward.gradient(node.out[0]);
  // The weight's first: it is the last reader of x.
  if (backward.wants_gradient(weight))
    backward.accumulate(linear_weight_grad_op, WeightGradAttrs{backward.weight_gradient_dtype()},
                        {dy, x}, weight);
  if (backward.wants_gradient(x)) backward.accumulate(linear_input_grad_op, {}, {dy, weight}, x);
  if (node.in.size() == 3 && backward.wants_gradient(node.in[2]))
    backward.contribute(node.in[2], dy);
}

// Of the product as a map of its own.
void vjp_input_grad(Backward& backward, const Node& node) {
  ValueId x = node.in[0], weight = node.in[1], dy = backward.gradient(node.out[0]);
  if (backward.wants_gradient(weight))
    backward.accumulate(linear_weight_grad_op, WeightGradAttrs{backward.weight_gradient_dtype()},
                        {x, dy}, weight);
  if (backward.wants_gradient(x)) backward.accumulate(linear_op, {}, {dy, weight}, x);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = product_flops(in[0].shape.rows(), in[1].shape[0], in[1].shape[1]),
          .bytes = operand_bytes(in, out)};
}

Cost cost_weight_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = product_flops(out[0].shape[0], out[0].shape[1], in[0].shape.rows()),
          .bytes = operand_bytes(in, out)};
}

// --- products

using Product = Matmul (*)(std::span<const Type> in, std::span<const Type> out);

Matmul forward_product(std::span<const Type> in, std::span<const Type>) {
  return {.m = in[0].shape.rows(),
          .n = in[1].shape[0],
          .k = in[1].shape[1],
          .ab = in[0].dtype,
          .c = in[0].dtype,
          .b_layout = Layout::transposed,
          .into = in.size() == 3 ? Into::add : Into::overwrite};
}

Matmul input_grad_product(std::span<const Type> in, std::span<const Type>) {
  return {.m = in[0].shape.rows(),
          .n = in[1].shape[1],
          .k = in[1].shape[0],
          .ab = in[0].dtype,
          .c = in[0].dtype,
          .into = in.size() == 3 ? Into::add : Into::overwrite};
}

Matmul weight_grad_product(std::span<const Type> in, std::span<const Type> out) {
  return {.m = in[0].shape.back(),
          .n = in[1].shape.back(),
          .k = in[0].shape.rows(),
          .ab = in[0].dtype,
          .c = out[0].dtype,
          .a_layout = Layout::transposed,
          .into = in.size() == 3 ? Into::add : Into::overwrite};
}

template <Product product>
Matmul product_of(const KernelCall& call) {
  return product(types_of(call.in), types_of(call.out));
}

// --- CPU

template <Product product>
int64_t workspace_cpu(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return workspace_bytes(product(in, out));
}

// The product adds to its destination: the sum goes there first, unless it is there already.
void place_sum(const KernelCall& call) {
  if (call.in.size() == 3 && call.in[2].data != call.out[0].data)
    std::memcpy(call.out[0].data, call.in[2].data, call.out[0].type.bytes());
}

template <Product product>
void run_cpu(const KernelCall& call) {
  place_sum(call);
  run(product_of<product>(call), call.in[0].data, call.in[1].data, call.out[0].data,
      call.workspace);
}

bool is_vector(const Type& x) { return x.shape.rows() == 1; }

int64_t workspace_forward_cpu(const std::any&, std::span<const Type> in,
                              std::span<const Type> out) {
  return is_vector(in[0]) ? 0 : workspace_bytes(forward_product(in, out));
}

void run_forward_cpu(const KernelCall& call) {
  if (!is_vector(call.in[0].type)) return run_cpu<forward_product>(call);
  place_sum(call);
  const Matmul product = product_of<forward_product>(call);
  matrix_vector(product.n, product.k, product.ab, call.in[1].data, call.in[0].data,
                call.out[0].data, product.into);
}

// --- CUDA

template <Product product>
int64_t workspace_cuda(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return cublaslt_workspace_bytes(product(in, out));
}

template <Product product>
void run_by(const KernelCall& call, RunProduct run) {
  run(product_of<product>(call), call.in[0].data, call.in[1].data,
      call.in.size() == 3 ? call.in[2].data : nullptr, call.out[0].data, call.workspace,
      call.stream);
}

// --- composition

void product(const KernelCall& call, const at::Tensor& a, const at::Tensor& b) {
  at::Tensor out = matrix(call, call.out[0]), sum;
  if (call.in.size() == 3)
    sum = call.in[2].data == call.out[0].data ? out : matrix(call, call.in[2]);
  product_into(call, out, sum, a, b);
}

void run_composed(const KernelCall& call) {
  product(call, matrix(call, call.in[0]), matrix(call, call.in[1]).t());
}

void run_input_grad_composed(const KernelCall& call) {
  product(call, matrix(call, call.in[0]), matrix(call, call.in[1]));
}

void run_weight_grad_composed(const KernelCall& call) {
  product(call, matrix(call, call.in[0]).t(), matrix(call, call.in[1]));
}

std::string print_weight_grad(const std::any& attrs) {
  return name(std::any_cast<WeightGradAttrs>(attrs).dtype);
}

}  // namespace

void run_linear(const KernelCall& call, RunProduct run) { run_by<forward_product>(call, run); }
void run_linear_input_grad(const KernelCall& call, RunProduct run) {
  run_by<input_grad_product>(call, run);
}
void run_linear_weight_grad(const KernelCall& call, RunProduct run) {
  run_by<weight_grad_product>(call, run);
}

const Op linear_op{
    .name = "linear",
    .infer = infer,
    .vjp = vjp,
    .cost = cost,
    .sum_input = 2,
    .op_class = OpClass::matmul,
    .cpu = {run_forward_cpu, workspace_forward_cpu},
    .cuda = {kernel_of_parts<run_linear, run_cublaslt>(), workspace_cuda<forward_product>},
    .cuda_composed = {run_composed},
    .reference = {run_composed}};

const Op linear_input_grad_op{
    .name = "linear_input_grad",
    .infer = infer_input_grad,
    .vjp = vjp_input_grad,
    .cost = cost,
    .sum_input = 2,
    .op_class = OpClass::matmul,
    .cpu = {run_cpu<input_grad_product>, workspace_cpu<input_grad_product>},
    .cuda = {kernel_of_parts<run_linear_input_grad, run_cublaslt>(),
             workspace_cuda<input_grad_product>},
    .cuda_composed = {run_input_grad_composed},
    .reference = {run_input_grad_composed}};

const Op linear_weight_grad_op{
    .name = "linear_weight_grad",
    .infer = infer_weight_grad,
    .cost = cost_weight_grad,
    .print = print_weight_grad,
    .sum_input = 2,
    .op_class = OpClass::matmul,
    .cpu = {run_cpu<weight_grad_product>, workspace_cpu<weight_grad_product>},
    .cuda = {kernel_of_parts<run_linear_weight_grad, run_cublaslt>(),
             workspace_cuda<weight_grad_product>},
    .cuda_composed = {run_weight_grad_composed},
    .reference = {run_weight_grad_composed}};

Var linear(Var x, Var weight) { return x.trace->emit(linear_op, {}, {x, weight})[0]; }

Var transposed_linear(Var x, Var weight) {
  return x.trace->emit(linear_input_grad_op, {}, {x, weight})[0];
}

Var linear(Var x, Var weight, Var sum) { return x.trace->emit(linear_op, {}, {x, weight, sum})[0]; }

}  // namespace longshore::models
