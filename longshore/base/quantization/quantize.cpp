#include "longshore/base/quantization/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "longshore/base/bfloat16.h"
#include "longshore/base/quantization/code_books.h"
#include "longshore/base/round_up.h"

namespace longshore {
namespace {

constexpr int64_t kPieceNumbers = int64_t{1} << 20;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

// --- nf4, fp4

// Halfway between two that follow each other.
template <size_t kCount>
constexpr std::array<float, kCount - 1> midpoints(const std::array<float, kCount>& ascending) {
  std::array<float, kCount - 1> all{};
  for (size_t i = 0; i + 1 < kCount; ++i) all[i] = (ascending[i] + ascending[i + 1]) / 2;
  return all;
}

// How many of the thresholds, which ascend, are below the value.
template <size_t kCount>
unsigned number_below(const std::array<float, kCount>& thresholds, float value) {
  unsigned count = 0;
  for (float threshold : thresholds) count += value > threshold;
  return count;
}

// In -1 to 1, by the reciprocal of the scale.
float relative(float value, float inverse) { return std::clamp(value * inverse, -1.f, 1.f); }

unsigned nf4_code(float relative) {
  static constexpr auto kThresholds = midpoints(kNf4);
  return number_below(kThresholds, relative);
}

unsigned fp4_code(float relative) {
  static constexpr std::array<float, 7> kThresholds{
      0.00260417f, 0.0859375f, 0.20833333f, 0.29166667f, 0.4166667f, 0.583333f, 0.8333333f};
  static constexpr std::array<unsigned, 8> kCodes{0, 1, 6, 7, 4, 5, 2, 3};  // by magnitude
  const unsigned code = kCodes[number_below(kThresholds, std::fabs(relative))];
  return code != 0 && relative < 0 ? code | 8u : code;
}

const std::array<float, 256>& dynamic_codes() {
  static const std::array<float, 256> all = [] {
    std::array<float, 256> codes{0, 1};
    size_t count = 2;
    for (int power = 0; power < 7; ++power) {
      // Halfway between steps from 0.1 to 1 in each power of ten; steps are counted from both ends.
      const int steps = 1 << power;
      const float first = 0.1f, step = (1.f - first) / static_cast<float>(steps);
      auto border = [&](int i) {
        return i < (steps + 1) / 2 ? std::fma(step, static_cast<float>(i), first)
                                   : std::fma(-step, static_cast<float>(steps - i), 1.f);
      };
      const auto factor = static_cast<float>(std::pow(10.0, power - 6));
      for (int i = 0; i < steps; ++i) {
        const float value = factor * ((border(i) + border(i + 1)) / 2);
        codes[count++] = value;
        codes[count++] = -value;
      }
    }
    std::ranges::sort(codes);
    return codes;
  }();
  return all;
}

uint8_t dynamic_code(float relative) {
  static const auto thresholds = midpoints(dynamic_codes());
  return static_cast<uint8_t>(std::ranges::lower_bound(thresholds, relative) - thresholds.begin());
}

// Codes of scales, and the scales of these; `scales` are all of the tensor's.
void write_nested(const QuantizedMatrix& matrix, const std::vector<float>& scales,
                  const WriteBytes& write) {
  const QuantizedParts parts = parts_of(matrix);
  const BlockRange blocks = blocks_of(matrix), groups = nested_blocks_of(matrix);
  double sum = 0;
  for (float scale : scales) sum += scale;
  const std::vector<float> mean{static_cast<float>(sum / static_cast<double>(scales.size()))};
  std::vector<float> nested_scales;
  std::vector<uint8_t> codes;
  for (int64_t group = groups.first; group < groups.end; ++group) {
    const int64_t first = group * kNestedBlock,
                  end = std::min(first + kNestedBlock, std::ssize(scales));
    std::vector<float> rest;
    for (int64_t i = first; i < end; ++i) rest.push_back(scales[i] - mean[0]);
    nested_scales.push_back(largest_magnitude(rest));
    const float inverse = nested_scales.back() > 0 ? 1.f / nested_scales.back() : 0.f;
    for (int64_t i = std::max(first, blocks.first); i < std::min(end, blocks.end); ++i)
      codes.push_back(dynamic_code(relative(rest[i - first], inverse)));
  }
  write(parts.scales.offset, bytes_of(codes));
  write(parts.nested_scales.offset, bytes_of(nested_scales));
  write(parts.nested_codes.offset, std::as_bytes(nested_codes()));
  write(parts.nested_mean.offset, bytes_of(mean));
}

void quantize_4_bits(const QuantizedMatrix& matrix, int64_t tensor_rows, const ReadNumbers& read,
                     const WriteBytes& write) {
  const QuantizedParts parts = parts_of(matrix);
  const BlockRange blocks = blocks_of(matrix);
  const int64_t block = matrix.block, all = tensor_rows * matrix.columns;
  // The mean of nested scales is of all the tensor.
  const BlockRange scaled = matrix.has_nested_scales ? BlockRange{0, ceil_div(all, block)} : blocks;
  const int64_t piece = std::max<int64_t>(1, kPieceNumbers / block);  // blocks
  const int64_t first_byte = matrix.first() / 2;
  std::vector<float> values, scales;
  std::vector<uint8_t> codes;
  for (int64_t b = scaled.first; b < scaled.end;) {
    const bool has_codes = b >= blocks.first && b < blocks.end;
    const int64_t limit = has_codes ? blocks.end : b < blocks.first ? blocks.first : scaled.end;
    const int64_t end = std::min(b + piece, limit);
    values.resize(static_cast<size_t>(std::min(end * block, all) - b * block));
    read(b * block, values);
    codes.assign(static_cast<size_t>(ceil_div(std::ssize(values), 2)), 0);
    for (int64_t i = 0; i < std::ssize(values); i += block) {
      const auto some = std::span(values).subspan(
          static_cast<size_t>(i), static_cast<size_t>(std::min(block, std::ssize(values) - i)));
      const float scale = largest_magnitude(some), inverse = scale > 0 ? 1.f / scale : 0.f;
      scales.push_back(scale);
      if (!has_codes) continue;
      for (int64_t k = i; k < i + std::ssize(some); ++k) {
        const float value = relative(values[k], inverse);
        const unsigned code =
            matrix.format == QuantizedFormat::nf4 ? nf4_code(value) : fp4_code(value);
        codes[k / 2] |= static_cast<uint8_t>(k % 2 == 0 ? code << 4 : code);
      }
    }
    if (has_codes) {
      // As the tensor's last byte is: with the code of 0.
      if (std::ssize(values) % 2 != 0 && matrix.format == QuantizedFormat::nf4) codes.back() |= 7;
      const int64_t from = b * block / 2;  // the tensor's byte that codes begin with
      const int64_t skipped = std::max<int64_t>(0, first_byte - from),
                    last = std::min(std::ssize(codes), first_byte + parts.codes.bytes - from);
      write(parts.codes.offset + from + skipped - first_byte,
            bytes_of(codes).subspan(static_cast<size_t>(skipped),
                                    static_cast<size_t>(last - skipped)));
    }
    b = end;
  }
  if (matrix.has_nested_scales)
    write_nested(matrix, scales, write);
  else
    write(parts.scales.offset, bytes_of(scales));
}

// --- rows at a time

// Calls f(first row of the matrix, numbers of its rows) for some rows at a time. All but the first
// begin with a row of the tensor whose number is a multiple of `step`.
template <class F>
void for_rows(const QuantizedMatrix& matrix, int64_t step, const ReadNumbers& read, F f) {
  const int64_t some =
      round_up(std::max<int64_t>(1, kPieceNumbers / std::max<int64_t>(1, matrix.columns)), step);
  std::vector<float> values;
  for (int64_t row = 0; row < matrix.rows;) {
    const int64_t rows = std::min(matrix.rows - row, some - (matrix.first_row + row) % step);
    values.resize(static_cast<size_t>(rows * matrix.columns));
    read((matrix.first_row + row) * matrix.columns, values);
    f(row, values);
    row += rows;
  }
}

// The power of two by which the largest magnitude is within E2M1's range, and its code.
uint8_t e8m0_code(float largest) {
  if (largest == 0) return 0;
  return static_cast<uint8_t>(std::clamp(std::ilogb(largest) - 2, -127, 127) + 127);
}

unsigned e2m1_code(float relative) {
  static constexpr std::array<float, 7> kThresholds{0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.f};
  const float magnitude = std::fabs(relative);
  unsigned code = 0;
  // A tie goes to the code that is even.
  for (unsigned i = 0; i < kThresholds.size(); ++i)
    code += magnitude > kThresholds[i] || (magnitude == kThresholds[i] && i % 2 == 1);
  return code | (std::signbit(relative) ? 8u : 0u);
}

void quantize_mxfp4(const QuantizedMatrix& matrix, const ReadNumbers& read,
                    const WriteBytes& write) {
  const QuantizedParts parts = parts_of(matrix);
  const int64_t columns = matrix.columns, first_byte = matrix.first() / 2;
  std::vector<uint8_t> codes, scales;
  // Two of the tensor's rows have whole bytes.
  for_rows(matrix, 2, read, [&](int64_t row, std::span<const float> values) {
    const int64_t first = matrix.first() + row * columns, odd = first % 2;
    codes.assign(static_cast<size_t>(ceil_div(odd + std::ssize(values), 2)), 0);
    for (int64_t i = 0; i < std::ssize(values);) {
      const int64_t end =
          std::min(i + kMxfp4Block - i % columns % kMxfp4Block, (i / columns + 1) * columns);
      const auto some = values.subspan(static_cast<size_t>(i), static_cast<size_t>(end - i));
      scales.push_back(e8m0_code(largest_magnitude(some)));
      const int exponent = 127 - scales.back();
      for (; i < end; ++i) {
        const unsigned code = e2m1_code(std::ldexp(values[i], exponent));
        codes[(odd + i) / 2] |= static_cast<uint8_t>((odd + i) % 2 == 0 ? code : code << 4);
      }
    }
    write(parts.codes.offset + first / 2 - first_byte, bytes_of(codes));
  });
  write(parts.scales.offset, bytes_of(scales));
}

void quantize_int8(const QuantizedMatrix& matrix, const ReadNumbers& read,
                   const WriteBytes& write) {
  const QuantizedParts parts = parts_of(matrix);
  std::vector<float> scales;
  for_rows(matrix, 1, read, [&](int64_t row, std::span<const float> values) {
    std::vector<int8_t> codes;
    codes.reserve(values.size());
    std::vector<float> halves(static_cast<size_t>(matrix.columns));
    for (int64_t i = 0; i < std::ssize(values); i += matrix.columns) {
      // bitsandbytes makes them half precision numbers first.
      std::ranges::transform(values.subspan(static_cast<size_t>(i), halves.size()), halves.begin(),
                             round_to_float16);
      scales.push_back(largest_magnitude(halves));
      // As torch divides a number by a tensor.
      const float factor = scales.back() > 0 ? 1 / scales.back() * 127 : 0.f;
      for (float half : halves) codes.push_back(static_cast<int8_t>(std::nearbyint(half * factor)));
    }
    write(parts.codes.offset + row * matrix.columns, bytes_of(codes));
  });
  write(parts.scales.offset, bytes_of(scales));
}

void quantize_fp8(const QuantizedMatrix& matrix, int64_t tensor_rows, const ReadNumbers& read,
                  const WriteBytes& write) {
  const QuantizedParts parts = parts_of(matrix);
  const int64_t columns = matrix.columns;
  const BlockRange blocks = blocks_of(matrix);
  std::vector<float> values, scales;
  std::vector<uint8_t> codes;
  for (int64_t block = blocks.first; block < blocks.end; ++block) {
    const int64_t top = block * kFp8Block, rows = std::min(kFp8Block, tensor_rows - top);
    values.resize(static_cast<size_t>(rows * columns));
    read(top * columns, values);
    codes.resize(values.size());
    for (int64_t left = 0; left < columns; left += kFp8Block) {
      auto for_each = [&](auto f) {
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t column = left; column < std::min(left + kFp8Block, columns); ++column)
            f(static_cast<size_t>(row * columns + column));
      };
      float largest = 0;
      for_each([&](size_t i) { largest = std::max(largest, std::fabs(values[i])); });
      const float factor = largest > 0 ? kLargestE4m3 / largest : 1.f;
      scales.push_back(1.f / factor);
      for_each([&](size_t i) { codes[i] = float_to_e4m3(values[i] * factor); });
    }
    // The matrix may have some of the rows only.
    const int64_t first = std::max(top, matrix.first_row),
                  end = std::min(top + rows, matrix.first_row + matrix.rows);
    write(parts.codes.offset + (first - matrix.first_row) * columns,
          bytes_of(codes).subspan(static_cast<size_t>((first - top) * columns),
                                  static_cast<size_t>((end - first) * columns)));
  }
  write(parts.scales.offset, bytes_of(scales));
}

// --- the numbers themselves

void store(const QuantizedMatrix& matrix, const ReadNumbers& read, const WriteBytes& write) {
  for_rows(matrix, 1, read, [&](int64_t row, std::span<const float> values) {
    if (matrix.format == QuantizedFormat::float32)
      return write(row * matrix.columns * 4, std::as_bytes(values));
    std::vector<bfloat16> narrow;
    narrow.reserve(values.size());
    for (float value : values) narrow.push_back(to_bfloat16(value));
    write(row * matrix.columns * 2, bytes_of(narrow));
  });
}

}  // namespace

void quantize(const QuantizedMatrix& matrix, int64_t tensor_rows, const ReadNumbers& read,
              const WriteBytes& write) {
  switch (matrix.format) {
    case QuantizedFormat::nf4:
    case QuantizedFormat::fp4:
      return quantize_4_bits(matrix, tensor_rows, read, write);
    case QuantizedFormat::mxfp4:
      return quantize_mxfp4(matrix, read, write);
    case QuantizedFormat::int8:
      return quantize_int8(matrix, read, write);
    case QuantizedFormat::fp8:
      return quantize_fp8(matrix, tensor_rows, read, write);
    case QuantizedFormat::float32:
    case QuantizedFormat::bfloat16:
      return store(matrix, read, write);
  }
}

std::span<const float, 256> nested_codes() { return dynamic_codes(); }

}  // namespace longshore
