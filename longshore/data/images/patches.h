// to_patches() orders an image's pixels as a vision tower reads them: patch by patch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace longshore::data {

// Of planes [3,size,size] the patches, in rows from the top left on: [(size/patch)²,
// 3*patch*patch], in each channel by channel, row by row. `size` is a multiple of `patch`.
std::vector<float> to_patches(std::span<const float> planes, int64_t size, int64_t patch);

}  // namespace longshore::data
