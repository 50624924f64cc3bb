#include "models/ops/grouped_linear/grouped_linear.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros_like.h>
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "models/ir/backward.h"
#include "models/ir/infer.h"
#include "models/ops/grouped_linear/grouped_linear_aten.h"
#include "models/ops/grouped_linear/grouped_linear_kernels.h"
#include "models/ops/kernels/aten.h"
#include "models/ops/kernels/custom_kernel.h"
#include "models/ops/kernels/onednn_matmul.h"
#include "models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

struct Attrs {
  Layout layout;
  Dtype weight_gradient = Dtype::float32;  // of weights' gradients: wider than what makes them
};

Attrs attrs_of(const std::any& attrs) { return std::any_cast<const Attrs&>(attrs); }

// Of one matrix of W.
struct Sizes {
  int64_t n, k;
};

Sizes sizes_of(const Shape& weight, Layout layout) {
  return layout == Layout::transposed ? Sizes{weight[1], weight[2]} : Sizes{weight[2], weight[1]};
}

Shape weight_shape(int64_t experts, Sizes sizes, Layout layout) {
  const auto [n, k] = sizes;
  return layout == Layout::transposed ? Shape{experts, n, k} : Shape{experts, k, n};
}

bool are_ends(const Type& ends, int64_t experts) { return ends == Type{{experts}, Dtype::int32}; }

// --- shape rules

Types infer(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 3, 4, "grouped_linear");
  const Shape &x = in[0].shape, &weight = in[1].shape;
  expect(x.rank() == 2 && weight.rank() == 3 && in[0].dtype == in[1].dtype &&
             x[1] == sizes_of(weight, attrs_of(attrs).layout).k,
         "grouped_linear", "x [M,K] and W do not fit");
  expect(are_ends(in[2], weight[0]), "grouped_linear", "ends are not i32 [E]");
  return {{x.with_back(sizes_of(weight, attrs_of(attrs).layout).n), in[0].dtype}};
}

Types infer_input_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 3, 4, "grouped_linear_input_grad");
  const Shape &dy = in[0].shape, &weight = in[1].shape;
  expect(dy.rank() == 2 && weight.rank() == 3 &&
             dy[1] == sizes_of(weight, attrs_of(attrs).layout).n && are_ends(in[2], weight[0]),
         "grouped_linear_input_grad", "dy [M,N], W and ends do not fit");
  return {{dy.with_back(sizes_of(weight, attrs_of(attrs).layout).k), in[0].dtype}};
}

Types infer_weight_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 3, 4, "grouped_linear_weight_grad");
  expect(in[0].shape.rank() == 2 && in[1].shape.rank() == 2 && in[0].shape[0] == in[1].shape[0] &&
             in[2].shape.rank() == 1,
         "grouped_linear_weight_grad", "dy [M,N], x [M,K] and ends do not fit");
  return {{weight_shape(in[2].shape[0], {in[0].shape[1], in[1].shape[1]}, attrs_of(attrs).layout),
           attrs_of(attrs).weight_gradient}};
}

// --- gradients and costs

void vjp(Backward& backward, const Node& node) {
  const ValueId x = node.in[0], weight = node.in[1], ends = node.in[2],
                dy = backward.gradient(node.out[0]);
  const Attrs attrs{attrs_of(node.attrs).layout, backward.weight_gradient_dtype()};
  // The weight's first: it is the last reader of x.
  if (backward.wants_gradient(weight))
    backward.accumulate(grouped_linear_weight_grad_op, attrs, {dy, x, ends}, weight);
  if (backward.wants_gradient(x))
    backward.accumulate(grouped_linear_input_grad_op, node.attrs, {dy, weight, ends}, x);
  if (node.in.size() == 4 && backward.wants_gradient(node.in[3]))
    backward.contribute(node.in[3], dy);
}

double rows_of_an_expert(std::span<const Type> in) {
  return static_cast<double>(in[0].shape[0]) / static_cast<double>(in[2].shape[0]);
}

