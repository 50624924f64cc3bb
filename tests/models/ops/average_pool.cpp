#include "longshore/models/ops/average_pool/average_pool.h"

#include "longshore/models/ir/add.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/average_pool/average_pool_kernels.h"
#include "longshore/models/ops/gelu.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

// x is pooled by two windows, so that its gradient is a sum.
OpCase average_pool_case(int64_t n, int64_t side, int64_t c, int64_t window) {
  return {.name = named("average_pool", n, side, c, window),
          .trace =
              [=](Dtype dtype) {
                Trace trace("average_pool");
                Var x = trace.input("x", {{n, side * side, c}, dtype});
                trace.output(gelu(average_pool(x, window)));
                trace.output(average_pool(x, side));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [=](const Tensors& in) {
                auto pooled = [&](int64_t k) {
                  return in.at("x")
                      .view({n, side, side, c})
                      .unfold(1, k, k)
                      .unfold(2, k, k)
                      .mean({4, 5})
                      .reshape({n, side / k * (side / k), c});
                };
                return std::vector{plain::gelu(pooled(window)), pooled(side)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {average_pool_case(1, 1, 1, 1), average_pool_case(2, 4, 3, 2)};
}

std::vector<OpCase> large() {
  return {average_pool_case(1, 6, 33, 3), average_pool_case(3, 8, 320, 4),
          average_pool_case(2, 9, 5, 1)};
}

std::vector<OpCase> real() { return {average_pool_case(1, 64, 1152, 4)}; }

constexpr OpTraits kOps[] = {
    {.op = &average_pool_op,
     .tolerance = {1e-6, kRounding},
     .emulated = emulated_launch<average_pool_arguments>()},
    {.op = &average_pool_grad_op,
     .tolerance = {1e-6, kRounding},
     .emulated = emulated_launch<average_pool_grad_arguments>()},
};

}  // namespace

extern constinit const OpRecord average_pool_record{kOps, small, large, real};

}  // namespace longshore::models
