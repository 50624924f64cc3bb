// How a stored picture has to be turned to be upright, as cameras and editors write it into files.
//
// Metadata are not needed to see the picture, so nothing here is refused: what cannot be read says
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace longshore::data {

// With EXIF's numbers. To the stored picture is done, in this order, what the name says.
enum class Orientation : uint8_t {
  upright = 1,
  mirror = 2,  // left and right change places
  turn_around = 3,
  flip = 4,       // top and bottom change places
  transpose = 5,  // rows become columns
  turn_right = 6,
  transpose_and_turn_around = 7,
  turn_left = 8,
};

inline bool swaps_sides(Orientation orientation) { return orientation >= Orientation::transpose; }

// What an EXIF block says, with or without "Exif\0\0" before it: a TIFF header and its first
// directory.
std::optional<Orientation> exif_orientation(std::span<const std::byte> exif);

// What XMP says, which is XML.
std::optional<Orientation> xmp_orientation(std::string_view xmp);

}  // namespace longshore::data
