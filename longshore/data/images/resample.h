// The filters by which pictures are resized.
#pragma once

namespace longshore::data {

// Bicubic with a = -0.5, as Pillow has it.
enum class Resample { bilinear, bicubic };

}  // namespace longshore::data
