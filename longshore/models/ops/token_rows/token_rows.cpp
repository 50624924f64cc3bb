#include "longshore/models/ops/token_rows/token_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/index_put.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "longshore/base/error.h"
#include "longshore/base/pieces.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"

namespace longshore::models {
namespace {

struct Attrs {
  std::vector<int64_t> ids;
  int64_t pad_token = -1;  // of which what is looked up has no gradient; -1: there is none
};

const std::vector<int64_t>& ids_of(const std::any& attrs) {
  return std::any_cast<const Attrs&>(attrs).ids;
}

Dtype wide(Dtype dtype) { return dtype == Dtype::float64 ? dtype : Dtype::float32; }

void expect_ids(const std::any& attrs, int64_t rows, const char* op) {
  const std::vector<int64_t>& ids = ids_of(attrs);
  expect(std::ssize(ids) == rows && rows > 0, op, "there is not one row for each of the tokens");
  std::vector<int64_t> sorted = ids;
  std::ranges::sort(sorted);
  expect(std::ranges::adjacent_find(sorted) == sorted.end() && sorted[0] >= 0, op,
         "tokens are not distinct");
}

std::string print(const std::any& attrs) {
  return std::to_string(ids_of(attrs).size()) + " tokens";
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 0, .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

// Of few ids each is looked for by itself, and the device waits for no numbers of the host's. Of
// many that would take too long.
bool are_few(int64_t ids) { return ids <= 128; }

// Numbers of the host's, where the kernel computes.
at::Tensor on_device(const KernelCall& call, std::vector<int32_t> numbers) {
  return at::from_blob(numbers.data(), {std::ssize(numbers)}, at::kInt)
      .to(tensor(call, call.in[0]).device(), at::kInt, /*non_blocking=*/false, /*copy=*/true);
}

at::Tensor slots_among_few(const std::vector<int64_t>& ids, const at::Tensor& tokens) {
  at::Tensor slots = at::full_like(tokens, -1);
  for (size_t i = 0; i < ids.size(); ++i)
    slots.masked_fill_(tokens.eq(ids[i]), static_cast<int64_t>(i));
  return slots;
}

// The number of each token among those that have a row, or -1.
at::Tensor slots(const KernelCall& call, const at::Tensor& tokens) {
  const std::vector<int64_t>& ids = ids_of(call.attrs);
  if (are_few(std::ssize(ids))) return slots_among_few(ids, tokens);
  std::vector<int32_t> order(ids.size()), ascending;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int32_t i) { return ids[static_cast<size_t>(i)]; });
  for (const int32_t i : order)
    ascending.push_back(static_cast<int32_t>(ids[static_cast<size_t>(i)]));
  const at::Tensor known = on_device(call, std::move(ascending)),
                   numbers = on_device(call, std::move(order)),
                   places = at::searchsorted(known, tokens, /*out_int32=*/true)
                                .clamp_max_(std::ssize(ids) - 1);
  return at::index_select(numbers, 0, places)
      .masked_fill_(at::index_select(known, 0, places).ne(tokens), -1);
}

// What slots() allocates.
int64_t slots_bytes(int64_t ids, const Type& tokens) {
  const int64_t of_ids = are_few(ids) ? 0 : 2 * allocated_bytes(Type{{ids}, Dtype::int32}.bytes());
  return of_ids + 8 * allocated_bytes(tokens.bytes());
}

at::Tensor ids_on_device(const KernelCall& call) {
  const std::vector<int64_t>& ids = ids_of(call.attrs);
  return on_device(call, {ids.begin(), ids.end()});
}

int64_t rows_at_a_time(int64_t columns) {
  return std::max<int64_t>(1, kCompositionElements / columns);
}

// --- of what is looked up

Types infer_rows(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "token_rows");
  const auto& [x, tokens, rows] = std::tie(in[0], in[1], in[2]);
  expect(tokens.dtype == Dtype::int32 && tokens.shape.count() == x.shape.rows(), "token_rows",
         "tokens are not one i32 a row of x");
  expect(rows.shape.rank() == 2 && rows.shape[1] == x.shape.back() && rows.dtype == x.dtype,
         "token_rows", "rows are not [N,C] for x [..,C]");
  expect_ids(attrs, rows.shape[0], "token_rows");
  return {x};
}

void vjp_rows(Backward& backward, const Node& node) {
  if (backward.wants_gradient(node.in[0]))
    throw InternalError("token_rows: x is to have a gradient, which is not there");
  if (backward.wants_gradient(node.in[2]))
    backward.accumulate(token_rows_grad_op, node.attrs,
                        {backward.gradient(node.out[0]), node.in[1]}, node.in[2]);
}

