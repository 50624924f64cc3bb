// The weights of pixels in resampling, for one axis, as Pillow has them.
#pragma once

#include <cstdint>
#include <vector>

#include "longshore/data/images/resample.h"

namespace longshore::data {

// Weights are multiples of 2^-kWeightBits.
inline constexpr int kWeightBits = 22;

// Of the pixel i of the result, weights[i * stride + k] is that of the pixel first[i] + k, where k
// is below `stride`. Beyond the filter's window weights are 0, and so they are beyond the axis.
struct ResizeWeights {
  int64_t stride = 0;
  std::vector<int64_t> first;
  std::vector<int32_t> weights;
};

// The stride is a multiple of `group`. Windows are moved to lie within an axis that is as long as
// the stride; in a shorter one each begins at 0.
ResizeWeights resize_weights(int64_t from, int64_t to, Resample resample, int64_t group);

}  // namespace longshore::data
