#include "longshore/models/ops/gelu.h"

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/elementwise/elementwise_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

// Numbers of order `scale`: with 4 the tails count, with 40 the exponential is 0 or infinite.
OpCase gelu_case(int64_t b, int64_t t, int64_t c, double scale) {
  return {.name = named("gelu", b, t, c, scale),
          .trace =
              [=](Dtype dtype) {
                Trace trace("gelu");
                trace.output(gelu(trace.input("x", {{b, t, c}, dtype})));
                return trace.finish();
              },
          .integers = {},
          .plain = [](const Tensors& in) { return std::vector{plain::gelu(in.at("x"))}; },
          .adjust = [=](Tensors& in) { in.at("x").mul_(scale); }};
}

std::vector<OpCase> small() {
  return {
      gelu_case(1, 1, 1, 1),
      gelu_case(2, 3, 5, 2),
  };
}

std::vector<OpCase> large() {
  return {
      gelu_case(1, 1, 7, 1),
      gelu_case(3, 111, 121, 4),
      gelu_case(1, 33, 31, 40),
  };
}

std::vector<OpCase> real() { return {gelu_case(1, 257, 4304, 3)}; }

constexpr OpTraits kOps[] = {
    {.op = &gelu_op,
     .tolerance = {5e-7, kRounding},
     .emulated = emulated_launch<arguments_of<Elementwise::gelu>>()},
    {.op = &gelu_grad_op,
     .tolerance = {1e-6, kRounding},
     .emulated = emulated_launch<arguments_of<Elementwise::gelu_grad>>()},
};

}  // namespace

extern constinit const OpRecord gelu_record{kOps, small, large, real};

}  // namespace longshore::models
