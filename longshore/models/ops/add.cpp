#include "longshore/models/ir/add.h"

#include <ATen/ops/add.h>

#include "longshore/models/ir/backward.h"
#include "longshore/models/ir/infer.h"
#include "longshore/models/ops/kernels/add_range.h"
#include "longshore/models/ops/kernels/aten.h"
#include "longshore/models/ops/kernels/simd.h"

namespace longshore::models {
namespace {

Types infer(const std::any&, std::span<const Type> in) {
  expect_inputs(in, 2, 2, "add");
  expect(in[0] == in[1], "add", "the two terms differ in type");
  return {in[0]};
}

void vjp(Backward& backward, const Node& node) {
  for (ValueId term : node.in)
    if (backward.wants_gradient(term)) backward.contribute(term, backward.gradient(node.out[0]));
}

Cost cost(const std::any&, std::span<const Type> in, std::span<const Type> out) {
  return {.flops = static_cast<double>(out[0].shape.count()), .bytes = operand_bytes(in, out)};
}

std::vector<Reuse> reuse(const std::any&, int) {
  return {{.out = 0, .in = 0}, {.out = 0, .in = 1}};
}

void run_cpu(const KernelCall& call) {
  with_float_type(call.out[0].type.dtype, [&]<class T>(T) {
    parallel_ranges(call.out[0].type.shape.count(), [&](int64_t begin, int64_t end) {
      add_range(call.in[0].as<T>() + begin, call.in[1].as<T>() + begin, call.out[0].as<T>() + begin,
                end - begin);
    });
  });
}

void run_composed(const KernelCall& call) {
  at::Tensor out = tensor(call, call.out[0]);
  at::add_out(out, tensor(call, call.in[0]), tensor(call, call.in[1]));
}

}  // namespace

const Op add_op{.name = "add",
                .infer = infer,
                .vjp = vjp,
                .cost = cost,
                .reuse = reuse,
                .recompute_cost = RecomputeCost::low,
                .cpu = {run_cpu},
                .cuda = {run_composed},
                .reference = {run_composed}};

Var add(Var a, Var b) { return a.trace->emit(add_op, {}, {a, b})[0]; }

Program addition(const Type& type) {
  Trace t("addition");
  const Var a = t.input("a", type), b = t.input("b", type);
  t.output(add(a, b));
  return t.finish();
}

}  // namespace longshore::models
