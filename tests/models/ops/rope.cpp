#include "longshore/models/ops/rope/rope.h"

#include <ATen/ops/arange.h>

#include "longshore/models/ir/trace.h"
#include "longshore/models/ops/rope/rope_kernels.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

constexpr double kRopeBase = 100;

// Not simply 0, 1, 2 ...: packed documents start anew.
at::Tensor positions(int64_t b, int64_t t) {
  at::Tensor row = at::arange(t, at::kInt);
  return (row.unsqueeze(0) + 3 * at::arange(b, at::kInt).unsqueeze(1)).remainder(301).to(at::kInt);
}

struct Turn {
  const char* name = "rope";
  RopeScaling scaling = {};
  std::optional<RopeTemperature> temperature = {};
  RopePairs pairs = RopePairs::halves;
  int64_t divisor = 1;  // of a head, for the part that turns
};
const Turn kLinearRope{"rope, linear", LinearRopeScaling{3}};
// Frequencies of all three kinds from head_dim 6 on.
const Turn kLlama3Rope{"rope, llama3", Llama3RopeScaling{8, 1, 4, 64}};
const Turn kYarnRope{"rope, yarn", YarnRopeScaling{4, 64, 8, 1, true, 1.14}};
const Turn kTemperature{"rope, yarn with a temperature",
                        YarnRopeScaling{16, 12, 1.7, 0.5, false, 1}, RopeTemperature{0.1, 12}};
// As layers without RoPE have it.
const Turn kTemperatureAlone{"rope, a temperature alone", ProportionalRopeScaling{0, 1},
                             RopeTemperature{0.1, 8, 1}};
const Turn kProportional{"rope, proportional", ProportionalRopeScaling{0.25, 2}};
const Turn kPart{.name = "rope, of halves of heads", .divisor = 2};
const Turn kAdjacent{.name = "rope, adjacent", .pairs = RopePairs::adjacent};
const Turn kAdjacentPart{
    .name = "rope, adjacent, of halves", .pairs = RopePairs::adjacent, .divisor = 2};

OpCase rope_case(int64_t b, int64_t t, int64_t h, int64_t d, const Turn& turn = {}) {
  const int64_t rotary_dim = d / turn.divisor;
  const RopeOptions options{.head_dim = d, .pairs = turn.pairs};
  return {.name = named(turn.name, b, t, h, d),
          .trace =
              [=](Dtype dtype) {
                Trace trace("rope");
                RopeTable table = rope_table(trace.batch("positions", ints({b, t})), rotary_dim,
                                             kRopeBase, turn.scaling, turn.temperature);
                Var x = trace.input("x", {{b, t, h * d}, dtype});
                trace.output(rope(x, table, options));
                return trace.finish();
              },
          .integers = {{"positions", positions(b, t)}},
          .plain =
              [=](const Tensors& in) {
                at::Tensor x = in.at("x");
                const auto table =
                    plain::rope_table(in.at("positions"), rotary_dim, kRopeBase, x.scalar_type(),
                                      turn.scaling, turn.temperature);
                return std::vector{plain::rope(x, table, options)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      rope_case(1, 1, 1, 2),
      rope_case(2, 3, 2, 6),
      rope_case(2, 3, 2, 6, kLinearRope),
      rope_case(2, 3, 2, 6, kLlama3Rope),
      rope_case(2, 30, 1, 6, kYarnRope),
      rope_case(2, 30, 1, 6, kTemperature),
      rope_case(2, 3, 2, 16, kProportional),
      rope_case(2, 3, 2, 8, kPart),
      rope_case(2, 3, 2, 6, kAdjacent),
      rope_case(2, 3, 2, 12, kAdjacentPart),
  };
}

std::vector<OpCase> large() {
  return {
      rope_case(1, 1, 1, 2),
      rope_case(1, 37, 3, 64),
      rope_case(2, 300, 2, 80),
      rope_case(1, 5, 2, 10),
      rope_case(2, 300, 1, 64, kLinearRope),
      rope_case(2, 300, 1, 64, kLlama3Rope),
      rope_case(2, 300, 1, 64, kYarnRope),
      rope_case(2, 300, 1, 64, kTemperature),
      rope_case(2, 30, 1, 6, kTemperatureAlone),
      rope_case(1, 30, 2, 74, kProportional),
      rope_case(2, 300, 2, 64, kPart),
      rope_case(1, 37, 3, 24, kAdjacent),
      rope_case(1, 37, 3, 64, kAdjacent),
      rope_case(2, 30, 2, 64, kAdjacentPart),
  };
}

std::vector<OpCase> real() {
  constexpr int64_t kTokens = 600;
  return {
      rope_case(1, kTokens, 32, 128),
      rope_case(1, kTokens, 8, 64, kLlama3Rope),
      rope_case(1, kTokens, 8, 128, kTemperature),
      rope_case(1, kTokens, 32, 128, kAdjacentPart),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &rope_op, .tolerance = {3e-7, kRounding}, .emulated = emulated_launch<rope_arguments>()},
    {.op = &rope_table_op,
     .tolerance = {1e-7, 1e-7},
     .emulated = emulated_launch<rope_table_arguments>()},
};

}  // namespace

extern constinit const OpRecord rope_record{kOps, small, large, real};

}  // namespace longshore::models
