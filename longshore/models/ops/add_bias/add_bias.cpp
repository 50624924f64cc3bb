#include "longshore/models/ops/add_bias/add_bias.h"

#include <ATen/ops/add.h>
#include <ATen/ops/sum.h>

#include <algorithm>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/add_bias/add_bias_kernels.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

// Rows are as long as the bias.
int64_t rows_of(const Shape& x, const Shape& bias) { return x.count() / bias.count(); }

bool ends_with(const Shape& x, const Shape& bias) {
  if (bias.rank() == 0 || bias.rank() > x.rank()) return false;
  for (int d = 1; d <= bias.rank(); ++d)
    if (x[x.rank() - d] != bias[bias.rank() - d]) return false;
  return true;
}

// --- records

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "add_bias");
  expect(ends_with(in[0].shape, in[1].shape), "add_bias", "b is not what x ends with");
  expect(in[0].dtype == in[1].dtype, "add_bias", "x and b differ in dtype");
  return {in[0]};
}

Types infer_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 1, 2, "add_bias_grad");
  return {std::any_cast<const Type&>(attrs)};
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0], bias = node.in[1], dy = backward.gradient(node.out[0]);
  if (backward.wants_gradient(bias)) accumulate_bias_grad(backward, dy, bias);
  if (backward.wants_gradient(x)) backward.contribute(x, dy);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::string print_grad(const std::any& attrs) { return text(std::any_cast<const Type&>(attrs)); }

// --- CPU

template <class T>
LONGSHORE_INLINE void add_body(const T* x, const T* bias, T* y, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) store(y[i], load(x[i]) + load(bias[i]));
  }
}

template <class T>
LONGSHORE_INLINE void sum_body(const T* x, float* sum, int64_t rows, int64_t width) {
  std::fill(sum, sum + width, 0.f);
  for (int64_t row = 0; row < rows; ++row, x += width) {
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) sum[i] += load(x[i]);
  }
}

LONGSHORE_SIMD void add_rows(const float* x, const float* bias, float* y, int64_t rows,
                             int64_t width) {
  add_body(x, bias, y, rows, width);
}
LONGSHORE_SIMD void add_rows(const bfloat16* x, const bfloat16* bias, bfloat16* y, int64_t rows,
                             int64_t width) {
  add_body(x, bias, y, rows, width);
}
LONGSHORE_SIMD void sum_rows(const float* x, float* sum, int64_t rows, int64_t width) {
  sum_body(x, sum, rows, width);
}
LONGSHORE_SIMD void sum_rows(const bfloat16* x, float* sum, int64_t rows, int64_t width) {
  sum_body(x, sum, rows, width);
}

void run_cpu(const KernelCall& call) {
  int64_t width = call.in[1].type.shape.count();
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.in[0].type.shape.count() / width, [&](int64_t begin, int64_t end) {
      add_rows(call.in[0].as<T>() + begin * width, call.in[1].as<T>(),
               call.out[0].as<T>() + begin * width, end - begin, width);
    });
  });
}

// Rows are summed in this many blocks, each in order, and then the blocks in order.
int64_t blocks(int64_t rows) { return std::min<int64_t>(rows, 64); }

int64_t workspace_grad_cpu(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return blocks(rows_of(in[0].shape, out[0].shape)) * out[0].shape.count() *
         size_bytes(Dtype::float32);
}

void run_grad_cpu(const KernelCall& call) {
  int64_t width = call.out[0].type.shape.count(), rows = call.in[0].type.shape.count() / width;
  int64_t count = blocks(rows);
  float* partial = reinterpret_cast<float*>(call.workspace.data());
  with_float_type(call.in[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(count, [&](int64_t first, int64_t last) {
      for (int64_t block = first; block < last; ++block) {
        int64_t begin = rows * block / count, end = rows * (block + 1) / count;
        sum_rows(call.in[0].as<T>() + begin * width, partial + block * width, end - begin, width);
      }
    });
  });
  float* dbias = call.out[0].as<float>();
  const float* so_far = call.in.size() == 2 ? call.in[1].as<float>() : nullptr;
  parallel_ranges(width, [&](int64_t begin, int64_t end) {
    for (int64_t block = 1; block < count; ++block)
      for (int64_t i = begin; i < end; ++i) partial[i] += partial[block * width + i];
    for (int64_t i = begin; i < end; ++i) dbias[i] = so_far ? so_far[i] + partial[i] : partial[i];
  });
}

// --- composition

void run_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  at::add_out(out, tensor(call, call.in[0]), tensor(call, call.in[1]));
}

void run_grad_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  at::Tensor rows = tensor(call, call.in[0]).view({-1, out.numel()});
  at::Tensor sum = at::sum(rows, {0}, false, out.scalar_type()).view(out.sizes());
  if (call.in.size() == 2) sum.add_(tensor(call, call.in[1]));
  out.copy_(sum);
}

// What is summed, in the sum's type; the sum; and a reduction's partial sums: CUDA splits long
// columns among blocks.
int64_t workspace_grad_composed(const std::any&, std::span<const Type> in,
                                std::span<const Type> out) {
  constexpr int64_t kBlocks = 256;
  return widened_bytes(in[0]) + (kBlocks + 1) * wide_bytes(out[0]) + (1 << 20);
}

// --- custom kernels on CUDA

int64_t workspace_grad_own(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return add_bias_partials(rows_of(in[0].shape, out[0].shape)) * out[0].shape.count() *
         size_bytes(Dtype::float32);
}

}  // namespace

AddBiasGradArguments add_bias_grad_arguments(const KernelCall& call) {
  return {.dtype = call.in[0].type.dtype,
          .rows = rows_of(call.in[0].type.shape, call.out[0].type.shape),
          .width = call.out[0].type.shape.count(),
          .dy = call.in[0].data,
          .partials = reinterpret_cast<float*>(call.workspace.data()),
          .so_far = call.in.size() == 2 ? call.in[1].as<float>() : nullptr,
          .dbias = call.out[0].as<float>()};
}

const Op add_bias_op{.name = "add_bias",
                     .infer = infer,
                     .vjp = vjp,
                     .cost = cost,
                     .reuse = reuse,
                     .recompute_cost = RecomputeCost::low,
                     .cpu = {run_cpu},
                     .cuda = {run_composed},
                     .reference = {run_composed}};

const Op add_bias_grad_op{
    .name = "add_bias_grad",
    .infer = infer_grad,
    .cost = cost,
    .print = print_grad,
    .sum_input = 1,
    .cpu = {run_grad_cpu, workspace_grad_cpu},
    .cuda = {custom_kernel<launch_add_bias_grad, add_bias_grad_arguments>(), workspace_grad_own},
    .cuda_composed = {run_grad_composed, workspace_grad_composed},
    .reference = {run_grad_composed}};

void accumulate_bias_grad(Backward& backward, ValueId dy, ValueId bias) {
  const Type type{backward.program()[bias].type.shape, backward.weight_gradient_dtype()};
  backward.accumulate(add_bias_grad_op, type, {dy}, bias);
}

Var add_bias(Var x, Var bias) { return x.trace->emit(add_bias_op, {}, {x, bias})[0]; }

}  // namespace longshore::models