void run_rows(const KernelCall& call) {
  const at::Tensor x = matrix(call, call.in[0]), out = matrix(call, call.out[0]);
  const at::Tensor tokens = tensor(call, call.in[1]).view({-1}), rows = tensor(call, call.in[2]);
  const at::Tensor of_tokens = slots(call, tokens);
  for_each_piece(x.size(0), rows_at_a_time(x.size(1)), [&](int64_t first, int64_t count) {
    const at::Tensor slot = of_tokens.narrow(0, first, count);
    const at::Tensor own = at::index_select(rows, 0, slot.clamp_min(0));
    out.narrow(0, first, count)
        .copy_(at::where(slot.ge(0).unsqueeze(1), own, x.narrow(0, first, count)));
  });
}

int64_t workspace_rows(const std::any&, std::span<const Type> in, std::span<const Type>) {
  const int64_t columns = in[0].shape.back(),
                rows = std::min(rows_at_a_time(columns), in[0].shape.rows());
  return 2 * allocated_bytes(Type{{rows, columns}, in[0].dtype}.bytes()) +
         slots_bytes(in[2].shape[0], in[1]) + kReductionBytes;
}

Types infer_rows_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 2, 3, "token_rows_grad");
  const Type out{{std::ssize(ids_of(attrs)), in[0].shape.back()}, wide(in[0].dtype)};
  expect(in[1].dtype == Dtype::int32 && in[1].shape.count() == in[0].shape.rows() &&
             (in.size() == 2 || in[2] == out),
         "token_rows_grad", "dy, tokens and the sum do not fit");
  return {out};
}

// By a product.
void add_few(const at::Tensor& dy, const at::Tensor& slots, const at::Tensor& sum) {
  const at::Tensor numbers = at::arange(sum.size(0), slots.options()).unsqueeze(1);
  sum.add_(at::mm(numbers.eq(slots.unsqueeze(0)).to(sum.scalar_type()), dy.to(sum.scalar_type())));
}

// Rows of other tokens add zeros, here and there: long sums take long.
void add_many(const at::Tensor& dy, const at::Tensor& slots, at::Tensor& sum) {
  const at::Tensor are_others = slots.lt(0), to = slots.to(at::kLong);
  const at::Tensor anywhere = at::arange(to.size(0), to.options()).remainder_(sum.size(0));
  const at::Tensor added = dy.to(sum.scalar_type(), /*non_blocking=*/false, /*copy=*/true)
                               .masked_fill_(are_others.unsqueeze(1), 0);
  at::index_put_(sum, c10::List<std::optional<at::Tensor>>({at::where(are_others, anywhere, to)}),
                 added, /*accumulate=*/true);
}

// Sums have one order.
void run_rows_grad(const KernelCall& call) {
  const at::Tensor dy = matrix(call, call.in[0]), out = tensor(call, call.out[0]);
  const at::Tensor tokens = tensor(call, call.in[1]).view({-1});
  at::Tensor of_tokens = slots(call, tokens);
  if (const int64_t pad = std::any_cast<const Attrs&>(call.attrs).pad_token; pad >= 0)
    of_tokens.masked_fill_(tokens.eq(pad), -1);
  at::Tensor sum = at::zeros(out.sizes(), out.options());
  for_each_piece(dy.size(0), rows_at_a_time(dy.size(1)), [&](int64_t first, int64_t count) {
    const at::Tensor some = dy.narrow(0, first, count), slot = of_tokens.narrow(0, first, count);
    if (are_few(out.size(0)))
      add_few(some, slot, sum);
    else
      add_many(some, slot, sum);
  });
  if (call.in.size() > 2) sum.add_(tensor(call, call.in[2]));
  out.copy_(sum);
}

int64_t workspace_rows_grad(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  const int64_t columns = in[0].shape.back(), ids = out[0].shape[0],
                rows = std::min(rows_at_a_time(columns), in[0].shape.rows());
  // Of many the numbers of rows too, which are sorted.
  const int64_t of_sums = are_few(ids)
                              ? wide_bytes({{rows, columns}}) + 3 * wide_bytes({{ids, rows}})
                              : 2 * wide_bytes({{rows, columns}}) + 128 * rows;
  return of_sums + 3 * wide_bytes(out[0]) + slots_bytes(ids, in[1]) + (int64_t{32} << 20);
}

// --- of the matrix

Types infer_replace(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "replace_token_rows");
  const auto& [weight, rows] = std::tie(in[0], in[1]);
  expect(weight.shape.rank() == 2 && rows.shape.rank() == 2 && rows.shape[1] == weight.shape[1] &&
             rows.dtype == weight.dtype,
         "replace_token_rows", "rows are not [N,C] for W [V,C]");
  expect_ids(attrs, rows.shape[0], "replace_token_rows");
  expect(std::ranges::max(ids_of(attrs)) < weight.shape[0], "replace_token_rows",
         "a token is beyond W");
  return {weight};
}

