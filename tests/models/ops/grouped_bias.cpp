// Experts with many rows, with few and with none.
#include "longshore/models/ops/grouped_bias/grouped_bias.h"

#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/tensor.h>

#include <numeric>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/grouped_bias/grouped_bias_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

// The bias is used twice, and what comes between is an output too. `rows` of each expert.
OpCase grouped_bias_case(const std::vector<int64_t>& rows, int64_t n) {
  const auto experts = std::ssize(rows);
  const int64_t m = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  const at::Tensor counts = at::tensor(rows);
  return {.name = named("add_grouped_bias", experts, m, n),
          .trace =
              [=](Dtype dtype) {
                Trace trace("add_grouped_bias");
                Var y = trace.input("y", {{m, n}, dtype});
                Var bias = trace.weight("bias", {{experts, n}, dtype}, kTrained);
                Var ends = trace.batch("ends", ints({experts}));
                Var biased = add_grouped_bias(y, bias, ends);
                trace.output(biased);
                trace.output(gelu(add_grouped_bias(biased, bias, ends)));
                return trace.finish();
              },
          .integers = {{"ends", counts.cumsum(0).to(at::kInt)}},
          .plain =
              [=](const Tensors& in) {
                const at::Tensor bias = at::repeat_interleave(in.at("bias"), counts, 0);
                const at::Tensor biased = in.at("y") + bias;
                return std::vector{biased, plain::gelu(biased + bias)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      grouped_bias_case({1}, 1),
      grouped_bias_case({2, 0, 3}, 4),
      grouped_bias_case({0, 0, 1, 2, 0}, 3),
  };
}

std::vector<OpCase> large() {
  return {
      grouped_bias_case({0, 7, 0}, 33),
      grouped_bias_case({700, 0, 20, 3}, 320),
      grouped_bias_case({3, 1, 0, 17, 0, 0, 2, 40, 1}, 257),
      grouped_bias_case(std::vector<int64_t>(300, 1), 48),
  };
}

std::vector<OpCase> real() {
  return {grouped_bias_case({100, 0, 333, 20, 1, 1500, 400, 46}, 5760)};
}

constexpr OpTraits kOps[] = {
    {.op = &add_grouped_bias_op,
     .tolerance = {2e-7, kRounding},
     .emulated = emulated_launch<add_grouped_bias_arguments>()},
    {.op = &add_grouped_bias_grad_op,
     .tolerance = {1e-6, 1e-6},
     .emulated = emulated_launch<add_grouped_bias_grad_arguments>()},
};

}  // namespace

extern constinit const OpRecord grouped_bias_record{kOps, small, large, real};

}  // namespace longshore::models
