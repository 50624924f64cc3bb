// decode_image() decodes PNG and JPEG files to the pixels that transformers' image processors take
// from them, to the byte. Those open the file of a path with Pillow, turn it upright as EXIF or XMP
// says, and make it RGB:
// - Grey is repeated. Of 16 bits a channel, colors keep the high byte; grey is cut off at 255, so
//   that a bright picture becomes white.
// - An alpha channel is dropped: what is transparent keeps the color below. A single transparent
//   color, which PNG has instead of a channel, becomes white where that is asked for.
// - CMYK is taken as inverted, as Adobe writes it. Color profiles and gamma are ignored.
//
// Files are untrusted. Unlike in Pillow, damaged data are refused even where a library would make
// pixels up, and so are animations. What a file can cost is bounded by its size and its pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "longshore/data/images/image.h"
#include "longshore/data/images/transparent_color.h"

namespace longshore::data {

// Beyond it Pillow takes a picture for a bomb.
inline constexpr int64_t kMaxImagePixels = 178'956'970;
inline constexpr int64_t kMaxImageSide = 1'000'000;

struct DecodeOptions {
  int64_t max_pixels = kMaxImagePixels;
  TransparentColor transparent_color = TransparentColor::white;
};

// Throws a DataError, without a file's name, on what is no PNG or JPEG, damaged or too large; the
// last before memory is taken for pixels.
Image decode_image(std::span<const std::byte> file, const DecodeOptions& options = {});

// As the header has it: of the stored picture, before it is turned. What decode_image() says of a
// header, it says too.
ImageSize image_size(std::span<const std::byte> file);

}  // namespace longshore::data
