#include "longshore/data/rows/mixture.h"

#include <gtest/gtest.h>

#include <random>

#include "longshore/base/error.h"

namespace longshore::data {
namespace {

// Every row of every source once and in order, and each prefix in proportion.
void expect_even(const std::vector<uint64_t>& shares, int64_t rows) {
  const Mixture mixture(shares);
  double sum = 0;
  for (uint64_t share : shares) sum += static_cast<double>(share);
  std::vector<int64_t> taken(shares.size());
  for (int64_t row = 0; row < rows; ++row) {
    const Mixture::Place place = mixture(row);
    ASSERT_LT(place.source, shares.size());
    ASSERT_EQ(place.row, taken[place.source]++) << row;
    for (size_t i = 0; i < shares.size(); ++i)
      ASSERT_NEAR(taken[i], static_cast<double>(row + 1) * static_cast<double>(shares[i]) / sum,
                  static_cast<double>(shares.size()))
          << row;
  }
}

TEST(Mixture, KeepsSharesInEveryPrefix) {
  for (const std::vector<uint64_t>& shares :
       std::vector<std::vector<uint64_t>>{{1},
                                          {1, 1},
                                          {7, 3},
                                          {3, 7},
                                          {1, 1000},
                                          {1000, 1},
                                          {5, 4, 3, 2, 1},
                                          {uint64_t{1} << 61, 1}})
    expect_even(shares, 3000);
}

TEST(Mixture, IsExactAfterAllShares) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<uint64_t> shares(1 + random() % 6);
    int64_t sum = 0;
    for (uint64_t& share : shares) sum += static_cast<int64_t>(share = 1 + random() % 50);
    const Mixture mixture(shares);
    std::vector<uint64_t> taken(shares.size());
    for (int64_t row = 7 * sum; row < 8 * sum; ++row) {
      const Mixture::Place place = mixture(row);
      EXPECT_EQ(place.row / static_cast<int64_t>(shares[place.source]), 7);
      ++taken[place.source];
    }
    EXPECT_EQ(taken, shares);
  }
}

TEST(Mixture, IsExactFarOut) {
  const Mixture mixture({3, 1});
  const int64_t far = int64_t{1} << 60;
  std::vector<int64_t> last(2, -1);
  for (int64_t row = far; row < far + 1000; ++row) {
    const Mixture::Place place = mixture(row);
    if (last[place.source] >= 0) {
      EXPECT_EQ(place.row, last[place.source] + 1);
    }
    last[place.source] = place.row;
  }
  EXPECT_EQ(last[0] + last[1] + 2, far + 1000);
}

TEST(Mixture, RefusesNoSharesAZeroShareAndSumsThatOverflow) {
  EXPECT_THROW(Mixture({}), InternalError);
  EXPECT_THROW(Mixture({1, 0}), InternalError);
  EXPECT_THROW(Mixture({UINT64_MAX, 1}), InternalError);
}

}  // namespace
}  // namespace longshore::data
