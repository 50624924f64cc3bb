#include "longshore/trainer/weights/row_norms.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "longshore/base/quantization/dequantize.h"

namespace longshore::trainer {
namespace {

using offload::Bucket;
using offload::Parameter;

std::vector<std::byte> codes_of(const Bucket& bucket, const Parameter& matrix,
                                const FillParameter& fill, const CopyMatrix& copy) {
  std::vector<std::byte> codes(static_cast<size_t>(matrix.type.bytes()));
  quantize_parameter(
      matrix, rows_of_tensor(bucket, matrix), 0, fill,
      [&](int64_t offset, std::span<const std::byte> from) {
        std::ranges::copy(from, codes.begin() + offset);
      },
      copy);
  return codes;
}

float length(std::span<const float> row) {
  double squares = 0;
  for (const float value : row) squares += double{value} * value;
  return static_cast<float>(std::sqrt(squares));
}

}  // namespace

RowNorms::RowNorms(const offload::ParameterLayout& layout) : layout_(layout) {
  for (const auto& [name, location] : layout.by_name)
    if (const auto& adapter = layout.parameter(location).weight.adapter)
      if (!adapter->magnitudes.empty()) matrices_[adapter->magnitudes] = location;
}

void RowNorms::read(const Parameter& magnitudes, int64_t first, const FillParameter& fill,
                    std::span<float> norms, const CopyMatrix& copy) const {
  const offload::ParameterLayout::Location& location = matrices_.at(magnitudes.name);
  const Parameter& matrix = layout_.parameter(location);
  const auto& quantized = matrix.weight.quantized;
  std::vector<std::byte> codes;
  if (quantized) codes = codes_of(layout_.bucket(location), matrix, fill, copy);
  const int64_t columns = matrix.numbers().shape.back();
  std::vector<float> row(static_cast<size_t>(columns));
  for (float& norm : norms) {
    if (quantized)
      dequantize(quantized->matrix, view_of(quantized->matrix, codes.data()), first * columns, row);
    else
      fill(matrix, first * columns, row);
    norm = length(row);
    ++first;
  }
}

}  // namespace longshore::trainer
