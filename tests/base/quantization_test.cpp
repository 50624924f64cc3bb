// Codes and scales by their properties; tests/data has bitsandbytes' own bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "longshore/base/quantization/code_books.h"
#include "longshore/base/quantization/dequantize.h"
#include "longshore/base/quantization/quantize.h"

namespace longshore {
namespace {

using enum QuantizedFormat;

constexpr std::array kFormats{float32, bfloat16, fp8, int8, nf4, fp4, mxfp4};

std::vector<float> random_numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<std::byte> quantized(const QuantizedMatrix& matrix, int64_t tensor_rows,
                                 const std::vector<float>& tensor) {
  std::vector<std::byte> memory(static_cast<size_t>(parts_of(matrix).bytes));
  std::vector<int> writes(memory.size());
  quantize(
      matrix, tensor_rows,
      [&](int64_t first, std::span<float> to) {
        ASSERT_LE(first + std::ssize(to), std::ssize(tensor));
        std::copy_n(tensor.begin() + first, to.size(), to.begin());
      },
      [&](int64_t offset, std::span<const std::byte> from) {
        ASSERT_LE(offset + std::ssize(from), std::ssize(memory));
        std::ranges::copy(from, memory.begin() + offset);
        for (int64_t i = offset; i < offset + std::ssize(from); ++i) ++writes[i];
      });
  const QuantizedParts parts = parts_of(matrix);
  for (const auto& part :
       {parts.codes, parts.scales, parts.nested_scales, parts.nested_codes, parts.nested_mean})
    for (int64_t i = part.offset; i < part.offset + part.bytes; ++i) EXPECT_EQ(writes[i], 1) << i;
  return memory;
}

std::vector<float> numbers(const QuantizedMatrix& matrix, const std::vector<std::byte>& memory) {
  std::vector<float> values(static_cast<size_t>(matrix.count()));
  dequantize(matrix, view_of(matrix, memory.data()), 0, values);
  return values;
}

TEST(CodeBooks, E4m3HasTheNearestNumberOfEachFloat) {
  std::vector<float> all;
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_to_float(static_cast<uint8_t>(code));
    EXPECT_EQ(std::isnan(value), (code & 0x7f) == 0x7f);
    EXPECT_EQ(float_to_e4m3(value), code);
    if (code < 0x7f) all.push_back(value);
  }
  EXPECT_TRUE(std::ranges::is_sorted(all));
  EXPECT_EQ(all[1], std::ldexp(1.f, -9));
  EXPECT_EQ(all.back(), 448);
  EXPECT_EQ(float_to_e4m3(1e30f), 0x7e);
  EXPECT_EQ(float_to_e4m3(-std::numeric_limits<float>::infinity()), 0xfe);
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    const float middle = (all[i] + all[i + 1]) / 2;
    EXPECT_EQ(float_to_e4m3(middle), i % 2 == 0 ? i : i + 1);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 0.f)), i);
    EXPECT_EQ(float_to_e4m3(-std::nextafter(middle, 1e9f)), (i + 1) | 0x80);
  }
}

TEST(CodeBooks, E8m0IsAPowerOfTwo) {
  for (int code = 0; code < 255; ++code)
    EXPECT_EQ(e8m0_to_float(static_cast<uint8_t>(code)), std::ldexp(1.f, code - 127));
  EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
}

TEST(CodeBooks, RoundsToHalfPrecision) {
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(round_to_float16(value)),
              std::bit_cast<uint32_t>(static_cast<float>(static_cast<_Float16>(value))))
        << value;
  }
}

