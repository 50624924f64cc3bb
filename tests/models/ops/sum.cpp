#include "longshore/models/ops/sum.h"

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/gelu.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

OpCase sum_case(Shape shape) {
  return {.name = named("sum", text(Type{shape})),
          .trace =
              [=](Dtype dtype) {
                Trace trace("sum");
                Var x = trace.input("x", {shape, dtype});
                trace.output(sum(x), OutputRole::loss);
                return trace.finish();
              },
          .integers = {},
          .plain = [](const Tensors& in) { return std::vector{in.at("x").sum()}; },
          .adjust = {}};
}

// What is summed has another reader.
OpCase shared_sum_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("sum, shared", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_sum");
                Var x = trace.input("x", {{b, t, c}, dtype});
                trace.output(gelu(x));
                trace.output(sum(x), OutputRole::loss);
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                return std::vector{plain::gelu(in.at("x")), in.at("x").sum()};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      sum_case({1}),
      sum_case({2, 3, 5}),
      shared_sum_case(1, 3, 5),
  };
}

std::vector<OpCase> large() {
  return {
      sum_case({1, 7}),
      sum_case({3, 111, 999}),
      shared_sum_case(1, 33, 31),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &sum_op, .tolerance = {1e-7, 1e-7}, .workspace = WorkspaceUse::all},
    {.op = &sum_grad_op, .tolerance = {0, kRounding}},
};

}  // namespace

extern constinit const OpRecord sum_record{kOps, small, large};

}  // namespace longshore::models
