#include "longshore/trainer/weights/quantize_parameter.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "longshore/base/bfloat16.h"
#include "longshore/base/error.h"
#include "longshore/base/round_up.h"

namespace longshore::trainer {
namespace {

using offload::Parameter;

// Numbers [first, first + count) of matrix `number` in its rows, where its columns lie one after
// the other.
void read_transposed(const Parameter& parameter, int64_t number, const FillParameter& fill,
                     int64_t first, std::span<float> to) {
  const QuantizedMatrix& m = parameter.weight.quantized->matrix;
  const int64_t top = first / m.columns, skipped = first - top * m.columns;
  const int64_t rows = ceil_div(skipped + std::ssize(to), m.columns);
  std::vector<float> column(static_cast<size_t>(rows));
  for (int64_t c = 0; c < m.columns; ++c) {
    fill(parameter, number * m.count() + c * m.rows + top, column);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = r * m.columns + c - skipped;
      if (at >= 0 && at < std::ssize(to))
        to[static_cast<size_t>(at)] = column[static_cast<size_t>(r)];
    }
  }
}

}  // namespace

int64_t matrices_of(const Parameter& parameter) {
  return parameter.numbers().shape.count() / parameter.weight.quantized->matrix.count();
}

int64_t rows_of_tensor(const offload::Bucket& bucket, const Parameter& parameter) {
  int64_t rows = 0;
  for (const Parameter& other : bucket.parameters)
    if (other.tensors == parameter.tensors) {
      const QuantizedMatrix& m = other.weight.quantized->matrix;
      rows = std::max(rows, m.first_row + m.rows);
    }
  return rows;
}

void quantize_parameter(const Parameter& parameter, int64_t tensor_rows, int64_t number,
                        const FillParameter& fill, const WriteBytes& write,
                        const CopyMatrix& copy) {
  const models::QuantizedWeight& weight = *parameter.weight.quantized;
  const QuantizedMatrix& m = weight.matrix;
  const int64_t before = number * parts_of(m).bytes;
  const WriteBytes write_matrix = [&](int64_t offset, std::span<const std::byte> from) {
    write(before + offset, from);
  };
  if (copy && copy(parameter, number, write_matrix)) return;
  auto read = [&](int64_t first, std::span<float> to) {
    if (weight.is_transposed)
      read_transposed(parameter, number, fill, first, to);
    else
      fill(parameter, number * m.count() + first - m.first(), to);
    if (weight.numbers.dtype == models::Dtype::bfloat16)
      for (float& value : to) value = to_float(to_bfloat16(value));
    if (!std::ranges::all_of(to, [](float value) { return std::isfinite(value); }))
      throw DataError(parameter.tensors[0] +
                      ": found a value that is not finite, expected none in " +
                      "what is stored in " + name(m.format));
  };
  quantize(m, tensor_rows, read, write_matrix);
}

}  // namespace longshore::trainer