// Of all rows, whichever expert's they are; W is read once.
Cost cost(const std::any& attrs, std::span<const Type> in, std::span<const Type> out) {
  const auto [n, k] = sizes_of(in[1].shape, attrs_of(attrs).layout);
  return {.flops = 2.0 * static_cast<double>(in[0].shape[0] * n * k),
          .bytes = operand_bytes(in, out),
          .rows = rows_of_an_expert(in)};
}

Cost cost_weight_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 2.0 * static_cast<double>(in[0].shape.count() * in[1].shape[1]),
          .bytes = operand_bytes(in, out),
          .rows = rows_of_an_expert(in)};
}

std::string print(const std::any& attrs) {
  return attrs_of(attrs).layout == Layout::plain ? "W [E,K,N]" : "";
}

std::string print_weight_grad(const std::any& attrs) {
  return std::string(name(attrs_of(attrs).weight_gradient)) +
         (attrs_of(attrs).layout == Layout::plain ? ", W [E,K,N]" : "");
}

// --- CPU

// Most rows of a product, so that there are so many descriptions of it at most, whatever the router
// says. An expert's rows are divided evenly.
constexpr int64_t kBlockRows = 1024;
// Rows of an expert, on average, from which on a product has all threads. Below, each expert has
// one.
constexpr int64_t kRowsForAllThreads = 64;

Threads threads_of(int64_t rows, int64_t experts) {
  return rows >= kRowsForAllThreads * experts || experts == 1 ? Threads::all : Threads::one;
}

struct Block {
  int64_t expert, begin, end;  // rows
  bool is_first;               // of its expert
};

// f(block) for each block of the expert's rows in turn; for a block without rows where it has none.
template <class F>
void for_each_block(const int32_t* ends, int64_t expert, F f) {
  const int64_t first = expert == 0 ? 0 : ends[expert - 1], rows = ends[expert] - first;
  const int64_t blocks = std::max<int64_t>(1, ceil_div(rows, kBlockRows));
  for (int64_t block = 0; block < blocks; ++block)
    f(Block{expert, first + rows * block / blocks, first + rows * (block + 1) / blocks,
            block == 0});
}

// f(block, workspace) for all, with the threads that threads_of() says.
template <class F>
void for_all_blocks(const KernelCall& call, int64_t rows, int64_t experts, F f) {
  const int32_t* ends = call.in[2].as<int32_t>();
  auto of_expert = [&](int64_t expert, std::span<std::byte> workspace) {
    for_each_block(ends, expert, [&](const Block& block) { f(block, workspace); });
  };
  if (threads_of(rows, experts) == Threads::all) {
    for (int64_t expert = 0; expert < experts; ++expert) of_expert(expert, call.workspace);
    return;
  }
  const int64_t share = static_cast<int64_t>(call.workspace.size()) / omp_get_max_threads();
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic)
  for (int64_t expert = 0; expert < experts; ++expert) try {
      of_expert(expert, call.workspace.subspan(omp_get_thread_num() * share, share));
    } catch (...) {
#pragma omp critical(longshore_failure)
      failure = std::current_exception();
    }
  if (failure) std::rethrow_exception(failure);
}

// What a product of that many rows is.
using Product = Matmul (*)(const Attrs& attrs, std::span<const Type> in, std::span<const Type> out,
                           int64_t rows);

Matmul forward_product(const Attrs& attrs, std::span<const Type> in, std::span<const Type>,
                       int64_t rows) {
  const auto [n, k] = sizes_of(in[1].shape, attrs.layout);
  return {.m = rows,
          .n = n,
          .k = k,
          .ab = in[0].dtype,
          .c = in[0].dtype,
          .b_layout = attrs.layout,
          .into = in.size() > 3 ? Into::add : Into::overwrite,
          .threads = threads_of(in[0].shape[0], in[1].shape[0])};
}

