// Stochastic rounding and the 8-bit moments' codes, number by number.
#include "longshore/models/ops/kernels/stochastic_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "longshore/models/ops/kernels/block8.h"

namespace longshore::models {
namespace {

TEST(RoundingBits, AreThoseOfPhilox) {
  const RoundingStream stream{0xfedcba9876543210, 0x87654321, 0x7fffffff};
  for (int64_t first : {int64_t{0}, int64_t{320}, kMaxRounded - RoundingBits::kCount}) {
    RoundingBits bits;
    draw_rounding_bits(stream, first, bits);
    for (int64_t i = 0; i < RoundingBits::kCount; ++i) {
      int64_t element = first + i, lane = element % 32, half = element / 32 % 2;
      uint64_t pair = element / 64 * 32 + lane;
      PhiloxBlock words = philox(stream.seed, RandomUse::rounding, stream.sequence,
                                 uint64_t{stream.step} << 32 | pair);
      uint32_t a = words[2 * half], b = words[2 * half + 1];
      ASSERT_EQ(bits.weight[i], a & 0xffff) << element;
      ASSERT_EQ(bits.states[0][i], a >> 16 | (b & 0xf) << 16) << element;
      ASSERT_EQ(bits.states[1][i], b >> 12) << element;
    }
  }
}

float rounded(float value, uint32_t random) {
  bfloat16 result;
  store_stochastically(result, value, random);
  return load(result);
}

TEST(StochasticRounding, KeepsWhatBfloat16Holds) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = load(bfloat16{static_cast<uint16_t>(bits)});
    for (uint32_t random : {0u, 0x8000u, 0xffffu}) {
      float found = rounded(value, random);
      if (std::isnan(value))
        ASSERT_TRUE(std::isnan(found)) << bits;
      else
        ASSERT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(value)) << bits;
    }
  }
  // NaNs whose set bits bfloat16 lacks.
  for (uint32_t nan : {0x7f800001u, 0xff80ffffu, 0x7fffffffu})
    EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(nan), 0xffff)));
}

// Over all random numbers there are, the mean is the value exactly.
TEST(StochasticRounding, IsUnbiased) {
  const float largest = load(bfloat16{0x7f7f});
  for (float value : {1.00001f, -1.00001f, 0.3f, std::nextafter(2.f, 0.f), -3.1415927f, 1e-41f,
                      -0x1p-149f, std::nextafter(0x1p-126f, 0.f), std::nextafter(largest, 0.f)}) {
    double sum = 0;
    float least = std::numeric_limits<float>::infinity(), most = -least;
    for (uint32_t random = 0; random < 0x10000; ++random) {
      float found = rounded(value, random);
      sum += found;
      least = std::min(least, found);
      most = std::max(most, found);
    }
    EXPECT_EQ(sum / 0x10000, value);
    EXPECT_LT(least, value);
    EXPECT_GT(most, value);
    EXPECT_LE(most, largest);
  }
}

// --- 8-bit moments

template <class Moment>
float value_of(int code) {
  return Moment::decode(code);
}

template <class Moment>
void expect_codes(int magnitudes, float least) {
  EXPECT_EQ(value_of<Moment>(0), 0);
  EXPECT_EQ(value_of<Moment>(1), least);
  EXPECT_EQ(value_of<Moment>(magnitudes - 1), 1.875f);
  constexpr uint32_t kMaxRandom = (1u << kBlock8DroppedBits) - 1;
  for (int code = 0; code < magnitudes; ++code) {
    float value = value_of<Moment>(code);
    if (code > 0) {
      ASSERT_GT(value, value_of<Moment>(code - 1)) << code;
    }
    if (code > 16) {
      ASSERT_LE(value / value_of<Moment>(code - 1), 1.125f) << code;
    }
    for (uint32_t random : {0u, kMaxRandom}) ASSERT_EQ(Moment::encode(value, 1, random), code);
  }
}

TEST(Block8, EveryCodeIsAnotherNumberAndKeepsIt) {
  expect_codes<FirstMoment8>(128, 0x1p-17f);
  expect_codes<SecondMoment8>(256, 0x1p-33f);
  for (uint32_t code = 0; code < 128; ++code) {
    EXPECT_EQ(FirstMoment8::decode(code | 0x80), -FirstMoment8::decode(code));
    EXPECT_EQ(FirstMoment8::encode(-FirstMoment8::decode(code), 1, 12345), code | 0x80);
  }
}

