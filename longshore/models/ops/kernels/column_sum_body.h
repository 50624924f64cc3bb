// ColumnSumBody sums a matrix's columns in a fixed order: it adds up ranges of rows that were
// summed apart.
#pragma once

#include "longshore/models/ops/kernels/thread_group.h"

namespace longshore::models {

// A block sums kColumns columns: slices of the rows at the same time, each in order, and then the
// slices in order.
struct ColumnSumBody {
  static constexpr int kThreads = kBlockThreads;
  static constexpr int64_t kColumns = 32;

  const float* matrix;  // [rows, width]
  int64_t rows, width;
  const float* so_far;  // is added to; null where there is nothing yet. May be `result`
  float* result;        // [width]

  static int64_t scratch_bytes(int threads) {
    return threads / kColumns * kColumns * static_cast<int64_t>(sizeof(float));
  }

  template <class Group>
  LONGSHORE_BODY void operator()(Group& group, int64_t index) const {
    const int64_t first = index * kColumns;
    const int64_t columns = width - first < kColumns ? width - first : kColumns;
    const int64_t slices = group.threads() / kColumns;
    float* sums = group.template scratch<float>();
    group.for_each(slices * kColumns, [&](int64_t i) {
      const int64_t column = i % kColumns, slice = i / kColumns;
      if (column >= columns) return;
      const int64_t begin = rows * slice / slices, end = rows * (slice + 1) / slices;
      float sum = 0;
      LONGSHORE_UNROLL(8)
      for (int64_t row = begin; row < end; ++row) sum += matrix[row * width + first + column];
      sums[i] = sum;
    });
    group.sync();
    group.for_each(columns, [&](int64_t column) {
      float sum = 0;
      for (int64_t slice = 0; slice < slices; ++slice) sum += sums[slice * kColumns + column];
      const int64_t at = first + column;
      result[at] = so_far ? so_far[at] + sum : sum;
    });
  }
};

template <class Launcher>
void launch_column_sum(const ColumnSumBody& body, const Launcher& launcher) {
  launcher(body, ceil_div(body.width, ColumnSumBody::kColumns),
           ColumnSumBody::scratch_bytes(launcher.template threads<ColumnSumBody>()));
}

}  // namespace longshore::models
