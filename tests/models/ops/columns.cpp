#include "longshore/models/ops/columns.h"

#include "longshore/models/ir/trace.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"

namespace longshore::models {
namespace {

// The second, the first, then all from the second on: columns that nothing reads, and that two
// read.
OpCase columns_case(int64_t b, int64_t t, int64_t width, int64_t count) {
  return {.name = named("columns", b, t, width, count),
          .trace =
              [=](Dtype dtype) {
                Trace trace("columns");
                Var x = trace.input("x", {{b, t, width}, dtype});
                trace.output(take_columns(x, count, count));
                trace.output(take_columns(x, 0, 1));
                trace.output(take_columns(x, count, width - count));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [=](const Tensors& in) {
                const at::Tensor& x = in.at("x");
                return std::vector{x.narrow(-1, count, count), x.narrow(-1, 0, 1),
                                   x.narrow(-1, count, width - count)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() { return {columns_case(2, 3, 6, 2), columns_case(1, 1, 4, 2)}; }

std::vector<OpCase> large() {
  return {columns_case(3, 111, 121, 17), columns_case(2, 65, 512, 64)};
}

constexpr OpTraits kOps[] = {
    {.op = &take_columns_op, .tolerance = {0, 0}},
    {.op = &add_columns_op, .tolerance = {2e-7, kRounding}},
};

}  // namespace

extern constinit const OpRecord columns_record{kOps, small, large};

}  // namespace longshore::models