Matmul input_grad_product(const Attrs& attrs, std::span<const Type> in, std::span<const Type>,
                          int64_t rows) {
  const auto [n, k] = sizes_of(in[1].shape, attrs.layout);
  return {.m = rows,
          .n = k,
          .k = n,
          .ab = in[0].dtype,
          .c = in[0].dtype,
          .b_layout = attrs.layout == Layout::plain ? Layout::transposed : Layout::plain,
          .into = in.size() > 3 ? Into::add : Into::overwrite,
          .threads = threads_of(in[0].shape[0], in[1].shape[0])};
}

// dW[e] [N,K] = dyᵀ·x, or [K,N] = xᵀ·dy.
template <Into into>
Matmul weight_grad_product(const Attrs& attrs, std::span<const Type> in, std::span<const Type> out,
                           int64_t rows) {
  const bool is_plain = attrs.layout == Layout::plain;
  const int64_t n = in[0].shape[1], k = in[1].shape[1];
  return {.m = is_plain ? k : n,
          .n = is_plain ? n : k,
          .k = rows,
          .ab = in[0].dtype,
          .c = out[0].dtype,
          .a_layout = Layout::transposed,
          .into = into,
          .threads = threads_of(in[0].shape[0], in[2].shape[0])};
}

int64_t experts_of(std::span<const Type> in) { return in[2].shape[0]; }

// Of the largest block; products of fewer rows take no more.
template <Product product>
int64_t workspace_cpu(const std::any& attrs, std::span<const Type> in, std::span<const Type> out) {
  const int64_t rows = in[0].shape[0];
  const Matmul largest = product(attrs_of(attrs), in, out, std::min(rows, kBlockRows));
  const int64_t bytes = round_up(workspace_bytes(largest), 64);
  return largest.threads == Threads::all ? bytes : bytes * omp_get_max_threads();
}

template <Product product>
void run_rows_cpu(const KernelCall& call) {
  const Types in = types_of(call.in), out = types_of(call.out);
  const Attrs attrs = attrs_of(call.attrs);
  if (call.in.size() > 3 && call.in[3].data != call.out[0].data)
    std::memcpy(call.out[0].data, call.in[3].data, call.out[0].type.bytes());
  const int64_t experts = experts_of(in), size = size_bytes(in[0].dtype);
  const int64_t matrix = in[1].bytes() / experts;
  for_all_blocks(call, in[0].shape[0], experts, [&](const Block& block, auto workspace) {
    if (block.begin == block.end) return;
    run(product(attrs, in, out, block.end - block.begin),
        call.in[0].as<std::byte>() + block.begin * in[0].shape[1] * size,
        call.in[1].as<std::byte>() + block.expert * matrix,
        call.out[0].as<std::byte>() + block.begin * out[0].shape[1] * size, workspace);
  });
}

int64_t workspace_weight_grad_cpu(const std::any& attrs, std::span<const Type> in,
                                  std::span<const Type> out) {
  return std::max(workspace_cpu<weight_grad_product<Into::overwrite>>(attrs, in, out),
                  workspace_cpu<weight_grad_product<Into::add>>(attrs, in, out));
}

void run_weight_grad_cpu(const KernelCall& call) {
  const Types in = types_of(call.in), out = types_of(call.out);
  const Attrs attrs = attrs_of(call.attrs);
  const int64_t experts = experts_of(in), matrix = out[0].bytes() / experts;
  const bool is_plain = attrs.layout == Layout::plain;
  auto rows_from = [&](int input, int64_t row) {
    return call.in[input].as<std::byte>() + row * in[input].shape[1] * size_bytes(in[input].dtype);
  };
  const bool has_sum = call.in.size() > 3;
  for_all_blocks(call, in[0].shape[0], experts, [&](const Block& block, auto workspace) {
    std::byte* sum = call.out[0].as<std::byte>() + block.expert * matrix;
    if (block.is_first && has_sum && call.in[3].data != call.out[0].data)
      std::memcpy(sum, call.in[3].as<std::byte>() + block.expert * matrix, matrix);
    const int64_t rows = block.end - block.begin;
    if (rows == 0) {
      if (!has_sum) std::memset(sum, 0, matrix);
      return;
    }
    // Where nothing is there to add to, an expert's first product spares reading it.
    const Product product = block.is_first && !has_sum ? weight_grad_product<Into::overwrite>
                                                       : weight_grad_product<Into::add>;
    const void *dy = rows_from(0, block.begin), *x = rows_from(1, block.begin);
    run(product(attrs, in, out, rows), is_plain ? x : dy, is_plain ? dy : x, sum, workspace);
  });
}

