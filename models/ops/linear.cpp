#include "models/ops/linear.h"

#include "models/backward.h"
#include "models/ops/aten_product.h"
#include "models/ops/infer.h"
#include "models/ops/matrix_vector.h"
#include "models/ops/onednn_matmul.h"

namespace longshore::models {
namespace {

// Weight gradients are wider than what they are made from: bf16 activations, float32 sums.
struct WeightGradAttrs {
  Dtype dtype;
};

double product_flops(int64_t m, int64_t n, int64_t k) { return 2.0 * m * n * k; }

std::vector<Reuse> reuse_sum(const std::any&, int inputs) {
  return inputs == 3 ? std::vector<Reuse>{{.out = 0, .in = 2}} : std::vector<Reuse>{};
}

// --- shape rules

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "linear");
  expect(in[1].shape.rank() == 2 && in[0].shape.back() == in[1].shape[1], "linear",
         "x [.., K] and W [N,K] do not fit");
  expect(in[0].dtype == in[1].dtype, "linear", "x and W differ in dtype");
  Type out{in[0].shape.with_back(in[1].shape[0]), in[0].dtype};
  expect(in.size() == 2 || in[2] == out, "linear", "the sum has another type");
  return {out};
}

Types infer_input_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "linear_input_grad");
  expect(in[1].shape.rank() == 2 && in[0].shape.back() == in[1].shape[0], "linear_input_grad",
         "dy [.., N] and W [N,K] do not fit");
  Type out{in[0].shape.with_back(in[1].shape[1]), in[0].dtype};
  expect(in.size() == 2 || in[2] == out, "linear_input_grad", "the sum has another type");
  return {out};
}

Types infer_weight_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "linear_weight_grad");
  expect(in[0].shape.rows() == in[1].shape.rows(), "linear_weight_grad", "dy and x differ in rows");
  Type out{{in[0].shape.back(), in[1].shape.back()}, std::any_cast<WeightGradAttrs>(attrs).dtype};
  expect(in.size() == 2 || in[2] == out, "linear_weight_grad", "the sum has another type");
  return {out};
}

// --- gradients and costs

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0], weight = node.in[1], dy = backward.gradient(node.out[0]);
  auto with_sum = [&](std::vector<ValueId> in, ValueId of) {
    if (ValueId sum = backward.sum_so_far(of)) in.push_back(sum);
    return in;
  };
  // The weight's first: it is the last reader of x.
  if (backward.wants_gradient(weight))
    backward.replace_sum(weight, backward.emit(linear_weight_grad_op,
                                               WeightGradAttrs{backward.weight_gradient_dtype()},
                                               with_sum({dy, x}, weight), weight)[0]);
  if (backward.wants_gradient(x))
    backward.replace_sum(x,
                         backward.emit(linear_input_grad_op, {}, with_sum({dy, weight}, x), x)[0]);
  if (node.in.size() == 3 && backward.wants_gradient(node.in[2]))
    backward.contribute(node.in[2], dy);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = product_flops(in[0].shape.rows(), in[1].shape[0], in[1].shape[1]),
          .bytes = operand_bytes(in, out)};
}

Cost cost_weight_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = product_flops(out[0].shape[0], out[0].shape[1], in[0].shape.rows()),
          .bytes = operand_bytes(in, out)};
}

// --- CPU

Matmul forward_product(std::span<const Type> in) {
  return {.m = in[0].shape.rows(),
          .n = in[1].shape[0],
          .k = in[1].shape[1],
          .ab = in[0].dtype,
          .c = in[0].dtype,
          .b_layout = Layout::transposed,
          .into = in.size() == 3 ? Into::add : Into::overwrite};
}

Matmul input_grad_product(std::span<const Type> in) {
  return {.m = in[0].shape.rows(),
          .n = in[1].shape[1],
          .k = in[1].shape[0],
          .ab = in[0].dtype,
          .c = in[0].dtype,
          .into = in.size() == 3 ? Into::add : Into::overwrite};
}

Matmul weight_grad_product(std::span<const Type> in, Dtype dtype) {
  return {.m = in[0].shape.back(),
          .n = in[1].shape.back(),
          .k = in[0].shape.rows(),
          .ab = in[0].dtype,
          .c = dtype,
          .a_layout = Layout::transposed,
          .into = in.size() == 3 ? Into::add : Into::overwrite};
}

bool is_vector(std::span<const Type> in) { return in[0].shape.rows() == 1; }

template <Matmul (*product)(std::span<const Type>)>
int64_t workspace(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return workspace_bytes(product(in));
}

int64_t workspace_weight_grad(const std::any&, std::span<const Type> in,
                              std::span<const Type> out) {
  return workspace_bytes(weight_grad_product(in, out[0].dtype));
}

// The product adds to its destination: the sum goes there first, unless it is there already.
void place_sum(const KernelCall& call) {
  if (call.in.size() == 3 && call.in[2].data != call.out[0].data)
    std::memcpy(call.out[0].data, call.in[2].data, call.out[0].type.bytes());
}

template <Matmul (*product)(std::span<const Type>)>
void run_cpu(const KernelCall& call) {
  place_sum(call);
  run(product(types_of(call.in)), call.in[0].data, call.in[1].data, call.out[0].data,
      call.workspace);
}

int64_t forward_workspace(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return is_vector(in) ? 0 : workspace_bytes(forward_product(in));
}

void run_forward_cpu(const KernelCall& call) {
  const Types in = types_of(call.in);
  if (!is_vector(in)) return run_cpu<forward_product>(call);
  place_sum(call);
  Matmul product = forward_product(in);
  matrix_vector(product.n, product.k, product.ab, call.in[1].data, call.in[0].data,
                call.out[0].data, product.into);
}

void run_weight_grad_cpu(const KernelCall& call) {
  place_sum(call);
  run(weight_grad_product(types_of(call.in), call.out[0].type.dtype), call.in[0].data,
      call.in[1].data, call.out[0].data, call.workspace);
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

const Op linear_op{.name = "linear",
                   .infer = infer,
                   .vjp = vjp,
                   .cost = cost,
                   .reuse = reuse_sum,
                   .op_class = OpClass::matmul,
                   .cpu = {run_forward_cpu, forward_workspace},
                   .cuda = {run_composed},
                   .reference = {run_composed}};

const Op linear_input_grad_op{.name = "linear_input_grad",
                              .infer = infer_input_grad,
                              .cost = cost,
                              .reuse = reuse_sum,
                              .op_class = OpClass::matmul,
                              .cpu = {run_cpu<input_grad_product>, workspace<input_grad_product>},
                              .cuda = {run_input_grad_composed},
                              .reference = {run_input_grad_composed}};

const Op linear_weight_grad_op{.name = "linear_weight_grad",
                               .infer = infer_weight_grad,
                               .cost = cost_weight_grad,
                               .print = print_weight_grad,
                               .reuse = reuse_sum,
                               .op_class = OpClass::matmul,
                               .cpu = {run_weight_grad_cpu, workspace_weight_grad},
                               .cuda = {run_weight_grad_composed},
                               .reference = {run_weight_grad_composed}};

Var linear(Var x, Var weight) { return x.trace->emit(linear_op, {}, {x, weight})[0]; }

Var linear(Var x, Var weight, Var sum) { return x.trace->emit(linear_op, {}, {x, weight, sum})[0]; }

}  // namespace longshore::models
