#include "longshore/models/ops/columns.h"

#include <cstring>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/add_range.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

struct Columns {
  int64_t first, count;
  int64_t of;  // C
};

Columns columns_of(const std::any& attrs) { return std::any_cast<const Columns&>(attrs); }

Types infer_take(const std::any& attrs, std::span<const Type> in) {
  const auto [first, count, of] = columns_of(attrs);
  expect_inputs(in, 1, 1, "take_columns");
  expect(first >= 0 && count > 0 && first + count <= of && in[0].shape.back() == of, "take_columns",
         "the columns are not x's");
  return {{in[0].shape.with_back(count), in[0].dtype}};
}

Types infer_add(const std::any& attrs, std::span<const Type> in) {
  const auto [first, count, of] = columns_of(attrs);
  expect_inputs(in, 1, 2, "add_columns");
  expect(in[0].shape.back() == count, "add_columns", "dy has another width");
  const Type out{in[0].shape.with_back(of), in[0].dtype};
  if (in.size() > 1) expect(in[1] == out, "add_columns", "the sum is not [..,C] of dy's dtype");
  return {out};
}

void vjp(Backward& backward, const Node& node) {
  backward.accumulate(add_columns_op, node.attrs, {backward.gradient(node.out[0])}, node.in[0]);
}

Cost cost_take(const std::any&, std::span<const Type>, std::span<const Type> out) {
  return {.flops = 0, .bytes = 2.0 * static_cast<double>(out[0].bytes())};
}

Cost cost_add(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  const auto bytes = static_cast<double>(in[0].bytes());
  if (in.size() > 1) return {.flops = static_cast<double>(in[0].shape.count()), .bytes = 3 * bytes};
  return {.flops = 0, .bytes = bytes + static_cast<double>(out[0].bytes())};
}

std::string print(const std::any& attrs) {
  const auto [first, count, of] = columns_of(attrs);
  return "first=" + std::to_string(first) + ", count=" + std::to_string(count) +
         ", of=" + std::to_string(of);
}

// --- CPU

void run_take_cpu(const KernelCall& call) {
  const Columns c = columns_of(call.attrs);
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.rows(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        std::memcpy(call.out[0].as<T>() + row * c.count, call.in[0].as<T>() + row * c.of + c.first,
                    c.count * sizeof(T));
    });
  });
}

void run_add_cpu(const KernelCall& call) {
  const Columns c = columns_of(call.attrs);
  const bool has_sum = call.in.size() > 1;
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.rows(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        T* out = call.out[0].as<T>() + row * c.of;
        const T* dy = call.in[0].as<T>() + row * c.count;
        if (!has_sum) {
          std::memset(out, 0, c.of * sizeof(T));
          std::memcpy(out + c.first, dy, c.count * sizeof(T));
          continue;
        }
        const T* sum = call.in[1].as<T>() + row * c.of;
        if (sum != out) std::memcpy(out, sum, c.of * sizeof(T));
        add_range(sum + c.first, dy, out + c.first, c.count);
      }
    });
  });
}

// --- composition

at::Tensor columns(const KernelCall& call, const Ref& whole) {
  const auto [first, count, of] = columns_of(call.attrs);
  return tensor(call, whole).narrow(-1, first, count);
}

void run_take_composed(const KernelCall& call) {
  tensor(call, call.out[0]).copy_(columns(call, call.in[0]));
}

void run_add_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  if (call.in.size() == 1)
    out.zero_();
  else if (call.in[1].data != call.out[0].data)
    out.copy_(tensor(call, call.in[1]));
  columns(call, call.out[0]).add_(tensor(call, call.in[0]));
}

}  // namespace

const Op take_columns_op{.name = "take_columns",
                         .infer = infer_take,
                         .vjp = vjp,
                         .cost = cost_take,
                         .print = print,
                         .recompute_cost = RecomputeCost::low,
                         .cpu = {run_take_cpu},
                         .cuda = {run_take_composed},
                         .reference = {run_take_composed}};

const Op add_columns_op{.name = "add_columns",
                        .infer = infer_add,
                        .cost = cost_add,
                        .print = print,
                        .sum_input = 1,
                        .recompute_cost = RecomputeCost::low,
                        .cpu = {run_add_cpu},
                        .cuda = {run_add_composed},
                        .reference = {run_add_composed}};

Var take_columns(Var x, int64_t first, int64_t count) {
  return x.trace->emit(take_columns_op, Columns{first, count, x.type().shape.back()}, {x})[0];
}

}  // namespace longshore::models
