#include "longshore/models/ir/split.h"

#include <gtest/gtest.h>

#include "longshore/base/error.h"
#include "tests/message_of.h"

namespace longshore::models {
namespace {

// Numbers of the tensor's elements that a part has, in their order, found index by index.
std::vector<int64_t> elements_of_part(const Shape& part, const Split& split, int64_t number) {
  const Shape whole = tensor_shape(part, split);
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < whole.count(); ++i) {
    int64_t after = 1;
    for (int d = split.dimension + 1; d < whole.rank(); ++d) after *= whole[d];
    const int64_t index = i / after % whole[split.dimension];
    if (index / part[split.dimension] == number) elements.push_back(i);
  }
  return elements;
}

// Every range, of parts and of the tensor.
TEST(Split, RunsAreTheElementsOfParts) {
  for (const Shape& part : {Shape{3}, Shape{2, 3}, Shape{3, 2, 2}, Shape{1, 2, 3, 2}})
    for (int dimension = 0; dimension < part.rank(); ++dimension)
      for (int64_t parts : {1, 2, 3}) {
        const Split split{.dimension = dimension, .parts = parts};
        SCOPED_TRACE(text(Type{part}) + " " + text(split));
        const SplitRuns runs(part, split);
        std::vector<std::pair<int64_t, int64_t>> at(tensor_shape(part, split).count());
        for (int64_t number = 0; number < parts; ++number) {
          const std::vector<int64_t> expected = elements_of_part(part, split, number);
          ASSERT_EQ(std::ssize(expected), runs.part_count());
          for (int64_t first = 0; first < part.count(); ++first) {
            at[expected[first]] = {number, first};
            for (int64_t count = 1; first + count <= part.count(); ++count) {
              std::vector<int64_t> found;
              for (const SplitRun& run : runs.of_part(number, first, count)) {
                EXPECT_EQ(run.part, number);
                EXPECT_EQ(run.in_part, first + std::ssize(found));
                for (int64_t i = 0; i < run.count; ++i) found.push_back(run.in_tensor + i);
              }
              EXPECT_TRUE(std::equal(found.begin(), found.end(), expected.begin() + first));
              EXPECT_EQ(std::ssize(found), count);
            }
          }
        }
        const int64_t all = std::ssize(at);
        for (int64_t first = 0; first < all; ++first)
          for (int64_t count = 1; first + count <= all; ++count) {
            int64_t found = first;
            for (const SplitRun& run : runs.of_tensor(first, count)) {
              EXPECT_EQ(run.in_tensor, found);
              for (int64_t i = 0; i < run.count; ++i)
                EXPECT_EQ(std::pair(run.part, run.in_part + i), at[found + i]);
              found += run.count;
            }
            EXPECT_EQ(found, first + count);
          }
      }
}

TEST(Split, RunsOfBlocksAreThoseOfTheirElements) {
  const Split split{.dimension = 1, .parts = 2};
  const std::vector<SplitRun> of_values = SplitRuns({3, 8}, split).of_part(1, 0, 24),
                              of_blocks = SplitRuns({3, 8}, split, 4).of_part(1, 0, 6);
  ASSERT_EQ(of_blocks.size(), of_values.size());
  for (size_t i = 0; i < of_values.size(); ++i) {
    EXPECT_EQ(of_blocks[i].in_tensor * 4, of_values[i].in_tensor);
    EXPECT_EQ(of_blocks[i].count * 4, of_values[i].count);
  }
  EXPECT_EQ(SplitRuns({3, 3}, std::nullopt, 4).part_count(), 3) << "the last is not full";
  EXPECT_EQ(message_of<InternalError>([&] {
              SplitRuns({3, 6}, split, 4);
            }),
            "found 6 elements in a row of a part, expected a multiple of 4");
}

}  // namespace
}  // namespace longshore::models
