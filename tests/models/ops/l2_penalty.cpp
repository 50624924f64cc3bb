#include "longshore/models/ops/l2_penalty.h"

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/linear/linear.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

OpCase l2_penalty_case(int64_t n, int64_t k) {
  return {
      .name = named("l2_penalty", n, k),
      .trace =
          [=](Dtype dtype) {
            Trace trace("l2_penalty");
            trace.output(l2_penalty(trace.weight("w", {{n, k}, dtype}, kTrained), 0.7),
                         OutputRole::auxiliary_loss);
            return trace.finish();
          },
      .integers = {},
      .plain = [](const Tensors& in) { return std::vector{plain::l2_penalty(in.at("w"), 0.7)}; },
      .adjust = {}};
}

// The penalty's gradient is what another is added to, and is added to another.
OpCase shared_l2_penalty_case(int64_t rows, int64_t k) {
  return {.name = named("l2_penalty, shared", rows, k),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_l2_penalty");
                Var x = trace.input("x", {{rows, k}, dtype});
                Var w = trace.weight("w", {{k, k}, dtype}, kTrained);
                trace.output(l2_penalty(w, 0.5), OutputRole::auxiliary_loss);
                trace.output(linear(x, w));
                trace.output(l2_penalty(w, -1.25), OutputRole::auxiliary_loss);
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor w = in.at("w");
                return std::vector{plain::l2_penalty(w, 0.5), plain::linear(in.at("x"), w),
                                   plain::l2_penalty(w, -1.25)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      l2_penalty_case(1, 1),
      l2_penalty_case(3, 5),
      shared_l2_penalty_case(3, 5),
  };
}

std::vector<OpCase> large() {
  return {
      l2_penalty_case(256, 256),
      l2_penalty_case(333, 999),
      shared_l2_penalty_case(67, 72),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &l2_penalty_op, .tolerance = {1e-7, 1e-7}, .workspace = WorkspaceUse::all},
    {.op = &l2_penalty_grad_op, .tolerance = {3e-7, 3e-7}},
};

}  // namespace

extern constinit const OpRecord l2_penalty_record{kOps, small, large};

}  // namespace longshore::models