void vjp_replace(Backward& backward, const Node& node) {
  if (backward.wants_gradient(node.in[0]))
    throw InternalError("replace_token_rows: W is to have a gradient, which is not there");
  if (backward.wants_gradient(node.in[1]))
    backward.accumulate(replace_token_rows_grad_op, node.attrs, {backward.gradient(node.out[0])},
                        node.in[1]);
}

void run_replace(const KernelCall& call) {
  const at::Tensor weight = tensor(call, call.in[0]), out = tensor(call, call.out[0]);
  const at::Tensor rows = tensor(call, call.in[1]);
  if (call.in[0].data != call.out[0].data) out.copy_(weight);
  const std::vector<int64_t>& ids = ids_of(call.attrs);
  if (!are_few(std::ssize(ids))) {
    out.index_copy_(0, ids_on_device(call).to(at::kLong), rows);
    return;
  }
  for (size_t i = 0; i < ids.size(); ++i) out[ids[i]].copy_(rows[static_cast<int64_t>(i)]);
}

Types infer_replace_grad(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 1, 2, "replace_token_rows_grad");
  const Type out{{std::ssize(ids_of(attrs)), in[0].shape.back()}, wide(in[0].dtype)};
  expect(in.size() == 1 || in[1] == out, "replace_token_rows_grad", "the sum is of another type");
  return {out};
}

void run_replace_grad(const KernelCall& call) {
  const at::Tensor dweight = tensor(call, call.in[0]), out = tensor(call, call.out[0]);
  const std::vector<int64_t>& ids = ids_of(call.attrs);
  if (call.in.size() > 1 && call.in[1].data != call.out[0].data)
    out.copy_(tensor(call, call.in[1]));
  if (!are_few(std::ssize(ids))) {
    const at::Tensor index = ids_on_device(call);
    for_each_piece(out.size(0), rows_at_a_time(out.size(1)), [&](int64_t first, int64_t count) {
      const at::Tensor to = out.narrow(0, first, count),
                       rows = at::index_select(dweight, 0, index.narrow(0, first, count));
      if (call.in.size() > 1)
        to.add_(rows);
      else
        to.copy_(rows);
    });
    return;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const at::Tensor row = out[static_cast<int64_t>(i)];
    if (call.in.size() > 1)
      row.add_(dweight[ids[i]]);
    else
      row.copy_(dweight[ids[i]]);
  }
}

int64_t workspace_of_rows(const std::any& attrs, std::span<const Type> in, std::span<const Type>) {
  const int64_t columns = in[0].shape.back(), ids = std::ssize(ids_of(attrs));
  if (are_few(ids)) return 4 * wide_bytes({{columns}});
  return 3 * allocated_bytes(8 * ids) +
         2 * wide_bytes({{std::min(ids, rows_at_a_time(columns)), columns}});
}

}  // namespace

const Op token_rows_op{.name = "token_rows",
                       .infer = infer_rows,
                       .vjp = vjp_rows,
                       .cost = cost,
                       .print = print,
                       .reuse = reuse,
                       .recompute_cost = RecomputeCost::low,
                       .cpu = {run_rows, workspace_rows},
                       .cuda = {run_rows, workspace_rows},
                       .reference = {run_rows}};

const Op token_rows_grad_op{.name = "token_rows_grad",
                            .infer = infer_rows_grad,
                            .cost = cost,
                            .print = print,
                            .sum_input = 2,
                            .cpu = {run_rows_grad, workspace_rows_grad},
                            .cuda = {run_rows_grad, workspace_rows_grad},
                            .reference = {run_rows_grad}};

const Op replace_token_rows_op{.name = "replace_token_rows",
                               .infer = infer_replace,
                               .vjp = vjp_replace,
                               .cost = cost,
                               .print = print,
                               .cpu = {run_replace, workspace_of_rows},
                               .cuda = {run_replace, workspace_of_rows},
                               .reference = {run_replace}};

const Op replace_token_rows_grad_op{.name = "replace_token_rows_grad",
                                    .infer = infer_replace_grad,
                                    .cost = cost,
                                    .print = print,
                                    .sum_input = 1,
                                    .cpu = {run_replace_grad, workspace_of_rows},
                                    .cuda = {run_replace_grad, workspace_of_rows},
                                    .reference = {run_replace_grad}};

Var token_rows(Var x, Var tokens, Var rows, std::vector<int64_t> ids, int64_t pad_token) {
  return x.trace->emit(token_rows_op, Attrs{std::move(ids), pad_token}, {x, tokens, rows})[0];
}

Var replace_token_rows(Var weight, Var rows, std::vector<int64_t> ids) {
  return weight.trace->emit(replace_token_rows_op, Attrs{std::move(ids)}, {weight, rows})[0];
}

}  // namespace longshore::models
