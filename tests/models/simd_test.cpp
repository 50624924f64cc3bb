#include "longshore/models/ops/kernels/simd.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace longshore::models {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

LONGSHORE_SIMD void tanh_range(const float* x, float* y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) y[i] = tanh_fast(x[i]);
}

std::vector<float> tanh_of(const std::vector<float>& x) {
  std::vector<float> y(x.size());
  tanh_range(x.data(), y.data(), std::ssize(x));
  return y;
}

// Every 997th float from 0 up, so that all binades are met.
std::vector<float> floats() {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < std::bit_cast<uint32_t>(kInfinity); bits += 997)
    x.push_back(std::bit_cast<float>(bits));
  return x;
}

TEST(TanhFast, IsAsCloseAsStated) {
  std::vector<float> x = floats(), y = tanh_of(x);
  double worst = 0;
  float worst_at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_LE(y[i], 1.f) << x[i];
    double expected = std::tanh(static_cast<double>(x[i]));
    double error = expected == 0 ? std::abs(y[i]) : std::abs(y[i] - expected) / expected;
    if (!(error <= worst)) worst = error, worst_at = x[i];
  }
  EXPECT_LT(worst, 2e-7) << "at " << worst_at;
  std::cout << "largest relative error " << worst << "\n";
}

TEST(TanhFast, IsOddToTheBit) {
  std::vector<float> x = floats(), negated = x;
  for (float& value : negated) value = -value;
  std::vector<float> y = tanh_of(x), y_negated = tanh_of(negated);
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(y_negated[i]), std::bit_cast<uint32_t>(-y[i])) << x[i];
}

TEST(TanhFast, IsOneBeyondItsRangeAndKeepsNan) {
  std::vector<float> y = tanh_of({kInfinity, -kInfinity, kNan, 20.f, 100.f});
  EXPECT_EQ(y[0], 1.f);
  EXPECT_EQ(y[1], -1.f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 1.f);
  EXPECT_EQ(y[4], 1.f);
}

}  // namespace
}  // namespace longshore::models
