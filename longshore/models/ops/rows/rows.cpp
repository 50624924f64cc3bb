#include "longshore/models/ops/rows/rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/where.h>

#include <cstring>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/custom_kernel.h"
#include "longshore/models/ops/kernels/simd.h"
#include "longshore/models/ops/rows/rows_kernels.h"

namespace longshore::models {
namespace {

// --- records

bool are_places(const Type& type) {
  return type.dtype == Dtype::int32 && (type.shape.rank() == 1 || type.shape.rank() == 2);
}

Shape rows_at(const Shape& places, int64_t width) {
  return places.rank() == 1 ? Shape{places[0], width} : Shape{places[0], places[1], width};
}

Types infer_take(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "take_rows");
  expect(are_places(in[1]), "take_rows", "places are not i32 [N] or [M,N]");
  return {{rows_at(in[1].shape, in[0].shape.back()), in[0].dtype}};
}

Types infer_replace(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 3, 3, "replace_rows");
  expect(are_places(in[2]), "replace_rows", "places are not i32 [N] or [M,N]");
  expect(in[1] == Type{rows_at(in[2].shape, in[0].shape.back()), in[0].dtype}, "replace_rows",
         "x, rows and places do not fit");
  return {in[0]};
}

Types infer_clear(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "clear_rows");
  expect(are_places(in[1]), "clear_rows", "places are not i32 [N] or [M,N]");
  return {in[0]};
}

void vjp_replace(Backward& backward, const Node& node) {
  const ValueId x = node.in[0], rows = node.in[1], places = node.in[2],
                dy = backward.gradient(node.out[0]);
  if (backward.wants_gradient(rows))
    backward.contribute(rows, backward.emit(take_rows_op, {}, {dy, places}, rows)[0]);
  if (backward.wants_gradient(x))
    backward.contribute(x, backward.emit(clear_rows_op, {}, {dy, places}, x)[0]);
}

Cost cost_take(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 0, .bytes = static_cast<double>(in[1].bytes()) + 2.0 * out[0].bytes()};
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 0, .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

// --- CPU

// f(n, place) for each row n, by several threads.
template <class F>
void for_each_place(const Ref& places, F f) {
  const int32_t* place = places.as<int32_t>();
  parallel_ranges(places.type.shape.count(), [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) f(n, int64_t{place[n]});
  });
}

int64_t row_bytes(const Type& type) { return type.shape.back() * size_bytes(type.dtype); }

void run_take_cpu(const KernelCall& call) {
  const int64_t bytes = row_bytes(call.in[0].type);
  const auto* x = call.in[0].as<std::byte>();
  auto* out = call.out[0].as<std::byte>();
  for_each_place(call.in[1], [&](int64_t n, int64_t place) {
    if (place < 0)
      std::memset(out + n * bytes, 0, bytes);
    else
      std::memcpy(out + n * bytes, x + place * bytes, bytes);
  });
}

void place_input(const KernelCall& call) {
  if (call.in[0].data == call.out[0].data) return;
  const int64_t bytes = row_bytes(call.in[0].type);
  parallel_ranges(call.in[0].type.shape.rows(), [&](int64_t begin, int64_t end) {
    std::memcpy(call.out[0].as<std::byte>() + begin * bytes,
                call.in[0].as<std::byte>() + begin * bytes, (end - begin) * bytes);
  });
}

void run_replace_cpu(const KernelCall& call) {
  place_input(call);
  const int64_t bytes = row_bytes(call.in[0].type);
  const auto* rows = call.in[1].as<std::byte>();
  auto* out = call.out[0].as<std::byte>();
  for_each_place(call.in[2], [&](int64_t n, int64_t place) {
    if (place >= 0) std::memcpy(out + place * bytes, rows + n * bytes, bytes);
  });
}

void run_clear_cpu(const KernelCall& call) {
  place_input(call);
  const int64_t bytes = row_bytes(call.in[0].type);
  auto* out = call.out[0].as<std::byte>();
  for_each_place(call.in[1], [&](int64_t, int64_t place) {
    if (place >= 0) std::memset(out + place * bytes, 0, bytes);
  });
}

// --- composition

at::Tensor places_of(const KernelCall& call, const Ref& places) {
  return tensor(call, places).view({-1}).to(at::kLong);
}

void run_take_composed(const KernelCall& call) {
  at::Tensor out = matrix(call, call.out[0]), places = places_of(call, call.in[1]);
  at::index_select_out(out, matrix(call, call.in[0]), 0, places.clamp_min(0));
  out.masked_fill_(places.lt(0).unsqueeze(1), 0);
}

