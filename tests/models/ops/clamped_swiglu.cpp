// Gates and ups on both sides of the limit.
#include "longshore/models/ops/clamped_swiglu.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/sigmoid.h>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/elementwise/elementwise_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"

namespace longshore::models {
namespace {

constexpr ClampedSwigluOptions kOptions{.alpha = 1.702, .limit = 7};
constexpr ClampedSwigluOptions kTight{.alpha = 0.5, .limit = 0.75};

at::Tensor plain_value(const at::Tensor& gate, const at::Tensor& up,
                       const ClampedSwigluOptions& options) {
  const at::Tensor g = at::clamp_max(gate, options.limit);
  const at::Tensor u = at::clamp(up, -options.limit, options.limit);
  return (u + 1) * (g * at::sigmoid(g * options.alpha));
}

// Finite differences need numbers that no step takes over the limit.
void step_away(at::Tensor& x, double limit) {
  x.masked_fill_((x.abs() - limit).abs().lt(limit / 50), limit / 2);
}

OpCase clamped_case(int64_t b, int64_t t, int64_t c, const ClampedSwigluOptions& options) {
  return {.name = named("clamped_swiglu", b, t, c, options.limit),
          .trace =
              [=](Dtype dtype) {
                Trace trace("clamped_swiglu");
                Var gate = trace.input("gate", {{b, t, c}, dtype});
                trace.output(clamped_swiglu(gate, trace.input("up", {{b, t, c}, dtype}), options));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [=](const Tensors& in) {
                return std::vector{plain_value(in.at("gate"), in.at("up"), options)};
              },
          .adjust =
              [=](Tensors& in) {
                step_away(in.at("gate").mul_(4), options.limit);
                step_away(in.at("up").mul_(4), options.limit);
              }};
}

OpCase shared_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("clamped_swiglu, shared", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("shared_clamped_swiglu");
                Var x = trace.input("x", {{b, t, c}, dtype});
                trace.output(clamped_swiglu(x, x, kTight));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [=](const Tensors& in) {
                return std::vector{plain_value(in.at("x"), in.at("x"), kTight)};
              },
          .adjust = [](Tensors& in) { step_away(in.at("x"), kTight.limit); }};
}

std::vector<OpCase> small() {
  return {
      clamped_case(1, 1, 1, kOptions),
      clamped_case(2, 3, 5, kOptions),
      clamped_case(2, 3, 7, kTight),
      shared_case(1, 3, 5),
  };
}

std::vector<OpCase> large() {
  return {
      clamped_case(1, 7, 1, kOptions),
      clamped_case(3, 111, 121, kOptions),
      clamped_case(3, 111, 121, kTight),
      shared_case(1, 33, 31),
  };
}

std::vector<OpCase> real() { return {clamped_case(1, 600, 2880, kOptions)}; }

constexpr OpTraits kOps[] = {
    {.op = &clamped_swiglu_op,
     .tolerance = {5e-7, kRounding},
     .emulated = emulated_launch<clamped_swiglu_arguments>()},
    {.op = &clamped_swiglu_grad_op,
     .tolerance = {2e-6, kRounding},
     .emulated = emulated_launch<clamped_swiglu_grad_arguments>()},
};

}  // namespace

extern constinit const OpRecord clamped_swiglu_record{kOps, small, large, real};

}  // namespace longshore::models
