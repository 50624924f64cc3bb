// Which tokens have the same id, and that attention in segments of such ids is local to chunks.
#include "longshore/models/ops/chunk_ids.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <limits>

#include "longshore/base/error.h"
#include "longshore/models/ops/attention/attention.h"
#include "tests/models/harness.h"
#include "tests/models/plain.h"
#include "tests/models/random_inputs.h"

namespace longshore::models {
namespace {

constexpr Target kKernels[]{Target::cpu, Target::reference};

at::Tensor row(std::vector<int32_t> numbers) { return at::tensor(numbers, at::kInt).unsqueeze(0); }

at::Tensor ids(const at::Tensor& positions, const at::Tensor& segments, int64_t chunk,
               Target target) {
  Trace t("ids");
  const Type type = type_of(positions);
  std::optional<Var> segment_ids;
  if (segments.defined()) segment_ids = t.batch("segments", type);
  t.output(chunk_ids(t.batch("positions", type), segment_ids, chunk));
  Tensors in{{"positions", positions}};
  if (segments.defined()) in["segments"] = segments;
  return run_program(t.finish(), in, target).at("chunk_ids");
}

TEST(ChunkIds, CountFromEachDocumentsBeginning) {
  const at::Tensor positions = row({0, 1, 2, 3, 4, 0, 1, 2, 0, 0, 1}),
                   segments = row({1, 1, 1, 1, 1, 2, 2, 2, 3, 0, 0});
  for (Target target : kKernels) {
    EXPECT_TRUE(
        equal_bits(ids(positions, segments, 2, target), row({0, 0, 1, 1, 2, 3, 3, 4, 5, 6, 6})));
    EXPECT_TRUE(
        equal_bits(ids(positions, segments, 1000, target), row({0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 3})));
    // Rows that go on from an earlier place, of one document.
    EXPECT_TRUE(equal_bits(ids(row({6, 7, 8, 9}), {}, 4, target), row({0, 0, 1, 1})));
  }
}

TEST(ChunkIds, OfLargeNumbersAreSmall) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  for (Target target : kKernels)
    EXPECT_TRUE(equal_bits(
        ids(row({kMost - 1, kMost, 0, 1}), row({kMost, kMost, -kMost, -kMost}), 1, target),
        row({0, 1, 2, 3})));
}

// Two packed documents, and a row of one.
TEST(ChunkIds, MakeAttentionLocalToChunks) {
  constexpr int64_t kLength = 11, kChunk = 4;
  const at::Tensor positions = at::cat({row({0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4}),
                                        row({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})}),
                   segments = at::cat({row({7, 7, 7, 7, 7, 7, 2, 2, 2, 2, 2}),
                                       at::full({1, kLength}, 3, at::kInt)});
  at::Tensor visible = at::zeros({2, kLength, kLength}, at::kBool);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t query = 0; query < kLength; ++query)
      for (int64_t key = 0; key <= query; ++key) {
        auto chunk = [&](int64_t at) { return positions[b][at].item<int>() / kChunk; };
        visible[b][query][key] = chunk(query) == chunk(key) &&
                                 segments[b][query].item<int>() == segments[b][key].item<int>();
      }

  const AttentionOptions options{.head_dim = 8};
  Trace t("local");
  Var x = t.input("x", {{2, kLength, 16}, Dtype::float32});
  Var place = t.batch("positions", type_of(positions)), of = t.batch("segments", type_of(segments));
  t.output(attention(x, x, x, options, {.segments = chunk_ids(place, of, kChunk)}));
  const Program program = t.finish();
  const at::Tensor numbers = random_normal({{2, kLength, 16}}, 3);
  for (Target target : kKernels) {
    const Tensors in{{"x", numbers}, {"positions", positions}, {"segments", segments}};
    EXPECT_LT(difference(run_program(program, in, target).at("attention"),
                         plain::attention(numbers, numbers, numbers, options, visible)),
              1e-6);
  }
}

TEST(ChunkIds, RefuseWhatDoesNotFit) {
  Trace t("refused");
  Var positions = t.batch("positions", {{2, 4}, Dtype::int32});
  EXPECT_NO_THROW(chunk_ids(positions, std::nullopt, 1));
  EXPECT_THROW(chunk_ids(positions, std::nullopt, 0), InternalError);
  EXPECT_THROW(chunk_ids(positions, t.batch("segments", {{2, 5}, Dtype::int32}), 1), InternalError);
  EXPECT_THROW(chunk_ids(t.input("x", {{2, 4}, Dtype::float32}), std::nullopt, 1), InternalError);
}

}  // namespace
}  // namespace longshore::models
