#include "longshore/models/ops/weigh_rows.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>

#include <algorithm>

#include "longshore/base/pieces.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

// --- records

bool fit(const Type& x, const Type& weights, const Type& order) {
  return x.shape.rank() == 2 && x.shape[0] == weights.shape.count() &&
         weights.dtype == reduction_dtype(x.dtype) && order == Type{{x.shape[0]}, Dtype::int32};
}

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "weigh_rows");
  expect(fit(in[0], in[1], in[2]), "weigh_rows", "x [M,C], weights and order do not fit");
  return {in[0]};
}

Types infer_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 4, 4, "weigh_rows_grad");
  expect(in[0] == in[1] && fit(in[1], in[2], in[3]), "weigh_rows_grad",
         "dy, x [M,C], weights and order do not fit");
  return {in[1], in[2]};
}

void vjp(Backward& backward, const Node& node) {
  const ValueId x = node.in[0], weights = node.in[1], order = node.in[2];
  const std::vector<ValueId> gradients =
      backward.emit(weigh_rows_grad_op, {}, {backward.gradient(node.out[0]), x, weights, order}, x);
  if (backward.wants_gradient(x)) backward.contribute(x, gradients[0]);
  if (backward.wants_gradient(weights)) backward.contribute(weights, gradients[1]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

Cost cost_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 3.0 * static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::vector<Reuse> reuse_grad(const std::any&, int) {
  return {{.out = 0, .in = 0}, {.out = 0, .in = 1}};
}

// --- CPU

template <class T>
LONGSHORE_INLINE void weigh_body(const T* x, float weight, int64_t width, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) store(y[i], load(x[i]) * weight);
}

// dx = weight * dy; returns dy · x.
template <class T>
LONGSHORE_INLINE float grad_body(const T* dy, const T* x, float weight, int64_t width, T* dx) {
  float product = 0;
#pragma omp simd reduction(+ : product)
  for (int64_t i = 0; i < width; ++i) {
    const float d = load(dy[i]);
    product += d * load(x[i]);
    store(dx[i], d * weight);
  }
  return product;
}

#define LONGSHORE_WEIGH_ROWS(T)                                                                   \
  LONGSHORE_SIMD void weigh_row(const T* x, float weight, int64_t width, T* y) {                  \
    weigh_body(x, weight, width, y);                                                              \
  }                                                                                               \
  LONGSHORE_SIMD float grad_of_row(const T* dy, const T* x, float weight, int64_t width, T* dx) { \
    return grad_body(dy, x, weight, width, dx);                                                   \
  }
LONGSHORE_WEIGH_ROWS(float)
LONGSHORE_WEIGH_ROWS(bfloat16)
#undef LONGSHORE_WEIGH_ROWS

void run_cpu(const KernelCall& call) {
  const int64_t width = call.in[0].type.shape[1];
  const float* weights = call.in[1].as<float>();
  const int32_t* order = call.in[2].as<int32_t>();
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.in[0].type.shape[0], [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        weigh_row(call.in[0].as<T>() + row * width, weights[order[row]], width,
                  call.out[0].as<T>() + row * width);
    });
  });
}

void run_grad_cpu(const KernelCall& call) {
  const int64_t width = call.in[1].type.shape[1];
  const float* weights = call.in[2].as<float>();
  const int32_t* order = call.in[3].as<int32_t>();
  with_float_type(call.in[1].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.in[1].type.shape[0], [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        call.out[1].as<float>()[order[row]] =
            grad_of_row(call.in[0].as<T>() + row * width, call.in[1].as<T>() + row * width,
                        weights[order[row]], width, call.out[0].as<T>() + row * width);
    });
  });
}

// --- composition

// [M,1]: the weight of each row.
at::Tensor weights_of_rows(const KernelCall& call, const Ref& weights, const at::Tensor& order) {
  return at::index_select(tensor(call, weights).view({-1}), 0, order).unsqueeze(1);
}

// A product in the wider of two dtypes, which is rounded where it is stored.
void run_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  at::mul_out(out, tensor(call, call.in[0]),
              weights_of_rows(call, call.in[1], tensor(call, call.in[2])));
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return wide_bytes(in[1]);
}

int64_t piece_rows(int64_t width) { return std::max<int64_t>(1, kCompositionElements / width); }

void run_grad_composed(const KernelCall& call) {
  const auto wide = compute_type(call.in[1]);
  const Shape& shape = call.in[1].type.shape;
  at::Tensor dweights = tensor(call, call.out[1]).view({-1});
  for_each_piece(shape[0], piece_rows(shape[1]), [&](int64_t first, int64_t rows) {
    auto part = [&](const Ref& ref) { return tensor(call, ref).narrow(0, first, rows); };
    const at::Tensor order = part(call.in[3]), dy = part(call.in[0]);
    dweights.index_copy_(0, order.to(at::kLong), (dy.to(wide) * part(call.in[1]).to(wide)).sum(1));
    at::Tensor dx = part(call.out[0]);
    at::mul_out(dx, dy, weights_of_rows(call, call.in[2], order));
  });
}

// Of a piece: dy and x in the dtype that is computed in, their product and its sums, which CUDA may
// make of partial ones; numbers of rows in 8 bytes, and the rows' weights.
int64_t workspace_grad_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  const int64_t width = in[1].shape[1], rows = std::min(in[1].shape[0], piece_rows(width));
  const Type piece{{rows, width}, in[1].dtype};
  return 2 * widened_bytes(piece) + wide_bytes(piece) + allocated_bytes(24 * rows) + (1 << 20);
}

}  // namespace

const Op weigh_rows_op{.name = "weigh_rows",
                       .infer = infer,
                       .vjp = vjp,
                       .cost = cost,
                       .reuse = reuse,
                       .recompute_cost = RecomputeCost::low,
                       .cpu = {run_cpu},
                       .cuda = {run_composed, workspace_composed},
                       .reference = {run_composed}};

const Op weigh_rows_grad_op{.name = "weigh_rows_grad",
                            .infer = infer_grad,
                            .cost = cost_grad,
                            .reuse = reuse_grad,
                            .cpu = {run_grad_cpu},
                            .cuda = {run_grad_composed, workspace_grad_composed},
                            .reference = {run_grad_composed}};

Var weigh_rows(Var x, Var weights, Var order) {
  return x.trace->emit(weigh_rows_op, {}, {x, weights, order})[0];
}

}  // namespace longshore::models
