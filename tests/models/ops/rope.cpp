#include "models/ops/rope/rope.h"

#include <ATen/ops/arange.h>

#include "models/ir/trace.h"
#include "models/ops/rope/rope_kernels.h"
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

struct NamedScaling {
  const char* name;
  RopeScaling scaling;
};
const NamedScaling kPlainRope{"rope", {}};
const NamedScaling kLinearRope{"rope, linear", LinearRopeScaling{3}};
// Frequencies of all three kinds from head_dim 6 on.
const NamedScaling kLlama3Rope{"rope, llama3", Llama3RopeScaling{8, 1, 4, 64}};

OpCase rope_case(int64_t b, int64_t t, int64_t h, int64_t d,
                 const NamedScaling& scaling = kPlainRope) {
  return {
      .name = named(scaling.name, b, t, h, d),
      .trace =
          [=](Dtype dtype) {
            Trace trace("rope");
            RopeTable table =
                rope_table(trace.batch("positions", ints({b, t})), d, kRopeBase, scaling.scaling);
            Var x = trace.input("x", {{b, t, h * d}, dtype});
            trace.output(rope(x, table));
            return trace.finish();
          },
      .integers = {{"positions", positions(b, t)}},
      .plain =
          [=](const Tensors& in) {
            at::Tensor x = in.at("x");
            return std::vector{plain::rope(x, plain::rope_table(in.at("positions"), d, kRopeBase,
                                                                x.scalar_type(), scaling.scaling))};
          },
      .adjust = {}};
}

std::vector<OpCase> small() {
  return {
      rope_case(1, 1, 1, 2),
      rope_case(2, 3, 2, 6),
      rope_case(2, 3, 2, 6, kLinearRope),
      rope_case(2, 3, 2, 6, kLlama3Rope),
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
  };
}

std::vector<OpCase> real() {
  constexpr int64_t kTokens = 600;
  return {
      rope_case(1, kTokens, 32, 128),
      rope_case(1, kTokens, 8, 64, kLlama3Rope),
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
