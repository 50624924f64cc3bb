#include "longshore/models/ops/scale.h"

#include <cmath>

#include "longshore/models/ir/trace.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"

namespace longshore::models {
namespace {

OpCase scale_case(int64_t b, int64_t t, int64_t c, Factor precision = Factor::in_dtype_of_x) {
  double factor = std::sqrt(static_cast<double>(c));
  return {.name = named("scale", b, t, c, static_cast<int>(precision)),
          .trace =
              [=](Dtype dtype) {
                Trace trace("scale");
                trace.output(scale(trace.input("x", {{b, t, c}, dtype}), factor, precision));
                return trace.finish();
              },
          .integers = {},
          .plain = [=](const Tensors& in) { return std::vector{in.at("x") * factor}; },
          .adjust = {}};
}

constexpr Weight kFixed{.trainable = Trainable::no, .never_trains = true};

OpCase scale_by_case(int64_t b, int64_t t, int64_t c) {
  return {.name = named("scale_by", b, t, c),
          .trace =
              [=](Dtype dtype) {
                Trace trace("scale_by");
                Var x = trace.input("x", {{b, t, c}, dtype});
                trace.output(scale_by(x, trace.weight("factor", {{1}, dtype}, kFixed)));
                return trace.finish();
              },
          .integers = {},
          .plain = [](const Tensors& in) { return std::vector{in.at("x") * in.at("factor")}; },
          .adjust = {}};
}

std::vector<OpCase> small() { return {scale_case(2, 3, 5), scale_by_case(2, 3, 5)}; }

std::vector<OpCase> large() {
  return {
      scale_case(1, 7, 1),
      scale_case(3, 111, 121),
      scale_case(3, 111, 121, Factor::in_float32),
      scale_by_case(3, 111, 121),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &scale_op, .tolerance = {2e-7, kRounding}},
    {.op = &scale_by_op, .tolerance = {2e-7, kRounding}},
};

}  // namespace

extern constinit const OpRecord scale_record{kOps, small, large};

}  // namespace longshore::models
