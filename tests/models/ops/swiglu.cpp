// Gated layers, by swiglu and by geglu.
#include "longshore/models/ops/swiglu.h"

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/elementwise/elementwise_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

struct Gated {
  const char* name;
  Var (*op)(Var gate, Var up);
  at::Tensor (*plain)(const at::Tensor& gate, const at::Tensor& up);
};
const Gated kSwiglu{"swiglu", swiglu, plain::swiglu};
const Gated kGeglu{"geglu", geglu, plain::geglu};

OpCase gated_case(const Gated& gated, int64_t b, int64_t t, int64_t c) {
  return {
      .name = named(gated.name, b, t, c),
      .trace =
          [=](Dtype dtype) {
            Trace trace(gated.name);
            Var gate = trace.input("gate", {{b, t, c}, dtype});
            trace.output(gated.op(gate, trace.input("up", {{b, t, c}, dtype})));
            return trace.finish();
          },
      .integers = {},
      .plain =
          [=](const Tensors& in) { return std::vector{gated.plain(in.at("gate"), in.at("up"))}; },
      .adjust = [](Tensors& in) { in.at("gate").mul_(4); }};
}

OpCase shared_gated_case(const Gated& gated, int64_t b, int64_t t, int64_t c) {
  return {
      .name = named((std::string(gated.name) + ", shared").c_str(), b, t, c),
      .trace =
          [=](Dtype dtype) {
            Trace trace(std::string("shared_") + gated.name);
            Var x = trace.input("x", {{b, t, c}, dtype});
            trace.output(gated.op(x, x));
            return trace.finish();
          },
      .integers = {},
      .plain = [=](const Tensors& in) { return std::vector{gated.plain(in.at("x"), in.at("x"))}; },
      .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      gated_case(kSwiglu, 1, 1, 1),        gated_case(kSwiglu, 2, 3, 5),
      shared_gated_case(kSwiglu, 1, 3, 5), gated_case(kGeglu, 1, 1, 1),
      gated_case(kGeglu, 2, 3, 5),         shared_gated_case(kGeglu, 1, 3, 5),
  };
}

std::vector<OpCase> large() {
  return {
      gated_case(kSwiglu, 1, 1, 1),         gated_case(kSwiglu, 1, 7, 1),
      gated_case(kSwiglu, 3, 111, 121),     shared_gated_case(kSwiglu, 1, 33, 31),
      gated_case(kGeglu, 1, 7, 1),          gated_case(kGeglu, 3, 111, 121),
      shared_gated_case(kGeglu, 1, 33, 31),
  };
}

std::vector<OpCase> real() {
  constexpr int64_t kTokens = 600;
  return {
      gated_case(kSwiglu, 1, kTokens, 14336),
      gated_case(kGeglu, 1, kTokens, 14336),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &swiglu_op,
     .tolerance = {5e-7, kRounding},
     .emulated = emulated_launch<arguments_of<Elementwise::swiglu>>()},
    {.op = &swiglu_grad_op,
     .tolerance = {2e-6, kRounding},
     .emulated = emulated_launch<arguments_of<Elementwise::swiglu_grad>>()},
    {.op = &geglu_op,
     .tolerance = {5e-7, kRounding},
     .emulated = emulated_launch<arguments_of<Elementwise::geglu>>()},
    {.op = &geglu_grad_op,
     .tolerance = {2e-6, kRounding},
     .emulated = emulated_launch<arguments_of<Elementwise::geglu_grad>>()},
};

}  // namespace

extern constinit const OpRecord swiglu_record{kOps, small, large, real};

}  // namespace longshore::models
