#include "longshore/models/ops/expert_load.h"

#include <ATen/ops/tensor.h>

#include "longshore/models/ir/trace.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"

namespace longshore::models {
namespace {

OpCase load_case(const std::vector<int32_t>& ends) {
  const auto experts = static_cast<int64_t>(ends.size());
  return {.name = named("expert_load", experts, ends.back()),
          .trace =
              [=](Dtype) {
                Trace trace("expert_load");
                trace.output(expert_load(trace.batch("ends", ints({experts})), 0.5));
                return trace.finish();
              },
          .integers = {{"ends", at::tensor(ends, at::kInt)}},
          .plain = {},
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {load_case({1, 4}), load_case({0, 0, 5}), load_case({2, 4, 6}), load_case({7})};
}

constexpr OpTraits kOps[] = {{.op = &expert_load_op, .tolerance = {1e-7, 1e-7}}};

}  // namespace

extern constinit const OpRecord expert_load_record{kOps, small, small};

}  // namespace longshore::models
