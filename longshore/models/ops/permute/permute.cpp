#include "longshore/models/ops/permute/permute.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>

#include <algorithm>
#include <cstring>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/permute/permute_kernels.h"

namespace longshore::models {
namespace {

struct Experts {
  int64_t count;
};

int64_t count_of(const std::any& attrs) { return std::any_cast<const Experts&>(attrs).count; }

Type rows_type(const Shape& places) { return {{places.count()}, Dtype::int32}; }

bool is_rows_of(const Type& rows, const Shape& places) {
  return rows.shape.rank() == 2 && rows.shape[0] == places.count();
}

Types infer_group(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "group_by_expert");
  expect(in[0].dtype == Dtype::int32 && count_of(attrs) > 0, "group_by_expert",
         "experts are not i32 [..,k], or there are none");
  return {rows_type(in[0].shape), in[0], {{count_of(attrs)}, Dtype::int32}};
}

Types infer_permute(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "permute_tokens");
  const Shape& places = in[2].shape;
  expect(in[1] == rows_type(places) && in[2].dtype == Dtype::int32 &&
             places.with_back(1) == in[0].shape.with_back(1),
         "permute_tokens", "x, order and places do not fit");
  return {{{places.count(), in[0].shape.back()}, in[0].dtype}};
}

Types infer_permute_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "permute_tokens_grad");
  expect(in[1].dtype == Dtype::int32 && is_rows_of(in[0], in[1].shape), "permute_tokens_grad",
         "dy and places do not fit");
  const Type out{in[1].shape.with_back(in[0].shape.back()), in[0].dtype};
  if (in.size() > 2) expect(in[2] == out, "permute_tokens_grad", "the sum is not as x");
  return {out};
}

Types infer_combine(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 4, 4, "combine_tokens");
  const Shape& places = in[3].shape;
  expect(is_rows_of(in[0], places) && in[1] == Type{places, reduction_dtype(in[0].dtype)} &&
             in[2] == rows_type(places) && in[3].dtype == Dtype::int32,
         "combine_tokens", "y, weights, order and places do not fit");
  return {{places.with_back(in[0].shape.back()), in[0].dtype}};
}

Types infer_combine_grad(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 4, 4, "combine_tokens_grad");
  const Shape& places = in[2].shape;
  expect(in[0] == Type{places.with_back(in[1].shape.back()), in[1].dtype} &&
             is_rows_of(in[1], places) && in[3] == rows_type(places),
         "combine_tokens_grad", "dout, y, weights and order do not fit");
  return {in[1], in[2]};
}

void vjp_permute(Backward& backward, const Node& node) {
  backward.accumulate(permute_tokens_grad_op, {}, {backward.gradient(node.out[0]), node.in[2]},
                      node.in[0]);
}

void vjp_combine(Backward& backward, const Node& node) {
  const ValueId y = node.in[0], weights = node.in[1], order = node.in[2];
  const std::vector<ValueId> gradients = backward.emit(
      combine_tokens_grad_op, {}, {backward.gradient(node.out[0]), y, weights, order}, y);
  if (backward.wants_gradient(y)) backward.contribute(y, gradients[0]);
  if (backward.wants_gradient(weights)) backward.contribute(weights, gradients[1]);
}

Cost cost_group(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 0, .bytes = operand_bytes(in, out)};
}

Cost cost_permute(const std::any&, std::span<const Type>, std::span<const Type> out) {
  return {.flops = 0, .bytes = 2.0 * static_cast<double>(out[0].bytes())};
}

Cost cost_sum(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 2.0 * static_cast<double>(in[0].shape.count()), .bytes = operand_bytes(in, out)};
}

// A token's row is read once for each of its experts.
Cost cost_combine_grad(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return {.flops = 3.0 * static_cast<double>(in[1].shape.count()),
          .bytes = 3.0 * static_cast<double>(in[1].bytes())};
}

std::string print_group(const std::any& attrs) {
  return "experts=" + std::to_string(count_of(attrs));
}

// --- CPU

// A counting sort: fewer steps than there are to a thread's start.
void run_group_cpu(const KernelCall& call) {
  const int64_t rows = call.in[0].type.shape.count(), experts = count_of(call.attrs);
  const int32_t* expert = call.in[0].as<int32_t>();
  int32_t *order = call.out[0].as<int32_t>(), *places = call.out[1].as<int32_t>(),
          *ends = call.out[2].as<int32_t>();
  std::fill_n(ends, experts, 0);
  for (int64_t i = 0; i < rows; ++i)
    if (expert[i] + 1 < experts) ++ends[expert[i] + 1];
  for (int64_t e = 1; e < experts; ++e) ends[e] += ends[e - 1];  // so far their beginnings
  for (int64_t i = 0; i < rows; ++i) {
    places[i] = ends[expert[i]]++;
    order[places[i]] = static_cast<int32_t>(i);
  }
}

