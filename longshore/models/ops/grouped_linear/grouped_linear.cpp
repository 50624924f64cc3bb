#include "longshore/models/ops/grouped_linear/grouped_linear.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros_like.h>
#include <omp.h>

#include <algorithm>
#include <cstring>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/grouped_linear/grouped_linear_aten.h"
#include "longshore/models/ops/grouped_linear/grouped_linear_kernels.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/onednn_matmul.h"
#include "longshore/models/ops/kernels/simd.h"

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
// Columns of a product, or rows of what it gives of weights: each thread has products of its own,
// so that a part of W is arranged for it once, and not by every thread.
constexpr int64_t kBlockColumns = 256;

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

struct Columns {
  int64_t first, count;
};

// f(block, columns, workspace) for all blocks, and all parts of so many columns. Those of one part
// of an expert follow each other.
template <class F>
void for_all_parts(const KernelCall& call, int64_t experts, int64_t columns, F f) {
  const int32_t* ends = call.in[2].as<int32_t>();
  const int64_t parts = ceil_div(columns, kBlockColumns);
  const int64_t share = static_cast<int64_t>(call.workspace.size()) / omp_get_max_threads();
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < experts * parts; ++i) try {
      const int64_t first = i % parts * kBlockColumns;
      const Columns own{first, std::min(kBlockColumns, columns - first)};
      const auto workspace = call.workspace.subspan(omp_get_thread_num() * share, share);
      for_each_block(ends, i / parts, [&](const Block& block) { f(block, own, workspace); });
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
          .threads = Threads::one};
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
          .threads = Threads::one};
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
          .threads = Threads::one};
}

int64_t experts_of(std::span<const Type> in) { return in[2].shape[0]; }

// Of some of the columns of a product's B and C.
Matmul with_columns(Matmul product, int64_t columns) {
  product.c_row = product.n;
  if (product.b_layout == Layout::plain) product.b_row = product.n;
  product.n = columns;
  return product;
}

// Of some of the rows of a product's C, whose A is transposed.
Matmul with_rows(Matmul product, int64_t rows) {
  product.a_row = product.m;
  product.m = rows;
  return product;
}

// Of whatever rows a block has, for each thread.
template <Product product, Matmul (*part)(Matmul, int64_t)>
int64_t workspace_cpu(const std::any& attrs, std::span<const Type> in, std::span<const Type> out) {
  const Matmul largest = product(attrs_of(attrs), in, out, std::min(in[0].shape[0], kBlockRows));
  const bool are_columns = part == with_columns;
  const int64_t columns = are_columns ? largest.n : largest.m;
  const Varying rows = are_columns ? Varying::m : Varying::k;
  int64_t bytes = 0;
  for (const int64_t count : {std::min(columns, kBlockColumns), columns % kBlockColumns})
    if (count > 0) bytes = std::max(bytes, most_workspace_bytes(part(largest, count), rows));
  return round_up(bytes, 64) * omp_get_max_threads();
}

template <Product product>
void run_rows_cpu(const KernelCall& call) {
  const Types in = types_of(call.in), out = types_of(call.out);
  const Attrs attrs = attrs_of(call.attrs);
  if (call.in.size() > 3 && call.in[3].data != call.out[0].data)
    std::memcpy(call.out[0].data, call.in[3].data, call.out[0].type.bytes());
  const int64_t experts = experts_of(in), size = size_bytes(in[0].dtype);
  const int64_t matrix = in[1].bytes() / experts, k = in[0].shape[1], n = out[0].shape[1];
  for_all_parts(call, experts, n, [&](const Block& block, const Columns& own, auto workspace) {
    if (block.begin == block.end) return;
    const Matmul whole = product(attrs, in, out, block.end - block.begin);
    const int64_t in_matrix = own.first * (whole.b_layout == Layout::plain ? 1 : k);
    run(with_columns(whole, own.count), call.in[0].as<std::byte>() + block.begin * k * size,
        call.in[1].as<std::byte>() + block.expert * matrix + in_matrix * size,
        call.out[0].as<std::byte>() + (block.begin * n + own.first) * size, workspace);
  });
}

int64_t workspace_weight_grad_cpu(const std::any& attrs, std::span<const Type> in,
                                  std::span<const Type> out) {
  return std::max(workspace_cpu<weight_grad_product<Into::overwrite>, with_rows>(attrs, in, out),
                  workspace_cpu<weight_grad_product<Into::add>, with_rows>(attrs, in, out));
}

void run_weight_grad_cpu(const KernelCall& call) {
  const Types in = types_of(call.in), out = types_of(call.out);
  const Attrs attrs = attrs_of(call.attrs);
  const int64_t experts = experts_of(in), matrix = out[0].bytes() / experts;
  const bool is_plain = attrs.layout == Layout::plain, has_sum = call.in.size() > 3;
  const int64_t m = out[0].shape[1], row = matrix / m;  // of each matrix; bytes
  auto rows_from = [&](int input, int64_t first) {
    return call.in[input].as<std::byte>() +
           first * in[input].shape[1] * size_bytes(in[input].dtype);
  };
  for_all_parts(call, experts, m, [&](const Block& block, const Columns& own, auto workspace) {
    const int64_t at = block.expert * matrix + own.first * row, bytes = own.count * row;
    std::byte* sum = call.out[0].as<std::byte>() + at;
    if (block.is_first && has_sum && call.in[3].data != call.out[0].data)
      std::memcpy(sum, call.in[3].as<std::byte>() + at, bytes);
    const int64_t rows = block.end - block.begin;
    if (rows == 0) {
      if (!has_sum) std::memset(sum, 0, bytes);
      return;
    }
    // Where nothing is there to add to, an expert's first product spares reading it.
    const Product product = block.is_first && !has_sum ? weight_grad_product<Into::overwrite>
                                                       : weight_grad_product<Into::add>;
    const std::byte *dy = rows_from(0, block.begin), *x = rows_from(1, block.begin);
    run(with_rows(product(attrs, in, out, rows), own.count),
        (is_plain ? x : dy) + own.first * size_bytes(in[0].dtype), is_plain ? dy : x, sum,
        workspace);
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
    .cpu = {run_rows_cpu<forward_product>, workspace_cpu<forward_product, with_columns>},
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
    .cpu = {run_rows_cpu<input_grad_product>, workspace_cpu<input_grad_product, with_columns>},
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