// For each row of x the number of the row that takes its place, or -1.
at::Tensor takers(const at::Tensor& places, int64_t rows) {
  at::Tensor numbers = at::arange(places.size(0), places.options());
  at::Tensor result = at::full({rows}, -1, places.options());
  return result.scatter_reduce_(0, places.clamp_min(0), at::where(places.ge(0), numbers, -1),
                                "amax");
}

void run_replace_composed(const KernelCall& call) {
  at::Tensor out = matrix(call, call.out[0]), x = matrix(call, call.in[0]);
  at::Tensor taker = takers(places_of(call, call.in[2]), x.size(0));
  at::Tensor rows = at::index_select(matrix(call, call.in[1]), 0, taker.clamp_min(0));
  out.copy_(at::where(taker.ge(0).unsqueeze(1), rows, x));
}

void run_clear_composed(const KernelCall& call) {
  at::Tensor out = matrix(call, call.out[0]), x = matrix(call, call.in[0]);
  at::Tensor taker = takers(places_of(call, call.in[1]), x.size(0));
  if (call.in[0].data != call.out[0].data) out.copy_(x);
  out.masked_fill_(taker.ge(0).unsqueeze(1), 0);
}

constexpr int64_t kOfPlaces = 64;  // bytes for each place and row: numbers and masks

int64_t workspace_take_composed(const std::any&, std::span<const Type> in, std::span<const Type>) {
  return kOfPlaces * in[1].shape.count() + (1 << 14);
}

int64_t workspace_replace_composed(const std::any&, std::span<const Type> in,
                                   std::span<const Type>) {
  return 2 * allocated_bytes(in[0].bytes()) +
         kOfPlaces * (in[0].shape.rows() + in.back().shape.count()) + (1 << 14);
}

// --- custom kernels on CUDA

RowsArguments arguments_in_place(RowMove move, const KernelCall& call, const void* rows) {
  const Ref &x = call.in[0], &places = call.in.back();
  return {.move = move,
          .dtype = x.type.dtype,
          .count = places.type.shape.count(),
          .width = x.type.shape.back(),
          .places = places.as<int32_t>(),
          .rows = rows,
          .out = call.out[0].data,
          .x = x.data,
          .x_bytes = x.type.bytes()};
}

}  // namespace

RowsArguments take_rows_arguments(const KernelCall& call) {
  return {.move = RowMove::take,
          .dtype = call.in[0].type.dtype,
          .count = call.in[1].type.shape.count(),
          .width = call.in[0].type.shape.back(),
          .places = call.in[1].as<int32_t>(),
          .rows = call.in[0].data,
          .out = call.out[0].data};
}

RowsArguments replace_rows_arguments(const KernelCall& call) {
  return arguments_in_place(RowMove::replace, call, call.in[1].data);
}

RowsArguments clear_rows_arguments(const KernelCall& call) {
  return arguments_in_place(RowMove::clear, call, nullptr);
}

const Op take_rows_op{.name = "take_rows",
                      .infer = infer_take,
                      .cost = cost_take,
                      .recompute_cost = RecomputeCost::low,
                      .cpu = {run_take_cpu},
                      .cuda = {custom_kernel<launch_rows, take_rows_arguments>()},
                      .cuda_composed = {run_take_composed, workspace_take_composed},
                      .reference = {run_take_composed}};

const Op replace_rows_op{.name = "replace_rows",
                         .infer = infer_replace,
                         .vjp = vjp_replace,
                         .cost = cost,
                         .reuse = reuse,
                         .recompute_cost = RecomputeCost::low,
                         .cpu = {run_replace_cpu},
                         .cuda = {custom_kernel<launch_rows, replace_rows_arguments>()},
                         .cuda_composed = {run_replace_composed, workspace_replace_composed},
                         .reference = {run_replace_composed}};

const Op clear_rows_op{.name = "clear_rows",
                       .infer = infer_clear,
                       .cost = cost,
                       .reuse = reuse,
                       .recompute_cost = RecomputeCost::low,
                       .cpu = {run_clear_cpu},
                       .cuda = {custom_kernel<launch_rows, clear_rows_arguments>()},
                       .cuda_composed = {run_clear_composed, workspace_replace_composed},
                       .reference = {run_clear_composed}};

Var take_rows(Var x, Var places) { return x.trace->emit(take_rows_op, {}, {x, places})[0]; }

Var replace_rows(Var x, Var rows, Var places) {
  return x.trace->emit(replace_rows_op, {}, {x, rows, places})[0];
}

}  // namespace longshore::models