void run_permute_cpu(const KernelCall& call) {
  const int64_t k = call.in[2].type.shape.back();
  const int64_t bytes = call.in[0].type.shape.back() * size_bytes(call.in[0].type.dtype);
  const int32_t* order = call.in[1].as<int32_t>();
  parallel_ranges(call.out[0].type.shape[0], [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      std::memcpy(call.out[0].as<std::byte>() + row * bytes,
                  call.in[0].as<std::byte>() + order[row] / k * bytes, bytes);
  });
}

// A token's rows of y.
struct RowsOfToken {
  const int32_t* places;  // [k]
  int64_t k, width;
};

constexpr int64_t kBlock = 64;

// out = sum + Σ w[j] y[places[j]]; no sum, or no weights but 1, where these are null.
template <class T>
LONGSHORE_INLINE void sum_body(const T* y, RowsOfToken rows, const float* weights, const T* sum,
                               T* out) {
  for (int64_t begin = 0; begin < rows.width; begin += kBlock) {
    const int64_t count = std::min(kBlock, rows.width - begin);
    float total[kBlock];
    for (int64_t i = 0; i < count; ++i) total[i] = sum ? load(sum[begin + i]) : 0.f;
    for (int64_t j = 0; j < rows.k; ++j) {
      const T* row = y + rows.places[j] * rows.width + begin;
      const float weight = weights ? weights[j] : 1.f;
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) total[i] += weight * load(row[i]);
    }
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) store(out[begin + i], total[i]);
  }
}

// dy = weight * dout; returns dout · y.
template <class T>
LONGSHORE_INLINE float grad_body(const T* dout, const T* y, float weight, int64_t width, T* dy) {
  float product = 0;
#pragma omp simd reduction(+ : product)
  for (int64_t i = 0; i < width; ++i) {
    const float d = load(dout[i]);
    product += d * load(y[i]);
    store(dy[i], weight * d);
  }
  return product;
}

#define LONGSHORE_PERMUTE(T)                                                                     \
  LONGSHORE_SIMD void sum_rows(const T* y, RowsOfToken rows, const float* weights, const T* sum, \
                               T* out) {                                                         \
    sum_body(y, rows, weights, sum, out);                                                        \
  }                                                                                              \
  LONGSHORE_SIMD float grad_of_row(const T* dout, const T* y, float weight, int64_t width,       \
                                   T* dy) {                                                      \
    return grad_body(dout, y, weight, width, dy);                                                \
  }
LONGSHORE_PERMUTE(float)
LONGSHORE_PERMUTE(bfloat16)
#undef LONGSHORE_PERMUTE

void sum_tokens(const KernelCall& call, const Ref& places, const float* weights, const Ref* sum) {
  const int64_t k = places.type.shape.back(), width = call.in[0].type.shape.back();
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(places.type.shape.rows(), [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token)
        sum_rows(call.in[0].as<T>(), {places.as<int32_t>() + token * k, k, width},
                 weights ? weights + token * k : nullptr,
                 sum ? sum->as<T>() + token * width : nullptr, call.out[0].as<T>() + token * width);
    });
  });
}

void run_permute_grad_cpu(const KernelCall& call) {
  sum_tokens(call, call.in[1], nullptr, call.in.size() > 2 ? &call.in[2] : nullptr);
}

void run_combine_cpu(const KernelCall& call) {
  sum_tokens(call, call.in[3], call.in[1].as<float>(), nullptr);
}

void run_combine_grad_cpu(const KernelCall& call) {
  const int64_t k = call.in[2].type.shape.back(), width = call.in[1].type.shape.back();
  const int32_t* order = call.in[3].as<int32_t>();
  with_float_type(call.in[1].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.in[1].type.shape[0], [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        call.out[1].as<float>()[order[row]] = grad_of_row(
            call.in[0].as<T>() + order[row] / k * width, call.in[1].as<T>() + row * width,
            call.in[2].as<float>()[order[row]], width, call.out[0].as<T>() + row * width);
    });
  });
}

// --- composition

at::Tensor numbers(const KernelCall& call, const Ref& ref) {
  return tensor(call, ref).view({-1}).to(at::kLong);
}

