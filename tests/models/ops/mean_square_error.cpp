#include "longshore/models/ops/mean_square_error.h"

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/gelu.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

OpCase mean_square_error_case(Shape shape) {
  return {.name = named("mean_square_error", text(Type{shape})),
          .trace =
              [=](Dtype dtype) {
                Trace trace("mean_square_error");
                Var x = trace.input("x", {shape, dtype});
                trace.output(mean_square_error(x, trace.input("target", {shape, dtype})),
                             OutputRole::loss);
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                return std::vector{plain::mean_square_error(in.at("x"), in.at("target"))};
              },
          .adjust = {}};
}

// The target is what the prediction was made from.
OpCase shared_mean_square_error_case(int64_t rows, int64_t c) {
  return {.name = named("mean_square_error, shared", rows, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_mean_square_error");
                Var x = trace.input("x", {{rows, c}, dtype});
                trace.output(mean_square_error(gelu(x), x), OutputRole::loss);
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor x = in.at("x");
                return std::vector{plain::mean_square_error(plain::gelu(x), x)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      mean_square_error_case({1, 1}),
      mean_square_error_case({2, 1, 3, 5}),
      shared_mean_square_error_case(3, 5),
  };
}

std::vector<OpCase> large() {
  return {
      mean_square_error_case({7}),
      mean_square_error_case({3, 111, 999}),
      shared_mean_square_error_case(33, 31),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &mean_square_error_op, .tolerance = {2e-7, 2e-7}, .workspace = WorkspaceUse::all},
    {.op = &mean_square_error_grad_op,
     .tolerance = {3e-7, kRounding},
     .workspace = WorkspaceUse::all},
};

}  // namespace

extern constinit const OpRecord mean_square_error_record{kOps, small, large};

}  // namespace longshore::models
