#include "longshore/trainer/weights/stored_numbers.h"

#include <algorithm>

#include "longshore/base/quantization/dequantize.h"
#include "longshore/trainer/weights/quantize_parameter.h"

namespace longshore::trainer {

using offload::Parameter;

data::NonFinite read_numbers(const StoredWeights& weights, const SavedTensors& saved,
                             const Parameter& parameter, int64_t first, std::span<float> to) {
  const auto& quantized = parameter.weight.quantized;
  if (quantized && parameter.weight.saved_section && quantized->numbers.shape.rank() == 2)
    return weights.read(parameter.tensors[0], quantized->matrix.first() + first, to);
  data::NonFinite odd;
  saved.for_each_run(parameter, first, to, [&](const SavedRun& run, std::span<float> of_run) {
    const data::NonFinite found = weights.read(run.tensor.name, run.first, of_run, run.step);
    odd.nan_count += found.nan_count;
    odd.infinity_count += found.infinity_count;
  });
  return odd;
}

bool copy_matrix(const StoredWeights& weights, const Parameter& parameter, int64_t number,
                 const WriteBytes& write) {
  const QuantizedMatrix& matrix = parameter.weight.quantized->matrix;
  const bool has_own = parameter.tensors.size() > 1;  // each matrix a tensor
  const std::string& tensor = parameter.tensors[static_cast<size_t>(has_own ? number : 0)];
  if (weights.quantization(tensor) != models::quantization_of(matrix)) return false;
  const models::SavedSection section =
      parameter.weight.saved_section.value_or(models::SavedSection{});
  weights.copy(tensor,
               {.matrix = matrix,
                .number = has_own ? 0 : number,
                .first_row = section.first,
                .row_step = section.step},
               write);
  return true;
}

void StoredNumbers::read(const offload::Bucket& bucket, const Parameter& parameter, int64_t first,
                         std::span<float> to) {
  if (!parameter.weight.quantized) {
    read_numbers(weights_, saved_, parameter, first, to);
    return;
  }
  if (quantized_ != parameter.name) quantize(bucket, parameter);
  const QuantizedMatrix& m = parameter.weight.quantized->matrix;
  while (!to.empty()) {
    const int64_t number = first / m.count(), within = first % m.count();
    const std::span<float> some =
        to.first(static_cast<size_t>(std::min(std::ssize(to), m.count() - within)));
    if (parameter.weight.quantized->is_transposed)
      read_transposed(parameter, number, within, some);
    else
      dequantize(m, view_of(m, codes(parameter, number).data()), within, some);
    to = to.subspan(some.size());
    first += std::ssize(some);
  }
}

void StoredNumbers::quantize(const offload::Bucket& bucket, const Parameter& parameter) {
  codes_.assign(static_cast<size_t>(parameter.type.bytes()), std::byte{0});
  const int64_t rows = rows_of_tensor(bucket, parameter);
  for (int64_t number = 0; number < matrices_of(parameter); ++number)
    quantize_parameter(
        parameter, rows, number,
        [&](const Parameter& one, int64_t first, std::span<float> to) {
          read_numbers(weights_, saved_, one, first, to);
        },
        [&](int64_t offset, std::span<const std::byte> from) {
          std::ranges::copy(from, codes_.begin() + offset);
        },
        [&](const Parameter& one, int64_t matrix, const WriteBytes& write) {
          return copy_matrix(weights_, one, matrix, write);
        });
  quantized_ = parameter.name;
  matrix_ = -1;
}

void StoredNumbers::read_transposed(const Parameter& parameter, int64_t number, int64_t first,
                                    std::span<float> to) {
  const QuantizedMatrix& m = parameter.weight.quantized->matrix;
  if (matrix_ != number) {
    numbers_.resize(static_cast<size_t>(m.count()));
    dequantize(m, view_of(m, codes(parameter, number).data()), 0, numbers_);
    matrix_ = number;
  }
  for (int64_t i = 0; i < std::ssize(to); ++i) {
    const int64_t column = (first + i) / m.rows, row = (first + i) % m.rows;
    to[static_cast<size_t>(i)] = numbers_[static_cast<size_t>(row * m.columns + column)];
  }
}

std::span<const std::byte> StoredNumbers::codes(const Parameter& parameter, int64_t number) const {
  const int64_t bytes = parts_of(parameter.weight.quantized->matrix).bytes;
  return std::span(codes_).subspan(static_cast<size_t>(number * bytes), static_cast<size_t>(bytes));
}

}  // namespace longshore::trainer