at::Tensor tokens_of(const KernelCall& call, const Ref& order, int64_t k) {
  return numbers(call, order).div_(k, "floor");
}

void run_group_composed(const KernelCall& call) {
  at::Tensor experts = tensor(call, call.in[0]).view({-1});
  const auto [sorted, order] = at::sort(experts, /*stable=*/true, 0, /*descending=*/false);
  tensor(call, call.out[0]).copy_(order);
  at::Tensor rows = at::arange(order.size(0), experts.options());
  tensor(call, call.out[1]).view({-1}).index_copy_(0, order, rows);
  at::Tensor all = at::arange(count_of(call.attrs), experts.options());
  tensor(call, call.out[2])
      .copy_(at::searchsorted(sorted, all, /*out_int32=*/true, /*right=*/true));
}

void run_permute_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  at::index_select_out(out, matrix(call, call.in[0]), 0,
                       tokens_of(call, call.in[1], call.in[2].type.shape.back()));
}

// [N,k,C], in the dtype that sums are made in.
at::Tensor rows_of_tokens(const KernelCall& call, const Ref& y, const Ref& places) {
  const Shape& shape = places.type.shape;
  return at::index_select(tensor(call, y), 0, numbers(call, places))
      .to(compute_type(y))
      .view({shape.rows(), shape.back(), y.type.shape.back()});
}

void run_permute_grad_composed(const KernelCall& call) {
  at::Tensor sum = rows_of_tokens(call, call.in[0], call.in[1]).sum(1);
  if (call.in.size() > 2) sum.add_(matrix(call, call.in[2]));
  matrix(call, call.out[0]).copy_(sum);
}

void run_combine_composed(const KernelCall& call) {
  at::Tensor rows = rows_of_tokens(call, call.in[0], call.in[3]);
  matrix(call, call.out[0]).copy_(rows.mul_(matrix(call, call.in[1]).unsqueeze(2)).sum(1));
}

void run_combine_grad_composed(const KernelCall& call) {
  const auto wide = compute_type(call.in[1]);
  const int64_t k = call.in[2].type.shape.back();
  at::Tensor order = numbers(call, call.in[3]);
  at::Tensor dout =
      at::index_select(matrix(call, call.in[0]), 0, tokens_of(call, call.in[3], k)).to(wide);
  tensor(call, call.out[1])
      .view({-1})
      .index_copy_(0, order, (dout * tensor(call, call.in[1])).sum(1).to(wide));
  at::Tensor weights = at::index_select(tensor(call, call.in[2]).view({-1}), 0, order);
  tensor(call, call.out[0]).copy_(dout.mul_(weights.unsqueeze(1)));
}

constexpr int64_t kOfRow = 64;  // bytes for each row: numbers and what sorting takes

int64_t workspace_group_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return kOfRow * in[0].shape.count() + (1 << 20);
}

int64_t workspace_permute_composed(const std::any&, std::span<const Type>,
                                   std::span<const Type> out) {
  return kOfRow * out[0].shape[0] + (1 << 14);
}

// The rows as they are, wide, and their products; sums.
int64_t workspace_sum_composed(const std::any&, std::span<const Type> in,
                               std::span<const Type> out) {
  const Type& rows = in[0].shape.count() > out[0].shape.count() ? in[0] : out[0];
  return 4 * wide_bytes(rows) + kOfRow * rows.shape.rows() + (1 << 14);
}

int64_t workspace_combine_grad_composed(const std::any&, std::span<const Type> in,
                                        std::span<const Type>) {
  return 4 * wide_bytes(in[1]) + kOfRow * in[1].shape[0] + (1 << 14);
}

// --- custom kernels on CUDA

// Numbers [runs, experts].
int64_t workspace_group(const std::any& attrs, std::span<const Type> in, std::span<const Type>) {
  return ceil_div(in[0].shape.count(), kGroupRun) * count_of(attrs) * size_bytes(Dtype::int32);
}

SumTokensArguments sum_arguments(const KernelCall& call, const Ref& places) {
  return {.dtype = call.out[0].type.dtype,
          .tokens = places.type.shape.rows(),
          .taken = places.type.shape.back(),
          .width = call.out[0].type.shape.back(),
          .y = call.in[0].data,
          .places = places.as<int32_t>(),
          .weights = nullptr,
          .so_far = nullptr,
          .out = call.out[0].data};
}

}  // namespace

