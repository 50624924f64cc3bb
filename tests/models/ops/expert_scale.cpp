#include "longshore/models/ops/expert_scale.h"

#include <ATen/ops/index_select.h>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/gelu.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/plain.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

// The scale is used twice, the second time of what the first gives, which is an output too.
OpCase expert_scale_case(int64_t b, int64_t t, int64_t k, int64_t experts) {
  return {
      .name = named("scale_by_expert", b, t, k, experts),
      .trace =
          [=](Dtype dtype) {
            Trace trace("expert_scale");
            Var weights = trace.input("weights", {{b, t, k}, reduction_dtype(dtype)});
            Var taken = trace.batch("experts", ints({b, t, k}));
            Var scale = trace.weight("scale", {{experts}, dtype}, kTrained);
            Var scaled = scale_by_expert(weights, taken, scale);
            trace.output(scaled);
            trace.output(scale_by_expert(gelu(scaled), taken, scale));
            return trace.finish();
          },
      .integers = {{"experts", random_integers({b, t, k}, experts, 7)}},
      .plain =
          [=](const Tensors& in) {
            const at::Tensor& weights = in.at("weights");
            const at::Tensor scale =
                at::index_select(in.at("scale"), 0, in.at("experts").view({-1})).view_as(weights);
            const at::Tensor scaled = weights * scale;
            return std::vector{scaled, plain::gelu(scaled) * scale};
          },
      .adjust = {}};
}

// More experts than are taken, one of all, and many weights of each.
std::vector<OpCase> small() {
  return {expert_scale_case(1, 1, 1, 1), expert_scale_case(1, 3, 2, 20),
          expert_scale_case(2, 5, 2, 3)};
}

std::vector<OpCase> large() {
  return {expert_scale_case(1, 7, 1, 5), expert_scale_case(2, 333, 8, 128),
          expert_scale_case(3, 41, 4, 300)};
}

constexpr OpTraits kOps[] = {
    {.op = &scale_by_expert_op, .tolerance = {2e-7, 2e-7}},
    {.op = &scale_by_expert_grad_op, .tolerance = {1e-6, 1e-6}, .workspace = WorkspaceUse::all},
};

}  // namespace

extern constinit const OpRecord expert_scale_record{kOps, small, large};

}  // namespace longshore::models
