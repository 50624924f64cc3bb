// The inner loops of resize_image(): each makes one row of a result.
#pragma once

#include <cstdint>
#include <span>

#include "longshore/data/images/resize_weights.h"

namespace longshore::data {

// Strides of weights along a row are multiples of it.
inline constexpr int64_t kPixelGroup = 4;

struct ResizeKernels {
  const char* name;
  // Each pixel as a sum of pixels of the row `from`, which has those that have weights.
  void (*resample_row)(const uint8_t* from, const ResizeWeights& weights, uint8_t* to);
  // The row as a sum of as many rows, from `rows` on, as there are weights.
  void (*add_rows)(const uint8_t* rows, int64_t row_bytes, std::span<const int32_t> weights,
                   uint8_t* to);
};

// Those that this processor can run, the fastest first. All give the same.
std::span<const ResizeKernels> resize_kernels();

}  // namespace longshore::data
