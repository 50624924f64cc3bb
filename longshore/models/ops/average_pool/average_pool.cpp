#include "longshore/models/ops/average_pool/average_pool.h"

#include <ATen/ops/mean.h>

#include <algorithm>
#include <cmath>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/average_pool/average_pool_kernels.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

struct Attrs {
  int64_t window, side;
};

const Attrs& attrs_of(const std::any& attrs) { return std::any_cast<const Attrs&>(attrs); }

// --- records

Types infer(const std::any& any, std::span<const Type> in) {
  const auto [window, side] = attrs_of(any);
  expect_inputs(in, 1, 1, "average_pool");
  expect(
      in[0].shape.rank() == 3 && in[0].shape[1] == side * side && window > 0 && side % window == 0,
      "average_pool", "x is not [N,S*S,C], or windows do not fit into S");
  return {{in[0].shape.with(1, side / window * (side / window)), in[0].dtype}};
}

Types infer_grad(const std::any& any, std::span<const Type> in) {
  const int64_t side = attrs_of(any).side;
  expect_inputs(in, 1, 2, "average_pool_grad");
  return {{in[0].shape.with(1, side * side), in[0].dtype}};
}

void vjp(Backward& backward, const Node& node) {
  if (backward.wants_gradient(node.in[0]))
    backward.accumulate(average_pool_grad_op, node.attrs, {backward.gradient(node.out[0])},
                        node.in[0]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(std::max(in[0].shape.count(), out[0].shape.count())),
          .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& any) { return "window=" + std::to_string(attrs_of(any).window); }

// --- CPU

// The row that a window begins with, of all squares' rows.
int64_t first_row(const Attrs& a, int64_t window) {
  const int64_t across = a.side / a.window, square = window / (across * across),
                number = window % (across * across);
  return (square * a.side + number / across * a.window) * a.side + number % across * a.window;
}

template <class T>
LONGSHORE_INLINE void pool_body(const Attrs& a, const T* x, T* y, int64_t begin, int64_t end,
                                int64_t width) {
  const auto rows = static_cast<float>(a.window * a.window);
  for (int64_t window = begin; window < end; ++window) {
    const T* first = x + first_row(a, window) * width;
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      float sum = 0;
      for (int64_t down = 0; down < a.window; ++down)
        for (int64_t right = 0; right < a.window; ++right)
          sum += load(first[(down * a.side + right) * width + i]);
      store(y[window * width + i], sum / rows);
    }
  }
}

template <class T>
LONGSHORE_INLINE void pool_grad_body(const Attrs& a, const T* dy, const T* input_sum, T* dx,
                                     int64_t begin, int64_t end, int64_t width) {
  const auto rows = static_cast<float>(a.window * a.window);
  for (int64_t window = begin; window < end; ++window) {
    const T* from = dy + window * width;
    for (int64_t down = 0; down < a.window; ++down)
      for (int64_t right = 0; right < a.window; ++right) {
        const int64_t at = (first_row(a, window) + down * a.side + right) * width;
#pragma omp simd
        for (int64_t i = 0; i < width; ++i)
          store(dx[at + i],
                input_sum ? load(input_sum[at + i]) + load(from[i]) / rows : load(from[i]) / rows);
      }
  }
}

LONGSHORE_SIMD void pool(const Attrs& a, const float* x, float* y, int64_t begin, int64_t end,
                         int64_t width) {
  pool_body(a, x, y, begin, end, width);
}
LONGSHORE_SIMD void pool(const Attrs& a, const bfloat16* x, bfloat16* y, int64_t begin, int64_t end,
                         int64_t width) {
  pool_body(a, x, y, begin, end, width);
}
LONGSHORE_SIMD void pool_grad(const Attrs& a, const float* dy, const float* input_sum, float* dx,
                              int64_t begin, int64_t end, int64_t width) {
  pool_grad_body(a, dy, input_sum, dx, begin, end, width);
}
LONGSHORE_SIMD void pool_grad(const Attrs& a, const bfloat16* dy, const bfloat16* input_sum,
                              bfloat16* dx, int64_t begin, int64_t end, int64_t width) {
  pool_grad_body(a, dy, input_sum, dx, begin, end, width);
}

