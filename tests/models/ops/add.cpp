#include "longshore/models/ir/add.h"

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/swiglu.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

OpCase add_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("add", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("add");
                Var a = trace.input("a", {{b, t, c}, dtype});
                Var sum = add(a, trace.input("b", {{b, t, c}, dtype}));
                trace.output(add(sum, sum));
                trace.output(add(a, swiglu(sum, a)));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor a = in.at("a"), sum = a + in.at("b");
                return std::vector{sum + sum, a + plain::swiglu(sum, a)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() { return {add_case(2, 3, 5)}; }

std::vector<OpCase> large() {
  return {
      add_case(1, 1, 1),
      add_case(3, 111, 121),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &add_op, .tolerance = {2e-7, kRounding}},
};

}  // namespace

extern constinit const OpRecord add_record{kOps, small, large};

}  // namespace longshore::models