// What GPUs compute against what CPUs do.
template <class Magnitude>
void expect_the_same_by_subnormals(uint32_t codes) {
  for (uint32_t code = 0; code < codes; ++code)
    ASSERT_EQ(Magnitude::decode_by_subnormals(code), Magnitude::decode(code)) << code;
  const uint32_t largest = std::bit_cast<uint32_t>(1.875f);
  for (uint32_t bits = 0, random = 0; bits <= largest; bits += 997, random += 0x9e3779b9) {
    const auto magnitude = std::bit_cast<float>(bits);
    const uint32_t drawn = random >> (32 - kBlock8DroppedBits);
    ASSERT_EQ(Magnitude::encode_by_subnormals(magnitude, drawn),
              Magnitude::encode(magnitude, drawn))
        << magnitude << " " << drawn;
  }
}

TEST(Block8, IsTheSameBySubnormalNumbers) {
  expect_the_same_by_subnormals<FirstMoment8::Magnitude>(128);
  expect_the_same_by_subnormals<SecondMoment8::Magnitude>(256);
}

// The mean over random numbers that are spread evenly.
template <class Moment>
double mean_code_value(float value) {
  constexpr int kDraws = 4096, kStride = (1 << kBlock8DroppedBits) / kDraws;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i)
    sum += Moment::decode(Moment::encode(value, 1, i * kStride + kStride / 2));
  return sum / kDraws;
}

TEST(Block8, RoundsWithoutBias) {
  for (float value = 1.87f; value > 0x1p-20f; value *= 0.917f) {
    double gap = std::max(std::ldexp(1., std::ilogb(value) - 3), 0x1p-17);
    ASSERT_NEAR(mean_code_value<FirstMoment8>(value), value, gap / 2048);
    ASSERT_NEAR(mean_code_value<FirstMoment8>(-value), -value, gap / 2048);
  }
  for (float value = 1.87f; value > 0x1p-33f; value *= 0.917f)
    ASSERT_NEAR(mean_code_value<SecondMoment8>(value), value,
                std::max(std::ldexp(1., std::ilogb(value) - 3), 0x1p-33) / 2048);
}

TEST(Block8, ASecondMomentAboveZeroIsNeverZero) {
  for (float value : {0x1p-34f, 0x1p-60f, 1e-40f, 0x1p-149f})
    EXPECT_EQ(SecondMoment8::encode(value, 1, 0), 1u) << value;
  EXPECT_EQ(SecondMoment8::encode(0, 1, 0xfffff), 0u);
}

TEST(Block8, TheScaleIsTheLeastPowerOfTwoThatHoldsTheLargest) {
  auto scale_of = [](float largest) { return block8_scale(std::bit_cast<uint32_t>(largest)); };
  for (float largest : {1.f, 1.5f, 1.875f, std::nextafter(1.875f, 2.f), 1.99f, 1e-20f, 3e38f}) {
    float scale = scale_of(largest);
    int exponent;
    EXPECT_EQ(std::frexp(scale, &exponent), 0.5f);
    EXPECT_GE(1.875f * scale, largest);
    EXPECT_LT(1.875f * (scale / 2), largest);
  }
  EXPECT_EQ(scale_of(0), 0);
  for (float tiny : {0x1p-149f, 1e-40f, 1e-37f}) {
    EXPECT_EQ(scale_of(tiny), kBlock8LeastScale);
    EXPECT_GT(SecondMoment8::decode(1) * scale_of(tiny), 0);
  }
  for (float large : {std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()})
    EXPECT_TRUE(std::isnan(scale_of(large)));
}

// Every block has a scale of its own: what one holds does not coarsen another.
TEST(Block8, EncodesRelativeToTheBlock) {
  for (float unit : {1e-30f, 1e-3f, 1.f, 1e30f}) {
    std::vector<float> values, decoded(100);
    for (int i = 0; i < 100; ++i) values.push_back(unit * (i % 2 ? -1 : 1) * (1 + i));
    std::vector<uint32_t> random(100, 0x12345);
    std::vector<uint8_t> codes(100);
    float scale = encode_block8<FirstMoment8>(values.data(), random.data(), codes.data(), 100);
    decode_block8<FirstMoment8>(codes.data(), scale, decoded.data(), 100);
    for (int i = 0; i < 100; ++i) EXPECT_NEAR(decoded[i] / values[i], 1, 0.125) << i;
  }
}

}  // namespace
}  // namespace longshore::models
