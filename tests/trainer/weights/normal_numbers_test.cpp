#include "longshore/trainer/weights/normal_numbers.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numbers>
#include <vector>

#include "longshore/base/philox.h"

namespace longshore::trainer {
namespace {

constexpr uint64_t kSeed = 7;
constexpr uint32_t kSequence = 99;

std::vector<float> numbers(int64_t first, size_t count, double deviation = 0.02) {
  std::vector<float> values(count);
  normal_numbers(kSeed, kSequence, first, deviation, values);
  return values;
}

TEST(NormalNumbers, AreBoxAndMullersByTheMathsLibrary) {
  const int64_t blocks = 1 << 16;
  const std::vector<float> found = numbers(0, 4 * blocks);
  for (int64_t block = 0; block < blocks; ++block) {
    const PhiloxBlock random = philox(kSeed, RandomUse::initial_weights, kSequence, block);
    for (int pair = 0; pair < 2; ++pair) {
      const double u = (random[2 * pair] + 0.5) / 4294967296.0;
      const double turn = (random[2 * pair + 1] + 0.5) / 4294967296.0;
      const double radius = 0.02 * std::sqrt(-2 * std::log(u));
      const double angle = 2 * std::numbers::pi * turn;
      const int64_t at = 4 * block + 2 * pair;
      ASSERT_FLOAT_EQ(found[at], static_cast<float>(radius * std::cos(angle))) << at;
      ASSERT_FLOAT_EQ(found[at + 1], static_cast<float>(radius * std::sin(angle))) << at;
    }
  }
}

// A hash (FNV-1a) of their bits: processors of all instruction sets and builds of all kinds agree.
TEST(NormalNumbers, HaveTheSameBitsEverywhere) {
  uint32_t hash = 2166136261u;
  for (float number : numbers(0, 1 << 20))
    hash = (hash ^ std::bit_cast<uint32_t>(number)) * 16777619u;
  EXPECT_EQ(hash, 0x642b560cu);
}

TEST(NormalNumbers, AnyPartIsThatOfTheWhole) {
  const std::vector<float> whole = numbers(0, 1500);
  for (int64_t first : {0, 1, 2, 3, 4, 255, 256, 257, 1000})
    for (size_t count : {0, 1, 3, 4, 255, 256, 257, 500}) {
      const std::vector<float> part = numbers(first, count);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first))
          << first << " " << count;
    }
}

}  // namespace
}  // namespace longshore::trainer
