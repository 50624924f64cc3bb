#include "longshore/data/images/turn_image.h"

#include <algorithm>
#include <cstring>

namespace longshore::data {
namespace {

// Where the upright picture's pixels lie in the stored one: that at (x, y) begins at the byte
// first + x * right + y * down.
struct Walk {
  int64_t first, right, down;
};

Walk walk_of(ImageSize stored, Orientation orientation) {
  const int64_t pixel = kChannels, row = stored.width * kChannels;
  const int64_t end_of_row = row - pixel, last_row = (stored.height - 1) * row;
  switch (orientation) {
    case Orientation::upright:
      return {0, pixel, row};
    case Orientation::mirror:
      return {end_of_row, -pixel, row};
    case Orientation::turn_around:
      return {last_row + end_of_row, -pixel, -row};
    case Orientation::flip:
      return {last_row, pixel, -row};
    case Orientation::transpose:
      return {0, row, pixel};
    case Orientation::turn_right:
      return {last_row, -row, pixel};
    case Orientation::transpose_and_turn_around:
      return {last_row + end_of_row, -row, -pixel};
    case Orientation::turn_left:
      return {end_of_row, row, -pixel};
  }
  return {};
}

}  // namespace

Image turn_image(Image image, Orientation orientation) {
  if (orientation == Orientation::upright) return image;
  const Walk walk = walk_of(image, orientation);
  Image turned = make_image(swaps_sides(orientation) ? ImageSize{image.height, image.width}
                                                     : ImageSize{image.width, image.height});
  // By squares, since a column's pixels lie in as many cache lines.
  constexpr int64_t kSide = 32;
  for (int64_t top = 0; top < turned.height; top += kSide)
    for (int64_t left = 0; left < turned.width; left += kSide)
      for (int64_t y = top; y < std::min(top + kSide, turned.height); ++y) {
        const uint8_t* from = image.pixels.data() + walk.first + y * walk.down;
        uint8_t* to = turned.row(y);
        for (int64_t x = left; x < std::min(left + kSide, turned.width); ++x)
          std::memcpy(to + x * kChannels, from + x * walk.right, kChannels);
      }
  return turned;
}

}  // namespace longshore::data
