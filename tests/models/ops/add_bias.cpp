#include "longshore/models/ops/add_bias/add_bias.h"

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/add_bias/add_bias_kernels.h"
#include "longshore/models/ops/gelu.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

// The bias is used twice, and what comes between is an output too.
OpCase add_bias_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("add_bias", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("add_bias");
                Var x = trace.input("x", {{b, t, c}, dtype});
                Var bias = trace.weight("bias", {{c}, dtype}, kTrained);
                Var y = add_bias(x, bias);
                trace.output(y);
                trace.output(gelu(add_bias(y, bias)));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor y = in.at("x") + in.at("bias");
                return std::vector{y, plain::gelu(y + in.at("bias"))};
              },
          .adjust = {}};
}

// A bias for each position.
OpCase positions_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("add_bias, positions", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("add_positions");
                Var x = trace.input("x", {{b, t, c}, dtype});
                trace.output(add_bias(x, trace.weight("bias", {{t, c}, dtype}, kTrained)));
                return trace.finish();
              },
          .integers = {},
          .plain = [](const Tensors& in) { return std::vector{in.at("x") + in.at("bias")}; },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      positions_case(2, 3, 5),
      add_bias_case(1, 1, 1),
      add_bias_case(2, 3, 5),
  };
}

std::vector<OpCase> large() {
  return {
      add_bias_case(1, 1, 7),     add_bias_case(1, 63, 33),  add_bias_case(3, 111, 121),
      add_bias_case(2, 300, 160), positions_case(5, 41, 48),
  };
}

std::vector<OpCase> real() {
  constexpr int64_t kTokens = 600;
  return {add_bias_case(1, kTokens, 3584)};
}

constexpr OpTraits kOps[] = {
    {.op = &add_bias_op, .tolerance = {2e-7, kRounding}},
    {.op = &add_bias_grad_op,
     .tolerance = {1e-6, 1e-6},
     .workspace = WorkspaceUse::all,
     .emulated = emulated_launch<add_bias_grad_arguments>()},
};

}  // namespace

extern constinit const OpRecord add_bias_record{kOps, small, large, real};

}  // namespace longshore::models
