#include "longshore/data/images/pixel_values.h"

#include <string>

#include "longshore/base/error.h"
#include "longshore/data/images/resize_image.h"

namespace longshore::data {
namespace {

// With the roundings of NumPy: to float32 after each step.
std::array<float, 256> values_of_bytes(const PixelSettings& settings, size_t channel) {
  const auto mean = static_cast<float>(settings.mean[channel]);
  const auto std = static_cast<float>(settings.std[channel]);
  std::array<float, 256> values;
  for (int byte = 0; byte < 256; ++byte)
    values[static_cast<size_t>(byte)] =
        (static_cast<float>(byte * settings.rescale_factor) - mean) / std;
  return values;
}

}  // namespace

void write_pixel_values(const Image& image, const PixelSettings& settings,
                        std::span<float> values) {
  if (static_cast<int64_t>(values.size()) != settings.value_count())
    throw UsageError("write_pixel_values: found room for " + std::to_string(values.size()) +
                     " values, expected " + std::to_string(settings.value_count()));
  const Image resized = resize_image(image, {settings.width, settings.height}, settings.resample);
  const size_t plane = values.size() / kChannels;
  for (size_t channel = 0; channel < kChannels; ++channel) {
    const std::array<float, 256> of_bytes = values_of_bytes(settings, channel);
    for (size_t i = 0; i < plane; ++i)
      values[channel * plane + i] = of_bytes[resized.pixels[i * kChannels + channel]];
  }
}

}  // namespace longshore::data
