#include "longshore/models/ops/dora/dora.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "longshore/base/pieces.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {
namespace {

// --- norms

struct Attrs {
  double scale;
};

double scale_of(const std::any& attrs) { return std::any_cast<const Attrs&>(attrs).scale; }

// What sums are computed in: float32, or in tests of the reference float64.
Dtype wide(Dtype dtype) { return dtype == Dtype::float64 ? dtype : Dtype::float32; }

Types infer_norms(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "adapted_norms");
  expect(std::isfinite(scale_of(attrs)), "adapted_norms", "the scale is not finite");
  for (const Type& type : in)
    expect(type.shape.rank() == 2 && type.dtype == in[0].dtype, "adapted_norms",
           "W, A and B are not matrices of one dtype");
  const Shape &w = in[0].shape, &a = in[1].shape, &b = in[2].shape;
  expect(a[1] == w[1] && b[0] == w[0] && a[0] == b[1], "adapted_norms",
         "A is not [R,K] or B not [N,R], for W [N,K]");
  return {{{w[0]}, wide(in[0].dtype)}};
}

void no_gradient(Backward&, const Node&) {}

Cost cost_norms(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  const auto numbers = static_cast<double>(in[0].shape.count());
  return {.flops = 2 * numbers * static_cast<double>(in[1].shape[0] + 1),
          .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& attrs) { return print_number("scale", scale_of(attrs)); }

int64_t rows_at_a_time(int64_t columns) {
  return std::max<int64_t>(1, kCompositionElements / columns);
}

void run_norms(const KernelCall& call) {
  const at::ScalarType dtype = scalar_type(call.out[0].type.dtype);
  const at::Tensor w = tensor(call, call.in[0]), b = tensor(call, call.in[2]).to(dtype);
  const at::Tensor a = tensor(call, call.in[1]).to(dtype), out = tensor(call, call.out[0]);
  for_each_piece(w.size(0), rows_at_a_time(w.size(1)), [&](int64_t first, int64_t count) {
    const at::Tensor v = at::addmm(w.narrow(0, first, count).to(dtype), b.narrow(0, first, count),
                                   a, 1, scale_of(call.attrs));
    out.narrow(0, first, count).copy_(at::linalg_vector_norm(v, 2, {{1}}));
  });
}

// A and B, rows of W and V, and a library's own for the product.
int64_t workspace_norms(const std::any&, std::span<const Type> in, std::span<const Type>) {
  const int64_t columns = in[0].shape[1], rows = std::min(rows_at_a_time(columns), in[0].shape[0]);
  return wide_bytes(in[1]) + wide_bytes(in[2]) + 3 * wide_bytes({{rows, columns}}) +
         (int64_t{32} << 20);
}

// --- columns

Types infer_columns(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "scale_columns");
  expect(in[0].shape.rank() > 0, "scale_columns", "y is a scalar");
  const Shape columns{in[0].shape.back()};
  expect(in[1] == Type{columns, in[0].dtype} && in[2] == Type{columns, wide(in[0].dtype)},
         "scale_columns", "magnitudes or norms are not one for each column");
  return {in[0]};
}

void vjp_columns(Backward& backward, const Node& node) {
  const ValueId y = node.in[0], magnitudes = node.in[1], norms = node.in[2],
                dy = backward.gradient(node.out[0]);
  if (backward.wants_gradient(magnitudes))
    backward.accumulate(scale_columns_grad_op, {}, {dy, y, norms}, magnitudes);
  if (backward.wants_gradient(y))
    backward.contribute(y, backward.emit(scale_columns_op, {}, {dy, magnitudes, norms}, y)[0]);
}

Cost cost_columns(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

void run_columns(const KernelCall& call) {
  const at::Tensor norms = tensor(call, call.in[2]);
  const at::Tensor factors = tensor(call, call.in[1]).to(norms.scalar_type()).div(norms);
  const at::Tensor y = matrix(call, call.in[0]), out = matrix(call, call.out[0]);
  for_each_piece(y.size(0), rows_at_a_time(y.size(1)), [&](int64_t first, int64_t count) {
    out.narrow(0, first, count)
        .copy_(y.narrow(0, first, count).to(norms.scalar_type()).mul(factors));
  });
}

// Widened rows, and so many buffers like them.
int64_t workspace_of_rows(const Type& y, int64_t buffers) {
  const int64_t columns = y.shape.back(), rows = std::min(rows_at_a_time(columns), y.shape.rows());
  return buffers * wide_bytes({{rows, columns}}) + 8 * wide_bytes({{columns}}) + kReductionBytes;
}

int64_t workspace_columns(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return workspace_of_rows(in[0], 2);
}

Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 4, "scale_columns_grad");
  const Type of_columns{{in[0].shape.back()}, wide(in[0].dtype)};
  expect(in[0] == in[1] && in[2] == of_columns, "scale_columns_grad", "dy, y and norms do not fit");
  expect(in.size() == 3 || in[3] == of_columns, "scale_columns_grad", "the sum is of another type");
  return {of_columns};
}

void run_grad(const KernelCall& call) {
  const at::Tensor norms = tensor(call, call.in[2]), out = tensor(call, call.out[0]);
  const at::Tensor dy = matrix(call, call.in[0]), y = matrix(call, call.in[1]);
  at::Tensor sum = at::zeros({y.size(1)}, norms.options());
  for_each_piece(y.size(0), rows_at_a_time(y.size(1)), [&](int64_t first, int64_t count) {
    auto rows = [&](const at::Tensor& of) {
      return of.narrow(0, first, count).to(norms.scalar_type());
    };
    sum.add_((rows(dy) * rows(y)).sum(0));
  });
  sum.div_(norms);
  if (call.in.size() > 3) sum.add_(tensor(call, call.in[3]));
  out.copy_(sum);
}

int64_t workspace_grad(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return workspace_of_rows(in[0], 4);
}

}  // namespace

const Op adapted_norms_op{.name = "adapted_norms",
                          .infer = infer_norms,
                          .vjp = no_gradient,
                          .cost = cost_norms,
                          .print = print,
                          .op_class = OpClass::matmul,
                          .cpu = {run_norms, workspace_norms},
                          .cuda = {run_norms, workspace_norms},
                          .reference = {run_norms}};

const Op scale_columns_op{.name = "scale_columns",
                          .infer = infer_columns,
                          .vjp = vjp_columns,
                          .cost = cost_columns,
                          .reuse = reuse,
                          .recompute_cost = RecomputeCost::low,
                          .cpu = {run_columns, workspace_columns},
                          .cuda = {run_columns, workspace_columns},
                          .reference = {run_columns}};

const Op scale_columns_grad_op{.name = "scale_columns_grad",
                               .infer = infer_grad,
                               .cost = cost_columns,
                               .sum_input = 3,
                               .cpu = {run_grad, workspace_grad},
                               .cuda = {run_grad, workspace_grad},
                               .reference = {run_grad}};

Var adapted_norms(Var w, Var a, Var b, double scale) {
  return w.trace->emit(adapted_norms_op, Attrs{scale}, {w, a, b})[0];
}

Var scale_columns(Var y, Var magnitudes, Var norms) {
  return y.trace->emit(scale_columns_op, {}, {y, magnitudes, norms})[0];
}

}  // namespace longshore::models
