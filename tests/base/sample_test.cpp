#include "longshore/base/sample.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace longshore {
namespace {

TEST(Sample, HasAllValuesWhileThereAreFew) {
  Sample<int> sample(4);
  EXPECT_TRUE(sample.values().empty());
  for (int value : {7, 5, 6, 4}) sample.add(value);
  EXPECT_EQ(std::vector(sample.values().begin(), sample.values().end()), (std::vector{7, 5, 6, 4}));
}

// The mean of a fair sample of 0 to 999,999 is off by a standard error of 289,000 / sqrt(1,000).
TEST(Sample, IsFairWhereThereAreMany) {
  Sample<double> sample(1000);
  const double* const place = sample.values().data();
  for (int value = 0; value < 1'000'000; ++value) sample.add(value);
  EXPECT_EQ(sample.count(), 1'000'000);
  ASSERT_EQ(sample.values().size(), 1000u);
  EXPECT_EQ(sample.values().data(), place);
  const double mean = std::accumulate(sample.values().begin(), sample.values().end(), 0.0) / 1000;
  EXPECT_NEAR(mean, 499'999.5, 5 * 289'000 / 31.6);
}

}  // namespace
}  // namespace longshore
