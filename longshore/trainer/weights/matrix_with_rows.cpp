#include "longshore/trainer/weights/matrix_with_rows.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/round_up.h"

namespace longshore::trainer {

MatrixWithRows::MatrixWithRows(const data::SafetensorsTensor& matrix, const AddedRows& added)
    : matrix_(&matrix) {
  const bool is_matrix = matrix.shape.size() == 2 && matrix.shape[0] > 0 && matrix.shape[1] > 0;
  if (!is_matrix || !data::is_floating_point(matrix.dtype))
    throw DataError("tensor " + in_quotes(matrix.name) +
                    ": expected a matrix of floating-point numbers, to which add_tokens adds rows");
  first_ = std::min(added.first, matrix.shape[0]);
  end_ = added.end();
}

data::SafetensorsInfo MatrixWithRows::info() const {
  data::SafetensorsInfo info = *matrix_;
  info.shape[0] = std::max(info.shape[0], end_);
  return info;
}

const std::vector<float>& MatrixWithRows::mean() const {
  std::call_once(mean_->made, [&] {
    const int64_t rows = matrix_->shape[0], width = matrix_->shape[1];
    std::vector<double> sums(static_cast<size_t>(width));
    std::vector<float> row(sums.size());
    for (int64_t i = 0; i < rows; ++i) {
      data::to_float32(*matrix_, i * width, row);
      for (size_t c = 0; c < row.size(); ++c) sums[c] += row[c];
    }
    for (double& sum : sums)
      mean_->row.push_back(static_cast<float>(sum / static_cast<double>(rows)));
  });
  return mean_->row;
}

data::NonFinite MatrixWithRows::read(int64_t first, std::span<float> to, int64_t step) const {
  const int64_t width = matrix_->shape[1], count = std::ssize(to);
  // The numbers from that element on are so many of `to` on.
  auto index_of = [&](int64_t element) {
    return static_cast<size_t>(
        std::clamp<int64_t>(element <= first ? 0 : ceil_div(element - first, step), 0, count));
  };
  const size_t begin = index_of(first_ * width), end = index_of(end_ * width);
  data::NonFinite odd;
  auto read_file = [&](size_t from, size_t until) {
    if (from == until) return;
    const data::NonFinite found = data::to_float32(
        *matrix_, first + static_cast<int64_t>(from) * step, to.subspan(from, until - from), step);
    odd.nan_count += found.nan_count;
    odd.infinity_count += found.infinity_count;
  };
  read_file(0, begin);
  for (size_t i = begin; i < end; ++i)
    to[i] = mean()[static_cast<size_t>((first + static_cast<int64_t>(i) * step) % width)];
  read_file(end, to.size());
  return odd;
}

}  // namespace longshore::trainer