void run_cpu(const KernelCall& call) {
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.rows(), [&](int64_t begin, int64_t end) {
      pool(attrs_of(call.attrs), call.in[0].as<T>(), call.out[0].as<T>(), begin, end,
           call.in[0].type.shape.back());
    });
  });
}

void run_grad_cpu(const KernelCall& call) {
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.in[0].type.shape.rows(), [&](int64_t begin, int64_t end) {
      pool_grad(attrs_of(call.attrs), call.in[0].as<T>(),
                call.in.size() == 2 ? call.in[1].as<T>() : nullptr, call.out[0].as<T>(), begin, end,
                call.in[0].type.shape.back());
    });
  });
}

// --- composition

// [N,S/k,k,S/k,k,C], of the larger value.
at::Tensor windows(const KernelCall& call, const Ref& x) {
  const auto [window, side] = attrs_of(call.attrs);
  return tensor(call, x).view(
      {-1, side / window, window, side / window, window, x.type.shape.back()});
}

// [N,S/k,1,S/k,1,C], of the smaller one.
at::Tensor averages(const KernelCall& call, const Ref& y) {
  const auto [window, side] = attrs_of(call.attrs);
  return tensor(call, y).view({-1, side / window, 1, side / window, 1, y.type.shape.back()});
}

void run_composed(const KernelCall& call) {
  const auto wide = compute_type(call.in[0]);
  averages(call, call.out[0]).copy_(windows(call, call.in[0]).to(wide).mean({2, 4}, true));
}

void run_grad_composed(const KernelCall& call) {
  const auto wide = compute_type(call.in[0]);
  const auto rows = static_cast<double>(attrs_of(call.attrs).window * attrs_of(call.attrs).window);
  at::Tensor dy = averages(call, call.in[0]).to(wide) / rows, dx = windows(call, call.out[0]);
  if (call.in.size() == 1)
    dx.copy_(dy.expand(dx.sizes()));
  else
    dx.copy_(windows(call, call.in[1]) + dy);
}

int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  const Type& larger = in[0].shape.count() > out[0].shape.count() ? in[0] : out[0];
  return 3 * wide_bytes(larger) + (1 << 14);
}

}  // namespace

AveragePoolArguments average_pool_arguments(const KernelCall& call) {
  const auto [window, side] = attrs_of(call.attrs);
  const Shape& x = call.in[0].type.shape;
  return {.dtype = call.in[0].type.dtype,
          .squares = x[0],
          .side = side,
          .window = window,
          .width = x.back(),
          .x = call.in[0].data,
          .y = call.out[0].data};
}

AveragePoolGradArguments average_pool_grad_arguments(const KernelCall& call) {
  const auto [window, side] = attrs_of(call.attrs);
  const Shape& dy = call.in[0].type.shape;
  return {.dtype = call.in[0].type.dtype,
          .squares = dy[0],
          .side = side,
          .window = window,
          .width = dy.back(),
          .dy = call.in[0].data,
          .input_sum = call.in.size() == 2 ? call.in[1].data : nullptr,
          .dx = call.out[0].data};
}

const Op average_pool_op{.name = "average_pool",
                         .infer = infer,
                         .vjp = vjp,
                         .cost = cost,
                         .print = print,
                         .recompute_cost = RecomputeCost::low,
                         .cpu = {run_cpu},
                         .cuda = {custom_kernel<launch_average_pool, average_pool_arguments>()},
                         .cuda_composed = {run_composed, workspace_composed},
                         .reference = {run_composed}};

const Op average_pool_grad_op{
    .name = "average_pool_grad",
    .infer = infer_grad,
    .cost = cost,
    .print = print,
    .sum_input = 1,
    .recompute_cost = RecomputeCost::low,
    .cpu = {run_grad_cpu},
    .cuda = {custom_kernel<launch_average_pool_grad, average_pool_grad_arguments>()},
    .cuda_composed = {run_grad_composed, workspace_composed},
    .reference = {run_grad_composed}};

Var average_pool(Var x, int64_t window) {
  const auto side = std::llround(std::sqrt(static_cast<double>(x.type().shape[1])));
  return x.trace->emit(average_pool_op, Attrs{window, side}, {x})[0];
}

}  // namespace longshore::models
