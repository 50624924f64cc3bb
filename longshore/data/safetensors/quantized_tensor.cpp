#include "longshore/data/safetensors/quantized_tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/pieces.h"
#include "longshore/base/printable.h"
#include "longshore/base/quantization/code_books.h"
#include "longshore/base/quantization/dequantize.h"
#include "longshore/base/round_up.h"

namespace longshore::data {
namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;

std::span<const std::byte> range(std::span<const std::byte> bytes, int64_t first, int64_t count) {
  return bytes.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}

// The largest scale by which all numbers are finite.
float largest_scale(const QuantizedMatrix& matrix) {
  constexpr float kFloat32 = std::numeric_limits<float>::max(), kBfloat16 = 0x1.fep127f,
                  kFloat16 = 65504;
  const float largest = matrix.rounded_to == RoundedTo::bfloat16  ? kBfloat16
                        : matrix.rounded_to == RoundedTo::float16 ? kFloat16
                                                                  : kFloat32;
  if (matrix.format == QuantizedFormat::fp8) return largest / kLargestE4m3;
  // It is multiplied by the code first.
  return matrix.format == QuantizedFormat::int8 ? std::min(largest, kFloat32 / 128) : largest;
}

}  // namespace

NonFinite QuantizedTensor::to_float32(int64_t first, std::span<float> to, int64_t step) const {
  const int64_t total = data_.matrix.count(), count = std::ssize(to);
  if (first < 0 || step < 1 || first > total ||
      (count > 0 && (first == total || (count - 1) > (total - 1 - first) / step)))
    throw InternalError("tensor " + in_quotes(data_.info.name) + ": elements beyond its end");
  const QuantizedView view = data_.view();
  if (step == 1)
    dequantize(data_.matrix, view, first, to);
  else
    for (int64_t i = 0; i < count; ++i)
      dequantize(data_.matrix, view, first + i * step, to.subspan(static_cast<size_t>(i), 1));
  NonFinite odd;
  for (float value : to) {
    odd.nan_count += std::isnan(value);
    odd.infinity_count += std::isinf(value);
  }
  return odd;
}

void QuantizedTensor::copy(const QuantizedMatrix& part, const WriteBytes& write) const {
  require_part(part);
  const QuantizedParts parts = parts_of(part);
  const BlockRange blocks = blocks_of(part), groups = nested_blocks_of(part);
  constexpr int64_t kFloat = sizeof(float);
  auto give = [&](const QuantizedParts::Part& to, std::span<const std::byte> all, int64_t first) {
    for_each_piece(to.bytes, kPieceBytes, [&](int64_t done, int64_t count) {
      write(to.offset + done, range(all, first + done, count));
    });
  };
  auto give_scales = [&](int64_t first) {
    const int64_t bytes = part.has_nested_scales ? 1 : kFloat;
    require_finite_scales(part, first, parts.scales.bytes / bytes);
    give(parts.scales, data_.scales(), first * bytes);
  };
  switch (part.format) {
    case QuantizedFormat::int8:
      give(parts.codes, data_.codes, part.first());
      return give_scales(part.first_row);
    case QuantizedFormat::fp8:
      require_finite_codes(part.first(), part.count());
      give(parts.codes, data_.codes, part.first());
      return give_scales(blocks.first * ceil_div(part.columns, kFp8Block));
    default:  // 4 bits
      give(parts.codes, data_.codes, part.first() / 2);
      give_scales(blocks.first);
      if (!part.has_nested_scales) return;
      give(parts.nested_scales, std::as_bytes(std::span(data_.nested_scales)),
           groups.first * kFloat);
      give(parts.nested_codes, std::as_bytes(std::span(data_.nested_codes)), 0);
      give(parts.nested_mean, std::as_bytes(std::span(&data_.nested_mean, 1)), 0);
  }
}

void QuantizedTensor::require_part(const QuantizedMatrix& part) const {
  QuantizedMatrix whole = part;
  whole.first_row = 0;
  whole.rows = data_.matrix.rows;
  whole.rounded_to = data_.matrix.rounded_to;
  if (whole != data_.matrix || part.first_row < 0 || part.rows < 1 || part.rows > whole.rows ||
      part.first_row > whole.rows - part.rows)
    throw InternalError("tensor " + in_quotes(data_.info.name) + ": rows of another matrix");
}

void QuantizedTensor::require_finite_scales(const QuantizedMatrix& part, int64_t first,
                                            int64_t count) const {
  const QuantizedView view = data_.view();
  const float largest = largest_scale(part);
  for (int64_t i = first; i < first + count; ++i)
    if (const float scale = scale_of(data_.matrix, view, i); !(std::fabs(scale) <= largest)) {
      std::ostringstream text;
      text << scale;
      throw DataError("tensor " + in_quotes(data_.scales_name) + ": found the scale " + text.str() +
                      ", expected it finite, and numbers by it");
    }
}

void QuantizedTensor::require_finite_scales() const {
  const QuantizedMatrix& m = data_.matrix;
  if (m.has_nested_scales) {
    auto largest = [](std::span<const float> values) {
      float most = 0;
      for (const float value : values) most = std::max(most, std::fabs(value));
      return most;
    };
    // Which spares reading codes, of which there are many.
    if (largest(data_.nested_codes) * largest(data_.nested_scales) + std::fabs(data_.nested_mean) <=
        largest_scale(m))
      return;
  }
  const int64_t bytes = m.has_nested_scales ? 1 : sizeof(float);
  require_finite_scales(m, 0, std::ssize(data_.scales()) / bytes);
}

void QuantizedTensor::require_finite_codes(int64_t first, int64_t count) const {
  constexpr std::byte kNan{0x7f};  // and with the sign
  if (std::ranges::any_of(range(data_.codes, first, count),
                          [](std::byte code) { return (code & kNan) == kNan; }))
    throw DataError("tensor " + in_quotes(data_.info.name) +
                    ": found NaN, expected finite numbers");
}

}  // namespace longshore::data
