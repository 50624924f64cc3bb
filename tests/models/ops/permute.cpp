#include "longshore/models/ops/permute/permute.h"

#include <ATen/ops/index_select.h>
#include <ATen/ops/sort.h>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/permute/permute_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

// Tokens through a GELU in the place of experts. x has another reader, which is differentiated
// first.
OpCase permute_case(int64_t b, int64_t t, int64_t c, int64_t k, int64_t experts) {
  return {
      .name = named("permute", b, t, c, k, experts),
      .trace =
          [=](Dtype dtype) {
            Trace trace("permute");
            Var x = trace.input("x", {{b, t, c}, dtype});
            Var weights = trace.input("weights", {{b, t, k}, reduction_dtype(dtype)});
            const Grouping grouping =
                group_by_expert(trace.batch("experts", ints({b, t, k})), experts);
            Var rows = permute_tokens(x, grouping);
            trace.output(rows);
            trace.output(combine_tokens(gelu(rows), weights, grouping));
            trace.output(gelu(x));
            return trace.finish();
          },
      .integers = {{"experts", random_integers({b, t, k}, experts, 7)}},
      .plain =
          [=](const Tensors& in) {
            const at::Tensor& x = in.at("x");
            const at::Tensor order = std::get<1>(
                at::sort(in.at("experts").view({-1}), /*stable=*/true, 0, /*descending=*/false));
            const at::Tensor rows = at::index_select(x.reshape({-1, c}), 0, order.div(k, "floor"));
            const at::Tensor unsorted =
                at::index_select(plain::gelu(rows), 0, std::get<1>(at::sort(order)));
            return std::vector{rows,
                               (unsorted.view({b, t, k, c}) * in.at("weights").unsqueeze(3)).sum(2),
                               plain::gelu(x)};
          },
      .adjust = {}};
}

std::vector<OpCase> small() {
  return {permute_case(1, 3, 2, 2, 4), permute_case(2, 2, 3, 1, 2), permute_case(1, 1, 2, 3, 1)};
}

std::vector<OpCase> large() {
  return {permute_case(2, 65, 100, 2, 8), permute_case(1, 77, 64, 8, 128),
          permute_case(1, 33, 257, 1, 3)};
}

std::vector<OpCase> real() { return {permute_case(1, 1024, 2048, 8, 128)}; }

constexpr OpTraits kOps[] = {
    {.op = &group_by_expert_op,
     .tolerance = {},
     .emulated = emulated_launch<group_by_expert_arguments>()},
    {.op = &permute_tokens_op,
     .tolerance = {0, 0},
     .emulated = emulated_launch<permute_tokens_arguments>()},
    {.op = &permute_tokens_grad_op,
     .tolerance = {1e-6, kRounding},
     .emulated = emulated_launch<permute_tokens_grad_arguments>()},
    {.op = &combine_tokens_op,
     .tolerance = {1e-6, kRounding},
     .emulated = emulated_launch<combine_tokens_arguments>()},
    {.op = &combine_tokens_grad_op,
     .tolerance = {1e-6, kRounding},
     .emulated = emulated_launch<combine_tokens_grad_arguments>()},
};

}  // namespace

extern constinit const OpRecord permute_record{kOps, small, large, real};

}  // namespace longshore::models
