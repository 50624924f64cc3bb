// write_pixel_values() gives a vision tower's input: what transformers' image processors of SigLIP
// and Gemma 3 (without pan and scan) make of a picture.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "longshore/data/images/image.h"
#include "longshore/data/images/resample.h"

namespace longshore::data {

struct PixelSettings {
  int64_t height = 0, width = 0;  // to which a picture of any shape is resized
  Resample resample = Resample::bicubic;
  // A channel's value is (byte * rescale_factor - mean) / std.
  double rescale_factor = 1.0 / 255;
  std::array<double, kChannels> mean = {0.5, 0.5, 0.5}, std = {0.5, 0.5, 0.5};
  bool operator==(const PixelSettings&) const = default;

  int64_t value_count() const { return kChannels * height * width; }
};

// `values` is [kChannels, height, width].
void write_pixel_values(const Image& image, const PixelSettings& settings, std::span<float> values);

}  // namespace longshore::data