GroupByExpertArguments group_by_expert_arguments(const KernelCall& call) {
  return {.rows = call.in[0].type.shape.count(),
          .experts = count_of(call.attrs),
          .expert = call.in[0].as<int32_t>(),
          .order = call.out[0].as<int32_t>(),
          .places = call.out[1].as<int32_t>(),
          .ends = call.out[2].as<int32_t>(),
          .next = reinterpret_cast<int32_t*>(call.workspace.data())};
}

PermuteArguments permute_tokens_arguments(const KernelCall& call) {
  return {.dtype = call.out[0].type.dtype,
          .rows = call.out[0].type.shape[0],
          .taken = call.in[2].type.shape.back(),
          .width = call.out[0].type.shape[1],
          .x = call.in[0].data,
          .order = call.in[1].as<int32_t>(),
          .out = call.out[0].data};
}

SumTokensArguments permute_tokens_grad_arguments(const KernelCall& call) {
  SumTokensArguments arguments = sum_arguments(call, call.in[1]);
  if (call.in.size() > 2) arguments.so_far = call.in[2].data;
  return arguments;
}

SumTokensArguments combine_tokens_arguments(const KernelCall& call) {
  SumTokensArguments arguments = sum_arguments(call, call.in[3]);
  arguments.weights = call.in[1].as<float>();
  return arguments;
}

CombineGradArguments combine_tokens_grad_arguments(const KernelCall& call) {
  return {.dtype = call.out[0].type.dtype,
          .rows = call.out[0].type.shape[0],
          .taken = call.in[2].type.shape.back(),
          .width = call.out[0].type.shape[1],
          .dout = call.in[0].data,
          .y = call.in[1].data,
          .weights = call.in[2].as<float>(),
          .order = call.in[3].as<int32_t>(),
          .dy = call.out[0].data,
          .dweights = call.out[1].as<float>()};
}

const Op group_by_expert_op{
    .name = "group_by_expert",
    .infer = infer_group,
    .cost = cost_group,
    .print = print_group,
    .cpu = {run_group_cpu},
    .cuda = {custom_kernel<launch_group_by_expert, group_by_expert_arguments>(), workspace_group},
    .cuda_composed = {run_group_composed, workspace_group_composed},
    .reference = {run_group_composed}};

const Op permute_tokens_op{
    .name = "permute_tokens",
    .infer = infer_permute,
    .vjp = vjp_permute,
    .cost = cost_permute,
    .recompute_cost = RecomputeCost::low,
    .cpu = {run_permute_cpu},
    .cuda = {custom_kernel<launch_permute_tokens, permute_tokens_arguments>()},
    .cuda_composed = {run_permute_composed, workspace_permute_composed},
    .reference = {run_permute_composed}};

const Op permute_tokens_grad_op{
    .name = "permute_tokens_grad",
    .infer = infer_permute_grad,
    .cost = cost_sum,
    .sum_input = 2,
    .recompute_cost = RecomputeCost::low,
    .cpu = {run_permute_grad_cpu},
    .cuda = {custom_kernel<launch_sum_tokens, permute_tokens_grad_arguments>()},
    .cuda_composed = {run_permute_grad_composed, workspace_sum_composed},
    .reference = {run_permute_grad_composed}};

const Op combine_tokens_op{.name = "combine_tokens",
                           .infer = infer_combine,
                           .vjp = vjp_combine,
                           .cost = cost_sum,
                           .recompute_cost = RecomputeCost::low,
                           .cpu = {run_combine_cpu},
                           .cuda = {custom_kernel<launch_sum_tokens, combine_tokens_arguments>()},
                           .cuda_composed = {run_combine_composed, workspace_sum_composed},
                           .reference = {run_combine_composed}};

const Op combine_tokens_grad_op{
    .name = "combine_tokens_grad",
    .infer = infer_combine_grad,
    .cost = cost_combine_grad,
    .cpu = {run_combine_grad_cpu},
    .cuda = {custom_kernel<launch_combine_tokens_grad, combine_tokens_grad_arguments>()},
    .cuda_composed = {run_combine_grad_composed, workspace_combine_grad_composed},
    .reference = {run_combine_grad_composed}};

Grouping group_by_expert(Var experts, int64_t count) {
  const std::vector<Var> out = experts.trace->emit(group_by_expert_op, Experts{count}, {experts});
  return {out[0], out[1], out[2]};
}

Var permute_tokens(Var x, const Grouping& grouping) {
  return x.trace->emit(permute_tokens_op, {}, {x, grouping.order, grouping.places})[0];
}

Var combine_tokens(Var y, Var weights, const Grouping& grouping) {
  return y.trace->emit(combine_tokens_op, {}, {y, weights, grouping.order, grouping.places})[0];
}

}  // namespace longshore::models
