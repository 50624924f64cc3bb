#include "longshore/models/ops/dora/dora.h"

#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>

#include "longshore/models/ops/gelu.h"
#include "longshore/models/ops/linear/linear.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

constexpr double kScale = 0.75;

// Of x W^T, with magnitudes that train and norms of matrices of which A and B do.
OpCase dora_case(int64_t b, int64_t t, int64_t in, int64_t rank, int64_t out) {
  return {.name = named("dora", b, t, in, rank, out),
          .trace =
              [=](Dtype dtype) {
                Trace trace("dora");
                Var x = trace.input("x", {{b, t, in}, dtype});
                Var w = trace.weight("w", {{out, in}, dtype}, kTrained);
                Var lora_a = trace.weight("a", {{rank, in}, dtype}, kTrained);
                Var lora_b = trace.weight("b", {{out, rank}, dtype}, kTrained);
                Var m = trace.weight("m", {{out}, dtype}, kTrained);
                Var y = linear(linear(x, lora_a), lora_b, linear(x, w));
                Var scaled = scale_columns(y, m, adapted_norms(w, lora_a, lora_b, kScale));
                trace.output(scaled);
                trace.output(gelu(scaled));
                return trace.finish();
              },
          .integers = {},
          .plain =
              [=](const Tensors& in) {
                const at::Tensor w = in.at("w"), lora_a = in.at("a"), lora_b = in.at("b");
                const at::Tensor y = at::matmul(in.at("x"), (w + at::matmul(lora_b, lora_a)).t());
                const at::Tensor v = (w + kScale * at::matmul(lora_b, lora_a)).detach();
                at::Tensor scaled = y * (in.at("m") / at::linalg_vector_norm(v, 2, {{1}}));
                return std::vector{scaled, plain::gelu(scaled)};
              },
          .adjust = {}};
}

std::vector<OpCase> large() {
  return {
      dora_case(2, 3, 5, 2, 4),
      dora_case(3, 50, 65, 4, 33),
  };
}

constexpr OpTraits kOps[] = {
    {.op = &adapted_norms_op, .tolerance = {2e-6, 1e-5}},
    {.op = &scale_columns_op, .tolerance = {4e-7, kRounding}},
    {.op = &scale_columns_grad_op, .tolerance = {5e-6, 5e-6}},
};

}  // namespace

extern constinit const OpRecord dora_record{kOps, nullptr, large};  // differences know no constants

}  // namespace longshore::models
