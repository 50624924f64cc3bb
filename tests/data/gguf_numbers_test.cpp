#include "longshore/data/gguf/gguf_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "longshore/base/error.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

std::vector<float> random_values(size_t count) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = normal(random) * std::ldexp(1.F, i / 32 % 16 - 2);
  return values;
}

std::vector<std::byte> q8_0(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() / 32 * 34);
  quantize_q8_0(values, bytes);
  return bytes;
}

int8_t code(const std::vector<std::byte>& bytes, size_t block, size_t i) {
  return static_cast<int8_t>(bytes[block * 34 + 2 + i]);
}

// Of a normal float16.
float scale(const std::vector<std::byte>& bytes, size_t block) {
  uint16_t bits;
  std::memcpy(&bits, bytes.data() + block * 34, sizeof bits);
  return std::ldexp(1.F + static_cast<float>(bits & 0x3ff) / 1024, (bits >> 10) - 15);
}

TEST(GgufNumbers, BlocksAreTheLargestMagnitudeIn127Steps) {
  const std::vector<float> values = random_values(32 * 64);
  const std::vector<std::byte> bytes = q8_0(values);
  for (size_t block = 0; block < 64; ++block) {
    double largest = 0;
    for (size_t i = 0; i < 32; ++i)
      largest = std::max(largest, std::fabs(double{values[block * 32 + i]}));
    // Half a unit in the last place of float16.
    EXPECT_NEAR(scale(bytes, block), largest / 127, largest / 127 / 2048 * 1.001);
    bool has_most = false;
    for (size_t i = 0; i < 32; ++i) {
      // The division in float32 may round to the other side of a half.
      EXPECT_NEAR(code(bytes, block, i), values[block * 32 + i] / largest * 127, 0.5001);
      has_most = has_most || std::abs(code(bytes, block, i)) == 127;
    }
    EXPECT_TRUE(has_most);
  }
}

TEST(GgufNumbers, HalvesGoAwayFromZero) {
  std::vector<float> values(32);
  values[0] = 127;  // the scale is 1
  for (const auto& [value, expected] :
       {std::pair{0.5F, 1}, {-0.5F, -1}, {1.5F, 2}, {2.5F, 3}, {-2.5F, -3}, {0.49F, 0}}) {
    values[1] = value;
    EXPECT_EQ(code(q8_0(values), 0, 1), expected) << value;
  }
}

TEST(GgufNumbers, ZerosAndTheLeastValuesAreZeros) {
  EXPECT_EQ(q8_0(std::vector<float>(64)), std::vector<std::byte>(68));
  EXPECT_EQ(q8_0(std::vector<float>(32, std::numeric_limits<float>::denorm_min())),
            std::vector<std::byte>(34));
}

TEST(GgufNumbers, PiecesOfAnySizeGiveTheSameBytes) {
  const std::vector<float> values = random_values(32 * 9);
  for (const GgufType type :
       {GgufType::float32, GgufType::float16, GgufType::bfloat16, GgufType::q8_0}) {
    GgufNumbers whole("a", type);
    const auto expected = whole.convert(values);
    for (const size_t piece : {size_t{1}, size_t{31}, size_t{32}, size_t{100}}) {
      GgufNumbers numbers("a", type);
      std::vector<std::byte> found;
      for (size_t first = 0; first < values.size(); first += piece) {
        const auto some = numbers.convert(
            std::span(values).subspan(first, std::min(piece, values.size() - first)));
        found.insert(found.end(), some.begin(), some.end());
      }
      EXPECT_TRUE(std::ranges::equal(found, expected)) << name(type) << " by " << piece;
    }
  }
}

TEST(GgufNumbers, RefusesWhatATypeCannotHold) {
  auto message = [](GgufType type, float value) {
    std::vector<float> values(32, 1.F);
    values[7] = value;
    return message_of<DataError>([&] { GgufNumbers("a.weight", type).convert(values); });
  };
  EXPECT_THAT(message(GgufType::float16, 70000),
              HasSubstr("\"a.weight\": found finite F32 values"));
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity, std::nanf("")})
    EXPECT_THAT(message(GgufType::q8_0, value),
                testing::AllOf(HasSubstr("\"a.weight\""), HasSubstr("expected finite values")));
  EXPECT_EQ(
      message(GgufType::q8_0, -1e8F),
      "tensor \"a.weight\": found 1e+08, expected values of at most 8319008 in size for Q8_0");
  // A scale that is rounded to the largest.
  std::vector<float> most(32, 127 * 65510.F);
  EXPECT_EQ(GgufNumbers("a", GgufType::q8_0).convert(most)[1], std::byte{0x7b});
  // What is infinite stays so.
  EXPECT_EQ(GgufNumbers("a", GgufType::float16).convert(std::vector{infinity})[1], std::byte{0x7c});
}

}  // namespace
}  // namespace longshore::data
