#include "longshore/data/rows/permutation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "longshore/base/error.h"

namespace longshore::data {
namespace {

std::vector<uint64_t> whole_order(uint64_t size, uint64_t seed, uint64_t epoch) {
  const Permutation order(size, seed, epoch);
  std::vector<uint64_t> elements(size);
  for (uint64_t i = 0; i < size; ++i) elements[i] = order(i);
  return elements;
}

TEST(Permutation, IsABijectionForEverySize) {
  for (uint64_t size = 1; size <= 300; ++size)
    for (uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      std::vector<char> seen(size);
      for (uint64_t element : whole_order(size, seed, size % 3)) {
        ASSERT_LT(element, size);
        ASSERT_FALSE(seen[element]++) << element << " twice among " << size;
      }
    }
}

TEST(Permutation, IsABijectionAroundPowersOfTwo) {
  for (uint64_t size : {4095u, 4096u, 4097u, 65535u, 65536u, 65537u, 100003u}) {
    std::vector<char> seen(size);
    for (uint64_t element : whole_order(size, 7, 1)) {
      ASSERT_LT(element, size);
      ASSERT_FALSE(seen[element]++);
    }
  }
}

TEST(Permutation, StaysInRangeWhenTheSizeIsLarge) {
  for (uint64_t size : {(uint64_t{1} << 40) + 1, uint64_t{1} << 62}) {
    const Permutation order(size, 3, 9);
    for (uint64_t i = 0; i < 1000; ++i) {
      EXPECT_LT(order(i), size);
      EXPECT_LT(order(size - 1 - i), size);
    }
  }
}

TEST(Permutation, SeedAndEpochEachGiveAnotherOrder) {
  const auto order = whole_order(1000, 5, 0);
  EXPECT_EQ(order, whole_order(1000, 5, 0));
  for (const auto& other : {whole_order(1000, 6, 0), whole_order(1000, 5, 1)}) {
    int same_place = 0;
    for (size_t i = 0; i < order.size(); ++i) same_place += order[i] == other[i];
    EXPECT_LT(same_place, 10);  // 1 is expected of two random orders
  }
}

// Over many epochs each element comes to each place equally often.
TEST(Permutation, IsEvenOverEpochs) {
  for (uint64_t size : {2u, 3u, 5u, 10u}) {
    const int epochs = 4000;
    std::vector<std::vector<int>> counts(size, std::vector<int>(size));
    for (int epoch = 0; epoch < epochs; ++epoch) {
      const auto order = whole_order(size, 11, static_cast<uint64_t>(epoch));
      for (size_t place = 0; place < size; ++place) ++counts[place][order[place]];
    }
    const double expected = static_cast<double>(epochs) / static_cast<double>(size);
    for (const auto& row : counts)
      for (int count : row) EXPECT_NEAR(count, expected, 5 * std::sqrt(expected)) << size;
  }
}

TEST(Permutation, RefusesWhatIsOutOfRange) {
  EXPECT_THROW(Permutation(0, 0, 0), InternalError);
  EXPECT_THROW(Permutation(1, 0, uint64_t{1} << 32), InternalError);
  EXPECT_THROW(Permutation(10, 0, 0)(10), InternalError);
}

}  // namespace
}  // namespace longshore::data
