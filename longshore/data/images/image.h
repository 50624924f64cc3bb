// An Image is a picture in memory: RGB of 8 bits a channel, rows from top to bottom, without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace longshore::data {

struct ImageSize {
  int64_t width = 0, height = 0;
  bool operator==(const ImageSize&) const = default;
};

inline constexpr int64_t kChannels = 3;

struct Image : ImageSize {
  std::vector<uint8_t> pixels;  // [height, width, kChannels]
  bool operator==(const Image&) const = default;

  uint8_t* row(int64_t y) { return pixels.data() + y * width * kChannels; }
  const uint8_t* row(int64_t y) const { return pixels.data() + y * width * kChannels; }
};

// All black.
inline Image make_image(ImageSize size) {
  return {size, std::vector<uint8_t>(static_cast<size_t>(size.width * size.height * kChannels))};
}

}  // namespace longshore::data