// Rows of a tensor have the tensor's own codes and scales, wherever blocks begin.
TEST(Quantization, RowsOfATensorAreThoseOfTheWhole) {
  for (QuantizedFormat format : kFormats)
    for (bool is_nested : {false, true})
      for (int64_t columns : {9, 50, 64, 352})
        for (int64_t block : {32, 64}) {
          if (!(format == nf4 || format == fp4) && (is_nested || block != 64)) continue;
          const int64_t rows = 301;
          const std::vector<float> tensor = random_numbers(rows * columns, 7);
          const QuantizedMatrix whole{.format = format,
                                      .rows = rows,
                                      .columns = columns,
                                      .block = block,
                                      .has_nested_scales = is_nested};
          const std::vector<float> expected = numbers(whole, quantized(whole, rows, tensor));
          for (const auto& [first, count] :
               {std::pair<int64_t, int64_t>{0, 1}, {1, 7}, {127, 130}, {128, 128}, {300, 1}}) {
            QuantizedMatrix part = whole;
            part.first_row = first, part.rows = count;
            const std::vector<float> values = numbers(part, quantized(part, rows, tensor));
            for (size_t i = 0; i < values.size(); ++i)
              ASSERT_EQ(values[i], expected[static_cast<size_t>(first * columns) + i])
                  << name(format) << " " << columns << " " << first << " " << i;
            // And any of them.
            std::vector<float> some((values.size() + 1) / 2);
            const auto from = static_cast<int64_t>(values.size() / 2);
            dequantize(part, view_of(part, quantized(part, rows, tensor).data()), from, some);
            EXPECT_TRUE(std::ranges::equal(some, std::span(values).subspan(values.size() / 2)));
          }
        }
}

TEST(Quantization, GivesBackWhatItCanHold) {
  constexpr int64_t kRows = 130, kColumns = 200;
  for (QuantizedFormat format : kFormats) {
    const QuantizedMatrix matrix{.format = format, .rows = kRows, .columns = kColumns};
    const std::vector<float> zeros(kRows * kColumns);
    EXPECT_EQ(numbers(matrix, quantized(matrix, kRows, zeros)), zeros) << name(format);
    if (format == fp8 || format == int8) continue;  // whose scales round
    // What has been quantized once.
    const std::vector<float> random = random_numbers(kRows * kColumns, 3),
                             values = numbers(matrix, quantized(matrix, kRows, random));
    EXPECT_EQ(numbers(matrix, quantized(matrix, kRows, values)), values) << name(format);
  }
}

// The largest error, relative to the largest magnitude of the numbers that share a scale.
TEST(Quantization, ErrorsAreThoseOfTheNearestCode) {
  constexpr int64_t kRows = 128, kColumns = 256;
  const std::vector<float> values = random_numbers(kRows * kColumns, 5);
  // Half the largest step between codes over the largest code.
  const std::vector<std::pair<QuantizedFormat, double>> bounds{
      {nf4, (1 - 0.6961928) / 2},    {fp4, 1. / 6},    {mxfp4, 1. / 4},
      {int8, 0.5 / 127 + 1. / 2048}, {fp8, 16. / 448}, {bfloat16, 1. / 256}};
  for (const auto& [format, bound] : bounds) {
    const QuantizedMatrix matrix{.format = format, .rows = kRows, .columns = kColumns};
    const std::vector<std::byte> memory = quantized(matrix, kRows, values);
    const std::vector<float> back = numbers(matrix, memory);
    double largest_error = 0;
    for (int64_t first = 0; first < matrix.count();) {
      const ScaledRun run = scaled_run(matrix, first, matrix.count());
      float largest = 0;
      if (format == bfloat16 || format == fp8) largest = 5;  // of all
      for (int64_t i = run.first; i < run.end; ++i)
        largest = std::max(largest, std::fabs(values[i]));
      for (int64_t i = run.first; i < run.end; ++i)
        largest_error =
            std::max(largest_error, static_cast<double>(std::fabs(back[i] - values[i]) / largest));
      first = run.end;
    }
    EXPECT_LE(largest_error, bound * 1.001) << name(format);
    EXPECT_GE(largest_error, bound / 4) << name(format);
  }
}

TEST(Quantization, TakesAsManyBytesAsItSays) {
  auto bits = [](QuantizedMatrix matrix) {
    matrix.rows = matrix.columns = 4096;
    return 8. * static_cast<double>(parts_of(matrix).bytes) / static_cast<double>(matrix.count());
  };
  EXPECT_NEAR(bits({.format = nf4}), 4.5, 1e-9);
  EXPECT_NEAR(bits({.format = nf4, .has_nested_scales = true}), 4 + 1. / 8 + 32. / 64 / 256, 1e-3);
  EXPECT_NEAR(bits({.format = mxfp4}), 4.25, 1e-9);
  EXPECT_NEAR(bits({.format = int8}), 8 + 32. / 4096, 1e-9);
  EXPECT_NEAR(bits({.format = fp8}), 8 + 32. / 128 / 128, 1e-9);
}

}  // namespace
}  // namespace longshore
