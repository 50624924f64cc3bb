#include "longshore/data/safetensors/mxfp4.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/quantization/code_books.h"
#include "longshore/base/quantization/quantized_matrix.h"
#include "longshore/data/safetensors/expect_tensor.h"

namespace longshore::data {

Mxfp4Tensor::Mxfp4Tensor(const SafetensorsTensor& blocks, const SafetensorsTensor& scales)
    : blocks_(blocks.data), scales_(scales.data) {
  expect_tensor(blocks.dtype == SafetensorsDtype::uint8 && blocks.shape.size() == 4 &&
                    blocks.shape[3] == kMxfp4Block / 2,
                blocks, "U8 [experts,rows,blocks,16]");
  std::vector<int64_t> shape(blocks.shape.begin(), blocks.shape.end() - 1);
  expect_tensor(scales.dtype == SafetensorsDtype::uint8 && scales.shape == shape, scales,
                "U8, a scale for each block of " + in_quotes(blocks.name));
  info_ = {.name = blocks.name.substr(0, blocks.name.rfind(kMxfp4Blocks)),
           .dtype = SafetensorsDtype::bfloat16,
           .shape = {shape[0], shape[2] * kMxfp4Block, shape[1]}};
  matrix_ = {.format = QuantizedFormat::mxfp4,
             .rows = shape[1],
             .columns = shape[2] * kMxfp4Block,
             .rounded_to = RoundedTo::bfloat16};
  scales_name_ = scales.name;
}

void Mxfp4Tensor::copy(const Rows& rows, const QuantizedMatrix& part,
                       const WriteBytes& write) const {
  const int64_t last = rows.first + (part.rows - 1) * rows.step;
  if (part.columns != matrix_.columns || rows.first < 0 || rows.step < 1 || last >= matrix_.rows ||
      rows.matrix < 0 || rows.matrix >= info_.shape[0])
    throw InternalError("tensor " + in_quotes(info_.name) + ": rows of another matrix");
  const QuantizedParts parts = parts_of(part);
  const int64_t scales_of_row = matrix_.columns / kMxfp4Block, bytes_of_row = matrix_.columns / 2;
  for (int64_t row = 0; row < part.rows; ++row) {
    const int64_t at = rows.matrix * matrix_.rows + rows.first + row * rows.step;
    auto of_row = [&](std::span<const std::byte> all, int64_t bytes) {
      return all.subspan(static_cast<size_t>(at * bytes), static_cast<size_t>(bytes));
    };
    const std::span<const std::byte> scales = of_row(scales_, scales_of_row);
    require_finite(scales);
    write(parts.codes.offset + row * bytes_of_row, of_row(blocks_, bytes_of_row));
    write(parts.scales.offset + row * scales_of_row, scales);
  }
}

void Mxfp4Tensor::require_finite(std::span<const std::byte> scales) const {
  constexpr std::byte kLargest{252};  // 2^125, by which 6 is the largest code
  const auto is_odd = [](std::byte scale) { return scale > kLargest; };
  if (std::ranges::count_if(scales, is_odd) == 0) return;  // in vectors
  throw DataError("tensor " + in_quotes(scales_name_) + ": found a scale of " +
                  std::to_string(std::to_integer<int>(*std::ranges::find_if(scales, is_odd))) +
                  ", expected at most 252, by which all numbers are finite");
}

NonFinite Mxfp4Tensor::to_float32(int64_t first, std::span<float> to, int64_t step) const {
  const int64_t k_size = info_.shape[1], n_size = info_.shape[2], blocks = k_size / kMxfp4Block;
  const int64_t count = std::ssize(to);
  if (first < 0 || step < 1 || (count > 0 && first + (count - 1) * step >= info_.element_count()))
    throw InternalError("tensor " + in_quotes(info_.name) + ": elements beyond its end");
  NonFinite odd;
  for (int64_t i = 0; i < count;) {
    const int64_t at = first + i * step, expert = at / (k_size * n_size), k = at / n_size % k_size;
    // The elements of one k, a row of blocks apart.
    const std::byte* const block = blocks_.data() + expert * n_size * k_size / 2 + k / 2;
    const std::byte* const scale = scales_.data() + expert * n_size * blocks + k / kMxfp4Block;
    const int shift = k % 2 == 0 ? 0 : 4;
    for (int64_t n = at % n_size; n < n_size && i < count; n += step, ++i) {
      const auto bits = std::to_integer<unsigned>(block[n * k_size / 2]) >> shift & 15;
      to[i] = kE2m1[bits] * e8m0_to_float(std::to_integer<uint8_t>(scale[n * blocks]));
      odd.nan_count += std::isnan(to[i]);
      odd.infinity_count += std::isinf(to[i]);
    }
  }
  return odd;
}

}  // namespace longshore::data
