#include "longshore/models/ops/weigh_rows.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/randperm.h>

#include "longshore/models/ir/infer.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/gelu.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

// Of rows [b t k, c]. They and their weights have other readers too.
OpCase weigh_rows_case(int64_t b, int64_t t, int64_t k, int64_t c) {
  const int64_t m = b * t * k;
  return {.name = named("weigh_rows", b, t, k, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("weigh_rows");
                Var x = trace.input("x", {{m, c}, dtype});
                Var weights = trace.input("weights", {{b, t, k}, reduction_dtype(dtype)});
                Var order = trace.batch("order", ints({m}));
                trace.output(gelu(weigh_rows(x, weights, order)));
                trace.output(gelu(x));
                trace.output(gelu(weights));
                return trace.finish();
              },
          .integers = {{"order", at::randperm(m, at::detail::createCPUGenerator(5), at::kInt)}},
          .plain =
              [=](const Tensors& in) {
                const at::Tensor of_rows =
                    at::index_select(in.at("weights").reshape({-1}), 0, in.at("order"));
                return std::vector{plain::gelu(in.at("x") * of_rows.unsqueeze(1)),
                                   plain::gelu(in.at("x")), plain::gelu(in.at("weights"))};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {weigh_rows_case(1, 1, 1, 1), weigh_rows_case(2, 3, 1, 5), weigh_rows_case(1, 2, 2, 4)};
}

std::vector<OpCase> large() {
  return {weigh_rows_case(1, 7, 1, 33), weigh_rows_case(2, 65, 2, 100),
          weigh_rows_case(1, 41, 8, 257)};
}

constexpr OpTraits kOps[] = {
    {.op = &weigh_rows_op, .tolerance = {2e-7, kRounding}},
    {.op = &weigh_rows_grad_op, .tolerance = {1e-6, kRounding}},
};

}  // namespace

extern constinit const OpRecord weigh_rows_record{kOps, small, large};

}  // namespace longshore::models
