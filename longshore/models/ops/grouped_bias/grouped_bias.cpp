#include "longshore/models/ops/grouped_bias/grouped_bias.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/grouped_bias/grouped_bias_kernels.h"
#include "longshore/models/ops/kernels/add_range.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

// --- records

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "add_grouped_bias");
  const Shape &y = in[0].shape, &bias = in[1].shape;
  expect(y.rank() == 2 && bias.rank() == 2 && y[1] == bias[1] && in[0].dtype == in[1].dtype,
         "add_grouped_bias", "y [M,N] and bias [E,N] do not fit");
  expect(in[2] == Type{{bias[0]}, Dtype::int32}, "add_grouped_bias", "ends are not i32 [E]");
  return {in[0]};
}

Dtype dtype_of(const std::any& attrs) { return std::any_cast<Dtype>(attrs); }

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "add_grouped_bias_grad");
  expect(in[0].shape.rank() == 2 && in[1].shape.rank() == 1 && in[1].dtype == Dtype::int32,
         "add_grouped_bias_grad", "dy is not [M,N], or ends are not i32 [E]");
  return {{{in[1].shape[0], in[0].shape[1]}, dtype_of(attrs)}};
}

void vjp(Backward& backward, const Node& node) {
  const ValueId y = node.in[0], bias = node.in[1], dy = backward.gradient(node.out[0]);
  if (backward.wants_gradient(bias))
    backward.accumulate(add_grouped_bias_grad_op, backward.weight_gradient_dtype(),
                        {dy, node.in[2]}, bias);
  if (backward.wants_gradient(y)) backward.contribute(y, dy);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::string print_grad(const std::any& attrs) { return name(dtype_of(attrs)); }

// --- CPU

void run_cpu(const KernelCall& call) {
  const int64_t width = call.out[0].type.shape[1], experts = call.in[1].type.shape[0];
  const int32_t* ends = call.in[2].as<int32_t>();
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    const T *y = call.in[0].as<T>(), *bias = call.in[1].as<T>();
    parallel_ranges(call.out[0].type.shape[0], [&](int64_t begin, int64_t end) {
      int64_t expert = std::upper_bound(ends, ends + experts - 1, begin) - ends;
      for (int64_t row = begin; row < end; ++row) {
        while (expert < experts - 1 && ends[expert] <= row) ++expert;
        add_range(y + row * width, bias + expert * width, call.out[0].as<T>() + row * width, width);
      }
    });
  });
}

constexpr int64_t kColumns = 256;  // that a thread sums at a time

// Runs of rows are added up in order, and then the runs in order.
template <class T>
LONGSHORE_INLINE void sum_body(const T* dy, int64_t rows, int64_t width, int64_t columns,
                               const float* so_far, float* sum) {
  float total[kColumns] = {}, run[kColumns];
  for (int64_t row = 0; row < rows;) {
    const int64_t stop = std::min(rows, row + kGroupedBiasRun);
    std::fill_n(run, columns, 0.f);
    for (; row < stop; ++row) {
      const T* from = dy + row * width;
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) run[i] += load(from[i]);
    }
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) total[i] += run[i];
  }
  for (int64_t i = 0; i < columns; ++i) sum[i] = so_far ? so_far[i] + total[i] : total[i];
}
LONGSHORE_SIMD void sum_rows(const float* dy, int64_t rows, int64_t width, int64_t columns,
                             const float* so_far, float* sum) {
  sum_body(dy, rows, width, columns, so_far, sum);
}
LONGSHORE_SIMD void sum_rows(const bfloat16* dy, int64_t rows, int64_t width, int64_t columns,
                             const float* so_far, float* sum) {
  sum_body(dy, rows, width, columns, so_far, sum);
}

void run_grad_cpu(const KernelCall& call) {
  const int64_t experts = call.out[0].type.shape[0], width = call.out[0].type.shape[1];
  const int64_t column_blocks = ceil_div(width, kColumns);
  const int32_t* ends = call.in[1].as<int32_t>();
  const float* so_far = call.in.size() > 2 ? call.in[2].as<float>() : nullptr;
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    const T* dy = call.in[0].as<T>();
    // Experts have more rows or fewer: who is done takes the next.
#pragma omp parallel for schedule(dynamic)
    for (int64_t task = 0; task < experts * column_blocks; ++task) {
      const int64_t expert = task / column_blocks, column = task % column_blocks * kColumns;
      const int64_t begin = expert == 0 ? 0 : ends[expert - 1], to = expert * width + column;
      sum_rows(dy + begin * width + column, ends[expert] - begin, width,
               std::min(kColumns, width - column), so_far ? so_far + to : nullptr,
               call.out[0].as<float>() + to);
    }
  });
}

