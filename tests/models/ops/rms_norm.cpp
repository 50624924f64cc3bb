#include "longshore/models/ops/rms_norm/rms_norm.h"

#include <ATen/ops/ones.h>

#include "longshore/models/ir/add.h"
#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/constant.h"
#include "longshore/models/ops/rms_norm/rms_norm_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

constexpr double kEpsilon = 1e-5;

OpCase rms_norm_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("rms_norm", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("rms_norm");
                Var x = trace.input("x", {{b, t, c}, dtype});
                trace.output(rms_norm(x, trace.weight("w", {{c}, dtype}, kTrained), kEpsilon));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                return std::vector{plain::rms_norm(in.at("x"), in.at("w"), kEpsilon)};
              },
          .adjust = {}};
}

// A norm that only divides: its weight is a constant.
OpCase unweighted_rms_norm_case(int64_t b, int64_t t, int64_t h, int64_t d) {
  return {.name = named("rms_norm, unweighted", b, t, h, d),
          .trace =
              [=](Dtype dtype) {
                Trace trace("unweighted_rms_norm");
                Var x = trace.input("x", {{b, t, h * d}, dtype});
                trace.output(rms_norm(x, constant(trace, {{d}, dtype}, 1), kEpsilon));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [=](const Tensors& in) {
                at::Tensor x = in.at("x");
                return std::vector{plain::rms_norm(x, at::ones({d}, x.options()), kEpsilon)};
              },
          .adjust = {}};
}

// Residual connection around a norm; the norm's weight is used twice.
OpCase shared_rms_norm_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("rms_norm, shared", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_rms_norm");
                Var x = trace.input("x", {{b, t, c}, dtype});
                Var w = trace.weight("w", {{c}, dtype}, kTrained);
                Var sum = add(x, rms_norm(x, w, kEpsilon));
                trace.output(add(sum, rms_norm(sum, w, kEpsilon)));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor x = in.at("x"), w = in.at("w");
                at::Tensor sum = x + plain::rms_norm(x, w, kEpsilon);
                return std::vector{sum + plain::rms_norm(sum, w, kEpsilon)};
              },
          .adjust = {}};
}

// The heads of x are normalised by one weight and its whole rows by another, which is added to 1;
// the heads' weight is used both ways.
OpCase heads_rms_norm_case(int64_t b, int64_t t, int64_t h, int64_t d) {
  return {.name = named("rms_norm, heads", b, t, h, d),
          .trace =
              [=](Dtype dtype) {
                Trace trace("heads_rms_norm");
                Var x = trace.input("x", {{b, t, h * d}, dtype});
                Var heads = trace.weight("heads", {{d}, dtype}, kTrained);
                Var whole = trace.weight("whole", {{h * d}, dtype}, kTrained);
                Var sum = add(x, rms_norm(x, heads, kEpsilon));
                Var y = rms_norm(sum, whole, kEpsilon, {.weight_offset = 1});
                trace.output(add(sum, y));
                trace.output(rms_norm(y, heads, kEpsilon, {.weight_offset = 0.5}));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [](const Tensors& in) {
                at::Tensor x = in.at("x"), heads = in.at("heads");
                at::Tensor sum = x + plain::rms_norm(x, heads, kEpsilon);
                at::Tensor y = plain::rms_norm(sum, in.at("whole"), kEpsilon, 1);
                return std::vector{sum + y, plain::rms_norm(y, heads, kEpsilon, 0.5)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      rms_norm_case(1, 1, 1),
      rms_norm_case(2, 3, 5),
      shared_rms_norm_case(2, 2, 7),
      heads_rms_norm_case(2, 2, 3, 5),
      unweighted_rms_norm_case(2, 2, 3, 5),
  };
}

std::vector<OpCase> large() {
  return {
      rms_norm_case(1, 1, 5),
      rms_norm_case(1, 3, 33),
      rms_norm_case(2, 257, 320),
      rms_norm_case(1, 1, 4097),
      rms_norm_case(1, 3, 1024),
      rms_norm_case(1, 2, 12288),  // beyond what a GPU's block can hold
      shared_rms_norm_case(3, 41, 100),
      heads_rms_norm_case(1, 1, 3, 7),
      heads_rms_norm_case(2, 67, 6, 40),
      heads_rms_norm_case(1, 33, 4, 128),
      unweighted_rms_norm_case(2, 33, 4, 128),
  };
}

std::vector<OpCase> real() {
  constexpr int64_t kTokens = 600;
  return {
      rms_norm_case(1, kTokens, 4096),          rms_norm_case(1, kTokens, 8192),
      heads_rms_norm_case(1, kTokens, 32, 128), heads_rms_norm_case(1, kTokens, 8, 256),
      heads_rms_norm_case(1, kTokens, 16, 64),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &rms_norm_op,
     .tolerance = {2e-6, kRounding},
     .emulated = emulated_launch<rms_norm_arguments>()},
    {.op = &rms_norm_grad_op,
     .tolerance = {2e-6, kRounding},
     .workspace = WorkspaceUse::all,
     .emulated = emulated_launch<rms_norm_grad_arguments>()},
    {.op = &constant_op, .tolerance = {}},
};

}  // namespace

extern constinit const OpRecord rms_norm_record{kOps, small, large, real};

}  // namespace longshore::models