// --- composition

// Each expert's matrix as [N,K].
at::Tensor matrices(const KernelCall& call, const Ref& weight) {
  at::Tensor all = tensor(call, weight);
  return attrs_of(call.attrs).layout == Layout::plain ? all.transpose(1, 2) : all;
}

// [M,1]: 1 at the expert's rows, else 0. Nothing waits for where these end.
at::Tensor rows_of(const KernelCall& call, int64_t expert, int64_t rows, at::ScalarType dtype) {
  at::Tensor ends = tensor(call, call.in[2]);
  at::Tensor numbers = at::arange(rows, ends.options());
  at::Tensor are = numbers.lt(ends.select(0, expert));
  if (expert > 0) are = are.logical_and_(numbers.ge(ends.select(0, expert - 1)));
  return are.to(dtype).unsqueeze(1);
}

void sum_of_experts(const KernelCall& call, bool is_input_grad) {
  const auto wide = compute_type(call.in[0]);
  at::Tensor x = tensor(call, call.in[0]).to(wide), all = matrices(call, call.in[1]);
  at::Tensor out = tensor(call, call.out[0]), sum = at::zeros_like(out, wide);
  if (call.in.size() > 3) sum.copy_(tensor(call, call.in[3]));
  for (int64_t expert = 0; expert < all.size(0); ++expert) {
    at::Tensor matrix = all[expert].to(wide);
    sum.add_(at::matmul(x * rows_of(call, expert, x.size(0), wide),
                        is_input_grad ? matrix : matrix.t()));
  }
  out.copy_(sum);
}

void run_composed(const KernelCall& call) { sum_of_experts(call, false); }
void run_input_grad_composed(const KernelCall& call) { sum_of_experts(call, true); }

void run_weight_grad_composed(const KernelCall& call) {
  const auto wide = compute_type(call.in[0]);
  at::Tensor dy = tensor(call, call.in[0]).to(wide), x = tensor(call, call.in[1]).to(wide);
  at::Tensor out = tensor(call, call.out[0]);
  if (call.in.size() < 4)
    out.zero_();
  else if (call.in[3].data != call.out[0].data)
    out.copy_(tensor(call, call.in[3]));
  at::Tensor all = matrices(call, call.out[0]);
  for (int64_t expert = 0; expert < all.size(0); ++expert)
    all[expert].add_(at::matmul((dy * rows_of(call, expert, dy.size(0), wide)).t(), x));
}

// Wide copies, those of an expert's rows, their product and the sum.
int64_t workspace_composed(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  int64_t bytes = 4 * wide_bytes(out[0]) + (1 << 20);
  for (const Type& type : in) bytes += 4 * wide_bytes(type);
  return bytes;
}

// --- CUDA

int64_t workspace_cuda(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return grouped_rows_workspace(out[0].dtype, out[0].shape[0], out[0].shape[1], in[0].shape[1],
                                experts_of(in));
}

}  // namespace

GroupedRowsArguments grouped_linear_arguments(const KernelCall& call) {
  const Layout layout = attrs_of(call.attrs).layout;
  const auto [n, k] = sizes_of(call.in[1].type.shape, layout);
  return {.dtype = call.out[0].type.dtype,
          .rows = call.in[0].type.shape[0],
          .n = n,
          .k = k,
          .experts = call.in[2].type.shape[0],
          .a = call.in[0].data,
          .b = call.in[1].data,
          .b_layout = layout,
          .ends = call.in[2].as<int32_t>(),
          .so_far = call.in.size() > 3 ? call.in[3].data : nullptr,
          .c = call.out[0].data};
}

