#include "longshore/data/images/patches.h"

#include <algorithm>

namespace longshore::data {

std::vector<float> to_patches(std::span<const float> planes, int64_t size, int64_t patch) {
  std::vector<float> patches(planes.size());
  auto to = patches.begin();
  for (int64_t top = 0; top < size; top += patch)
    for (int64_t left = 0; left < size; left += patch)
      for (int64_t channel = 0; channel < 3; ++channel)
        for (int64_t row = top; row < top + patch; ++row) {
          const auto from = planes.begin() + (channel * size + row) * size + left;
          to = std::copy(from, from + patch, to);
        }
  return patches;
}

}  // namespace longshore::data
