#include "longshore/models/ops/dropout/dropout.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "longshore/base/philox.h"
#include "longshore/models/ops/constant.h"
#include "longshore/models/ops/dropout/dropout_kernels.h"
#include "longshore/models/ops/gelu.h"
#include "tests/models/op_records.h"
#include "tests/models/ops/case_parts.h"
#include "tests/models/ops/emulated.h"
#include "tests/models/plain.h"

namespace longshore::models {
namespace {

constexpr uint64_t kSeed = 0x123456789abcdef0;
constexpr double kLayer = 3;

// 0 or 1 / (1 - probability), by longshore/base/philox.h and the order that dropout_kernels.h
// describes.
at::Tensor mask(const std::vector<int32_t>& rows, int64_t row_size, double probability,
                uint32_t sequence) {
  const auto count = static_cast<int64_t>(rows.size());
  at::Tensor factors = at::zeros({count, row_size}, at::kDouble);
  auto* factor = factors.data_ptr<double>();
  for (int64_t row = 0; row < count; ++row)
    for (int64_t i = 0; i < row_size; ++i) {
      const auto block = static_cast<uint32_t>(i / 128 * 32 + i % 32);
      const PhiloxBlock words = philox(
          {block, static_cast<uint32_t>(rows[static_cast<size_t>(row)]),
           sequence + static_cast<uint32_t>(kLayer) * 0x9E3779B9u, uint32_t(RandomUse::dropout)},
          {static_cast<uint32_t>(kSeed), static_cast<uint32_t>(kSeed >> 32)});
      const double uniform = words[static_cast<size_t>(i % 128 / 32)] / 0x1p32;
      factor[row * row_size + i] = uniform < probability ? 0 : 1 / (1 - probability);
    }
  return factors;
}

OpCase dropout_case(std::vector<int32_t> rows, int64_t t, int64_t c, double probability) {
  const auto b = static_cast<int64_t>(rows.size());
  const uint32_t sequence = random_sequence("self_attn.q_proj");
  const DropoutOptions options{.probability = probability, .seed = kSeed, .sequence = sequence};
  return {.name = named("dropout", b, t, c, probability),
          .trace =
              [=](Dtype dtype) {
                Trace trace("dropout");
                Var x = trace.input("x", {{b, t, c}, dtype});
                Var numbers = trace.batch("row_numbers", ints({b}));
                Var layer = constant(trace, {{1}, Dtype::float32}, kLayer);
                trace.output(dropout(x, numbers, layer, options));
                trace.output(gelu(dropout(gelu(x), numbers, layer, options)));
                return trace.finish();
              },
          .integers = {{"row_numbers", at::tensor(rows, at::kInt)}},
          .plain =
              [=](const Tensors& in) {
                const at::Tensor x = in.at("x");
                const at::Tensor factors =
                    mask(rows, t * c, probability, sequence).view({b, t, c}).to(x.scalar_type());
                return std::vector{x * factors, plain::gelu(plain::gelu(x) * factors)};
              },
          .adjust = {}};
}

std::vector<OpCase> small() {
  return {dropout_case({0, 5}, 3, 5, 0.25), dropout_case({-7}, 2, 3, 0)};
}

std::vector<OpCase> large() {
  return {
      dropout_case({11, 12, 2147483647}, 33, 65, 0.1),
      dropout_case({40}, 257, 64, 0.5),
  };
}

constexpr OpTraits kOps[] = {{.op = &dropout_op,
                              .tolerance = {4e-7, kRounding},
                              .emulated = emulated_launch<dropout_arguments>()}};

}  // namespace

extern constinit const OpRecord dropout_record{kOps, small, large};

}  // namespace longshore::models
