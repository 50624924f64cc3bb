#include "longshore/models/ops/soft_cap.h"

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/elementwise/elementwise_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

OpCase soft_cap_case(int64_t b, int64_t t, int64_t c, double cap) {
  return {.name = named("soft_cap", b, t, c, cap),
          .trace =
              [=](Dtype dtype) {
                Trace trace("soft_cap");
                trace.output(soft_cap(trace.input("x", {{b, t, c}, dtype}), cap));
                return trace.finish();
              },
          .integers = {},
          .plain = [=](const Tensors& in) { return std::vector{plain::soft_cap(in.at("x"), cap)}; },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      soft_cap_case(2, 3, 5, 0.7),
      soft_cap_case(1, 1, 7, 30),
  };
}

std::vector<OpCase> large() {
  return {
      soft_cap_case(1, 7, 1, 2),
      soft_cap_case(3, 111, 121, 0.5),
      soft_cap_case(3, 111, 121, 30),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &soft_cap_op,
     .tolerance = {5e-7, kRounding},
     .emulated = emulated_launch<soft_cap_arguments>()},
    {.op = &soft_cap_grad_op,
     .tolerance = {1e-6, kRounding},
     .emulated = emulated_launch<soft_cap_grad_arguments>()},
};

}  // namespace

extern constinit const OpRecord soft_cap_record{kOps, small, large};

}  // namespace longshore::models
