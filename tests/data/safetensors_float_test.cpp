#include "longshore/data/safetensors/safetensors_float.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "longshore/base/error.h"
#include "tests/data/safetensors_samples.h"
#include "tests/message_of.h"

namespace longshore::data {
namespace {

using testing::HasSubstr;

using Dtype = SafetensorsDtype;

SafetensorsTensor tensor_of(Dtype dtype, std::span<const std::byte> data) {
  SafetensorsTensor tensor;
  tensor.name = "w";
  tensor.dtype = dtype;
  tensor.shape = {static_cast<int64_t>(data.size()) / size_bytes(dtype)};
  tensor.data = data;
  return tensor;
}

// Sign, exponent and fraction, put together by ldexp.
float value_of(uint16_t bits, int exponent_bits, int fraction_bits) {
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  float magnitude;
  if (exponent == (1 << exponent_bits) - 1)
    magnitude = fraction ? std::nanf("") : std::numeric_limits<float>::infinity();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(fraction), 1 - bias - fraction_bits);
  else
    magnitude = std::ldexp(static_cast<float>(fraction + (1 << fraction_bits)),
                           exponent - bias - fraction_bits);
  return bits >> 15 ? -magnitude : magnitude;
}

TEST(ToFloat32, ConvertsEveryHalf) {
  // One byte off, as a header of odd length makes it.
  std::vector<std::byte> room(1 + 65536 * 2);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    std::memcpy(room.data() + 1 + bits * 2, &half, 2);
  }
  struct Format {
    Dtype dtype;
    int exponent_bits, fraction_bits;
  };
  for (const Format& format : {Format{Dtype::float16, 5, 10}, Format{Dtype::bfloat16, 8, 7}}) {
    std::vector<float> values(65536);
    const NonFinite found = to_float32(tensor_of(format.dtype, std::span(room).subspan(1)), values);
    EXPECT_EQ(found, (NonFinite{2 * ((1 << format.fraction_bits) - 1), 2})) << name(format.dtype);
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float expected =
          value_of(static_cast<uint16_t>(bits), format.exponent_bits, format.fraction_bits);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(values[bits])) << bits;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(values[bits]), std::bit_cast<uint32_t>(expected)) << bits;
      }
    }
  }
}

