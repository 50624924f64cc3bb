#include "longshore/models/ops/scale.h"

#include <cmath>

#include "longshore/base/error.h"
#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

struct Attrs {
  double factor;
  Factor precision;
};

double factor_in(const std::any& attrs, Dtype dtype) {
  auto [factor, precision] = std::any_cast<Attrs>(attrs);
  if (dtype == Dtype::float64) return factor;
  if (precision == Factor::in_float32) dtype = Dtype::float32;
  double rounded = 0;
  with_float_type(dtype, [&]<class T>(T value) {
    store(value, static_cast<float>(factor));
    rounded = load(value);
  });
  return rounded;
}

Types infer(const std::any& attrs, std::span<const Type> in) {
  expect_inputs(in, 1, 1, "scale");
  expect(std::isfinite(std::any_cast<Attrs>(attrs).factor), "scale", "the factor is not finite");
  return {in[0]};
}

void vjp(Backward& backward, const Node& node) {
  ValueId x = node.in[0];
  backward.contribute(x,
                      backward.emit(scale_op, node.attrs, {backward.gradient(node.out[0])}, x)[0]);
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(out[0].shape.count()), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) { return {{.out = 0, .in = 0}}; }

std::string print(const std::any& attrs) {
  return print_number("factor", std::any_cast<Attrs>(attrs).factor);
}

// --- CPU

template <class T>
LONGSHORE_INLINE void scale_body(const T* x, float factor, T* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) store(y[i], load(x[i]) * factor);
}

LONGSHORE_SIMD void scale_range(const float* x, float factor, float* y, int64_t count) {
  scale_body(x, factor, y, count);
}
LONGSHORE_SIMD void scale_range(const bfloat16* x, float factor, bfloat16* y, int64_t count) {
  scale_body(x, factor, y, count);
}

template <class T>
void multiply(const KernelCall& call, float factor) {
  parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
    scale_range(call.in[0].as<T>() + begin, factor, call.out[0].as<T>() + begin, end - begin);
  });
}

void run_cpu(const KernelCall& call) {
  const Dtype dtype = call.out[0].type.dtype;
  const auto factor = static_cast<float>(factor_in(call.attrs, dtype));
  with_float_type(dtype, [&]<class T>(T) { multiply<T>(call, factor); });
}

// --- composition

// x where the product is to be.
at::Tensor copied(const KernelCall& call) {
  at::Tensor x = tensor(call, call.in[0]), out = tensor(call, call.out[0]);
  if (x.data_ptr() != out.data_ptr()) out.copy_(x);
  return out;
}

void run_composed(const KernelCall& call) {
  copied(call).mul_(factor_in(call.attrs, call.out[0].type.dtype));
}

// --- by a value

Types infer_by(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "scale_by");
  expect(in[1] == Type{{1}, in[0].dtype}, "scale_by", "the factor is no element of x's dtype");
  return {in[0]};
}

void vjp_by(Backward& backward, const Node& node) {
  const ValueId x = node.in[0], factor = node.in[1];
  if (backward.wants_gradient(factor))
    throw InternalError("scale_by: the factor is to have a gradient, which is not there");
  backward.contribute(
      x, backward.emit(scale_by_op, {}, {backward.gradient(node.out[0]), factor}, x)[0]);
}

void run_by_cpu(const KernelCall& call) {
  with_float_type(call.out[0].type.dtype,
                  [&]<class T>(T) { multiply<T>(call, load(*call.in[1].as<T>())); });
}

void run_by_composed(const KernelCall& call) { copied(call).mul_(tensor(call, call.in[1])); }

}  // namespace

const Op scale_op{.name = "scale",
                  .infer = infer,
                  .vjp = vjp,
                  .cost = cost,
                  .print = print,
                  .reuse = reuse,
                  .recompute_cost = RecomputeCost::low,
                  .cpu = {run_cpu},
                  .cuda = {run_composed},
                  .reference = {run_composed}};

const Op scale_by_op{.name = "scale_by",
                     .infer = infer_by,
                     .vjp = vjp_by,
                     .cost = cost,
                     .reuse = reuse,
                     .recompute_cost = RecomputeCost::low,
                     .cpu = {run_by_cpu},
                     .cuda = {run_by_composed},
                     .reference = {run_by_composed}};

Var scale_by(Var x, Var factor) { return x.trace->emit(scale_by_op, {}, {x, factor})[0]; }

Var scale(Var x, double factor, Factor precision) {
  return x.trace->emit(scale_op, Attrs{factor, precision}, {x})[0];
}

}  // namespace longshore::models
