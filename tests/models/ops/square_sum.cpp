// What clips gradients by their norm.
#include "longshore/models/ops/square_sum/square_sum.h"

#include <cmath>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/square_sum/square_sum_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"

namespace longshore::models {
namespace {

OpCase square_sum_case(int64_t n) {
  return {.name = named("square_sum", n),
          .trace =
              [=](Dtype dtype) {
                Dtype wide = dtype == Dtype::bfloat16 ? Dtype::float32 : dtype;
                Trace trace("square_sum");
                trace.output(square_sum(trace.input("x", {{n}, wide})));
                Var all = trace.input("square_sums", {{n}, Dtype::float64});
                Clip clipped = clip(all, 0.5 * std::sqrt(static_cast<double>(n)));
                trace.output(clipped.factor);
                trace.output(clipped.norm);
                trace.output(clip(all, 0).factor);
                trace.output(clip(sum_in_order(all), 0).norm);
                trace.output(clip(sum_in_order(all, 1), 0).norm);
                trace.output(clip(sum_in_order(all, 0), 0).norm);
                trace.output(clip(all, 100 + 10 * std::sqrt(static_cast<double>(n))).factor);
                return trace.finish();
              },
          .integers = {},
          .plain = {},
          .adjust = [](Tensors& in) { in.at("square_sums").square_(); }};
}

std::vector<OpCase> small() { return {square_sum_case(7)}; }

std::vector<OpCase> large() {
  return {
      square_sum_case(1),
      square_sum_case(65536),
      square_sum_case(300001),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &square_sum_op,
     .tolerance = {1e-12, 1e-12},
     .workspace = WorkspaceUse::all,
     .emulated = emulated_launch<square_sum_arguments>()},
    {.op = &sum_in_order_op,
     .tolerance = {1e-12, 1e-12},
     .emulated = emulated_launch<sum_in_order_arguments>()},
    {.op = &clip_op, .tolerance = {1e-7, 1e-7}, .emulated = emulated_launch<clip_arguments>()},
};

}  // namespace

extern constinit const OpRecord square_sum_record{kOps, small, large};

}  // namespace longshore::models