TEST(ToFloat32, CountsWhatIsNotFinite) {
  std::vector<float> values(10'000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 0.5f;
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  values[0] = values[4095] = values[4096] = nan;
  values[9999] = -infinity;
  values[5000] = infinity;
  std::vector<float> converted(values.size());
  EXPECT_EQ(to_float32(tensor_of(Dtype::float32, std::as_bytes(std::span(values))), converted),
            (NonFinite{3, 2}));
  EXPECT_EQ(std::memcmp(values.data(), converted.data(), values.size() * sizeof(float)), 0);

  std::vector<double> doubles(values.begin(), values.end());
  doubles[1] = 1e300;
  doubles[2] = 0.1;
  doubles[3] = 1e-300;
  EXPECT_EQ(to_float32(tensor_of(Dtype::float64, std::as_bytes(std::span(doubles))), converted),
            (NonFinite{3, 3}));
  EXPECT_EQ(converted[1], infinity);
  EXPECT_EQ(converted[2], 0.1f);
  EXPECT_EQ(converted[3], 0.f);
  EXPECT_EQ(converted[9998], values[9998]);
  EXPECT_EQ(to_float32(tensor_of(Dtype::float32, {}), {}), (NonFinite{0, 0}));
}

TEST(ToFloat32, RefusesOtherDtypesAndRooms) {
  const std::string data(8, '\0');
  std::vector<float> to(1);
  for (Dtype dtype :
       {Dtype::boolean, Dtype::uint8, Dtype::int8, Dtype::int16, Dtype::int32, Dtype::int64}) {
    const auto part = bytes_of(data).first(static_cast<size_t>(size_bytes(dtype)));
    const std::string what = message_of<DataError>([&] { to_float32(tensor_of(dtype, part), to); });
    EXPECT_EQ(what, "tensor \"w\": found " + std::string(name(dtype)) +
                        ", expected F32, BF16, F16 or F64");
  }
  EXPECT_THROW(to_float32(tensor_of(Dtype::float32, bytes_of(data)), to), InternalError);
}

std::vector<std::byte> converted(Dtype from, std::span<const std::byte> data, Dtype to) {
  const SafetensorsTensor tensor = tensor_of(from, data);
  std::vector<std::byte> result(static_cast<size_t>(tensor.element_count() * size_bytes(to)));
  convert_floats(tensor, to, result);
  return result;
}

uint16_t converted(float value, Dtype to) {
  uint16_t bits;
  std::memcpy(&bits, converted(Dtype::float32, std::as_bytes(std::span(&value, 1)), to).data(), 2);
  return bits;
}

TEST(RequireFinite, SeesEveryElement) {
  auto check = [](SafetensorsDtype dtype, const auto& values) {
    require_finite({{.name = "it", .dtype = dtype, .shape = {}}, std::as_bytes(std::span(values))});
  };
  for (size_t at = 0; at < 100; ++at)
    for (uint32_t odd : {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffffffffu, 0x7f800001u}) {
      std::vector<uint32_t> values(100, 0x7f7fffff);  // the largest that is finite
      check(SafetensorsDtype::float32, values);
      values[at] = odd;
      EXPECT_THAT(message_of<DataError>([&] { check(SafetensorsDtype::float32, values); }),
                  HasSubstr("\"it\": found values that are infinite or NaN"));
      std::vector<uint16_t> narrow(100, 0xff7f);
      check(SafetensorsDtype::bfloat16, narrow);
      narrow[at] = static_cast<uint16_t>(odd >> 16 | (odd & 1));
      EXPECT_THROW(check(SafetensorsDtype::bfloat16, narrow), DataError);
    }
  check(SafetensorsDtype::uint8, std::vector<uint8_t>(9, 0xff));
}

// Each value of 16 bits, what lies half-way to the next, and the floats on both sides of that.
TEST(ConvertFloats, RoundsToNearestTiesToEven) {
  struct Format {
    Dtype dtype;
    int exponent_bits, fraction_bits;
    uint16_t infinity;
  };
  for (const Format& format :
       {Format{Dtype::float16, 5, 10, 0x7c00}, Format{Dtype::bfloat16, 8, 7, 0x7f80}}) {
    for (uint16_t bits = 0; bits + 1 < format.infinity; ++bits) {
      const float low = value_of(bits, format.exponent_bits, format.fraction_bits);
      const auto next = static_cast<uint16_t>(bits + 1);
      const float high = value_of(next, format.exponent_bits, format.fraction_bits);
      const float middle = low + (high - low) / 2;
      ASSERT_EQ(converted(low, format.dtype), bits);
      ASSERT_EQ(converted(-low, format.dtype), bits | 0x8000);
      ASSERT_EQ(converted(middle, format.dtype), bits % 2 == 0 ? bits : next) << bits;
      ASSERT_EQ(converted(std::nextafter(middle, low), format.dtype), bits) << bits;
      ASSERT_EQ(converted(std::nextafter(middle, high), format.dtype), next) << bits;
      ASSERT_EQ(converted(-std::nextafter(middle, high), format.dtype), next | 0x8000) << bits;
    }
    const float infinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(converted(infinity, format.dtype), format.infinity);
    EXPECT_EQ(converted(-infinity, format.dtype), format.infinity | 0x8000);
    for (uint32_t nan : {0x7fc00000u, 0x7f800001u, 0x7fffffffu, 0xff800001u}) {
      const uint16_t bits = converted(std::bit_cast<float>(nan), format.dtype);
      EXPECT_GT(bits & 0x7fff, format.infinity) << nan;
      EXPECT_EQ(bits >> 15, nan >> 31) << nan;
    }
  }
}

TEST(ConvertFloats, WhatIsBeyondTheDtypeIsRefused) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(200'000, infinity);  // what is infinite already is no fault
  values[0] = std::nanf("");
  auto bytes = [&] { return std::as_bytes(std::span(values)); };
  EXPECT_NO_THROW(converted(Dtype::float32, bytes(), Dtype::float16));
  values[150'000] = std::nextafter(65520.f, 0.f);
  EXPECT_NO_THROW(converted(Dtype::float32, bytes(), Dtype::float16));
  values[150'000] = -65520;
  EXPECT_EQ(message_of<DataError>([&] { converted(Dtype::float32, bytes(), Dtype::float16); }),
            "tensor \"w\": found finite F32 values beyond what F16 can hold, expected none");
  EXPECT_NO_THROW(converted(Dtype::float32, bytes(), Dtype::bfloat16));
  values[150'000] = std::numeric_limits<float>::max();
  EXPECT_THROW(converted(Dtype::float32, bytes(), Dtype::bfloat16), DataError);
  EXPECT_NO_THROW(converted(Dtype::float32, bytes(), Dtype::float32));

  std::vector<double> doubles = {1.5, std::numeric_limits<double>::infinity()};
  auto wide = [&] { return std::as_bytes(std::span(doubles)); };
  const std::vector<std::byte> narrow = converted(Dtype::float64, wide(), Dtype::float32);
  const std::vector<float> expected = {1.5, infinity};
  EXPECT_EQ(std::memcmp(narrow.data(), expected.data(), narrow.size()), 0);
  doubles[0] = 1e300;
  EXPECT_THROW(converted(Dtype::float64, wide(), Dtype::float32), DataError);
  EXPECT_THROW(converted(Dtype::int64, wide(), Dtype::float32), DataError);
  std::vector<std::byte> room(1);
  EXPECT_THROW(convert_floats(tensor_of(Dtype::float64, wide()), Dtype::float32, room),
               InternalError);
}

}  // namespace
}  // namespace longshore::data