// --- composition

void run_composed(const KernelCall& call) {
  const at::Tensor ends = tensor(call, call.in[2]);
  const at::Tensor rows = at::arange(call.out[0].type.shape[0], ends.options());
  const at::Tensor experts = at::searchsorted(ends, rows, /*out_int32=*/true, /*right=*/true);
  at::Tensor out = tensor(call, call.out[0]);
  at::add_out(out, tensor(call, call.in[0]),
              at::index_select(tensor(call, call.in[1]), 0, experts));
}

// Numbers of rows and of their experts; each row's bias.
int64_t workspace_composed(const std::any&, std::span<const Type>, std::span<const Type> out) {
  const int64_t rows = out[0].shape[0];
  return 2 * allocated_bytes(rows * size_bytes(Dtype::int32)) + allocated_bytes(out[0].bytes());
}

void run_grad_composed(const KernelCall& call) {
  const at::Tensor ends = tensor(call, call.in[1]);
  const at::Tensor offsets = at::cat({at::zeros({1}, ends.options()), ends});
  at::Tensor out = tensor(call, call.out[0]);
  at::Tensor sum = at::segment_reduce(tensor(call, call.in[0]).to(out.scalar_type()), "sum",
                                      /*lengths=*/{}, /*indices=*/{}, offsets, /*axis=*/0,
                                      /*unsafe=*/true);
  if (call.in.size() > 2) sum.add_(tensor(call, call.in[2]));
  out.copy_(sum);
}

// What is summed, in the sum's type; the sum; where rows begin and end, and how many there are.
int64_t workspace_grad_composed(const std::any&, std::span<const Type> in,
                                std::span<const Type> out) {
  const int64_t numbers = (in[1].shape[0] + 1) * size_bytes(Dtype::int32);
  return widened_bytes(in[0]) + wide_bytes(out[0]) + 4 * allocated_bytes(numbers) + (1 << 14);
}

}  // namespace

GroupedBiasArguments add_grouped_bias_arguments(const KernelCall& call) {
  return {.dtype = call.out[0].type.dtype,
          .rows = call.out[0].type.shape[0],
          .width = call.out[0].type.shape[1],
          .experts = call.in[1].type.shape[0],
          .y = call.in[0].data,
          .bias = call.in[1].data,
          .ends = call.in[2].as<int32_t>(),
          .out = call.out[0].data};
}

GroupedBiasGradArguments add_grouped_bias_grad_arguments(const KernelCall& call) {
  return {.dtype = call.in[0].type.dtype,
          .width = call.out[0].type.shape[1],
          .experts = call.out[0].type.shape[0],
          .dy = call.in[0].data,
          .ends = call.in[1].as<int32_t>(),
          .so_far = call.in.size() > 2 ? call.in[2].as<float>() : nullptr,
          .dbias = call.out[0].as<float>()};
}

const Op add_grouped_bias_op{
    .name = "add_grouped_bias",
    .infer = infer,
    .vjp = vjp,
    .cost = cost,
    .reuse = reuse,
    .recompute_cost = RecomputeCost::low,
    .cpu = {run_cpu},
    .cuda = {custom_kernel<launch_add_grouped_bias, add_grouped_bias_arguments>()},
    .cuda_composed = {run_composed, workspace_composed},
    .reference = {run_composed}};

const Op add_grouped_bias_grad_op{
    .name = "add_grouped_bias_grad",
    .infer = infer_grad,
    .cost = cost,
    .print = print_grad,
    .sum_input = 2,
    .cpu = {run_grad_cpu},
    .cuda = {custom_kernel<launch_add_grouped_bias_grad, add_grouped_bias_grad_arguments>()},
    .cuda_composed = {run_grad_composed, workspace_grad_composed},
    .reference = {run_grad_composed}};

Var add_grouped_bias(Var y, Var bias, Var ends) {
  return y.trace->emit(add_grouped_bias_op, {}, {y, bias, ends})[0];
}

}  // namespace longshore::models
