#include "longshore/models/ops/layer_norm/layer_norm.h"

#include "longshore/models/ir/add.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/layer_norm/layer_norm_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

constexpr double kEpsilon = 1e-5;

// Residual connection around a norm; weight and bias are used twice. Rows are far from zero.
OpCase layer_norm_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("layer_norm", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("layer_norm");
                Var x = trace.input("x", {{b, t, c}, dtype});
                Var w = trace.weight("w", {{c}, dtype}, kTrained);
                Var bias = trace.weight("bias", {{c}, dtype}, kTrained);
                Var sum = add(x, layer_norm(x, w, bias, kEpsilon));
                trace.output(sum);
                trace.output(layer_norm(sum, w, bias, kEpsilon));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor x = in.at("x"), w = in.at("w"), bias = in.at("bias");
                at::Tensor sum = x + plain::layer_norm(x, w, bias, kEpsilon);
                return std::vector{sum, plain::layer_norm(sum, w, bias, kEpsilon)};
              },
          .adjust = [](Tensors& in) { in.at("x").add_(3); }};
}

std::vector<OpCase> small() {
  return {
      layer_norm_case(1, 1, 2),
      layer_norm_case(2, 3, 5),
  };
}

std::vector<OpCase> large() {
  return {
      layer_norm_case(1, 3, 33), layer_norm_case(2, 257, 320), layer_norm_case(1, 1, 4097),
      layer_norm_case(1, 2, 12288),  // beyond what a GPU's block can hold
  };
}

std::vector<OpCase> real() { return {layer_norm_case(1, 600, 1152)}; }

constexpr OpTraits kOps[] = {
    {.op = &layer_norm_op,
     .tolerance = {1e-5, kRounding},  // a debug build sums in one chain, not in a vector's
     .emulated = emulated_launch<layer_norm_arguments>()},
    {.op = &layer_norm_grad_op,
     .tolerance = {4e-6, kRounding},
     .workspace = WorkspaceUse::all,
     .emulated = emulated_launch<layer_norm_grad_arguments>()},
};

}  // namespace

extern constinit const OpRecord layer_norm_record{kOps, small, large, real};

}  // namespace longshore::models
