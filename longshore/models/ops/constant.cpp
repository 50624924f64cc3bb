#include "longshore/models/ops/constant.h"

#include <algorithm>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/print.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/float_types.h"
#include "longshore/models/ops/kernels/numbers.h"

namespace longshore::models {
namespace {

struct Attrs {
  Type type;
  double value;
};

const Attrs& attrs_of(const std::any& any) { return std::any_cast<const Attrs&>(any); }

Types infer(const std::any& any, std::span<const Type> in) {
  expect_inputs(in, 0, 0, "constant");
  return {attrs_of(any).type};
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = 0, .bytes = operand_bytes(in, out)};
}

std::string print(const std::any& any) { return print_number("value", attrs_of(any).value); }

void run_cpu(const KernelCall& call) {
  const Type& type = call.out[0].type;
  with_float_type(type.dtype, [&]<class T>(T value) {
    store(value, static_cast<float>(attrs_of(call.attrs).value));
    std::fill_n(call.out[0].as<T>(), type.shape.count(), value);
  });
}

void run_composed(const KernelCall& call) {
  tensor(call, call.out[0]).fill_(attrs_of(call.attrs).value);
}

}  // namespace

const Op constant_op{.name = "constant",
                     .infer = infer,
                     .cost = cost,
                     .print = print,
                     .recompute_cost = RecomputeCost::low,
                     .cpu = {run_cpu},
                     .cuda = {run_composed},
                     .reference = {run_composed}};

Var constant(Trace& trace, const Type& type, double value) {
  return trace.emit(constant_op, Attrs{type, value}, {})[0];
}

}  // namespace longshore::models