GroupedRowsArguments grouped_linear_input_grad_arguments(const KernelCall& call) {
  const Layout layout = attrs_of(call.attrs).layout;
  const auto [n, k] = sizes_of(call.in[1].type.shape, layout);
  return {.dtype = call.out[0].type.dtype,
          .rows = call.in[0].type.shape[0],
          .n = k,
          .k = n,
          .experts = call.in[2].type.shape[0],
          .a = call.in[0].data,
          .b = call.in[1].data,
          .b_layout = layout == Layout::plain ? Layout::transposed : Layout::plain,
          .ends = call.in[2].as<int32_t>(),
          .so_far = call.in.size() > 3 ? call.in[3].data : nullptr,
          .c = call.out[0].data};
}

GroupedWeightsArguments grouped_linear_weight_grad_arguments(const KernelCall& call) {
  const bool is_plain = attrs_of(call.attrs).layout == Layout::plain;
  const Ref &a = call.in[is_plain ? 1 : 0], &b = call.in[is_plain ? 0 : 1];
  return {.dtype = a.type.dtype,
          .rows = a.type.shape[0],
          .m = a.type.shape[1],
          .n = b.type.shape[1],
          .experts = call.in[2].type.shape[0],
          .a = a.data,
          .b = b.data,
          .ends = call.in[2].as<int32_t>(),
          .so_far = call.in.size() > 3 ? call.in[3].as<float>() : nullptr,
          .c = call.out[0].as<float>()};
}

const Op grouped_linear_op{
    .name = "grouped_linear",
    .infer = infer,
    .vjp = vjp,
    .cost = cost,
    .print = print,
    .sum_input = 3,
    .op_class = OpClass::grouped,
    .cpu = {run_rows_cpu<forward_product>, workspace_cpu<forward_product>},
    .cuda = {kernel_of_parts<run_grouped_rows, grouped_linear_arguments>(), workspace_cuda},
    .cuda_composed = {run_composed, workspace_composed},
    .reference = {run_composed}};

const Op grouped_linear_input_grad_op{
    .name = "grouped_linear_input_grad",
    .infer = infer_input_grad,
    .cost = cost,
    .print = print,
    .sum_input = 3,
    .op_class = OpClass::grouped,
    .cpu = {run_rows_cpu<input_grad_product>, workspace_cpu<input_grad_product>},
    .cuda = {kernel_of_parts<run_grouped_rows, grouped_linear_input_grad_arguments>(),
             workspace_cuda},
    .cuda_composed = {run_input_grad_composed, workspace_composed},
    .reference = {run_input_grad_composed}};

const Op grouped_linear_weight_grad_op{
    .name = "grouped_linear_weight_grad",
    .infer = infer_weight_grad,
    .cost = cost_weight_grad,
    .print = print_weight_grad,
    .sum_input = 3,
    .op_class = OpClass::grouped,
    .cpu = {run_weight_grad_cpu, workspace_weight_grad_cpu},
    .cuda = {custom_kernel<launch_grouped_weights, grouped_linear_weight_grad_arguments>()},
    .cuda_composed = {run_weight_grad_composed, workspace_composed},
    .reference = {run_weight_grad_composed}};

Var grouped_linear(Var x, Var weight, Var ends, Layout layout) {
  return x.trace->emit(grouped_linear_op, Attrs{.layout = layout}, {x, weight, ends})[0];
}

Var grouped_linear(Var x, Var weight, Var ends, Layout layout, Var sum) {
  return x.trace->emit(grouped_linear_op, Attrs{.layout = layout}, {x, weight, ends, sum})[0];
}

}  // namespace longshore::models
