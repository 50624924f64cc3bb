// PNG, with libpng. See decode_image.h for what becomes of colors.
#pragma once

#include <cstddef>
#include <span>

#include "longshore/data/images/decoded_image.h"
#include "longshore/data/images/transparent_color.h"

namespace longshore::data {

// Throw a DataError.
ImageSize png_size(std::span<const std::byte> file);
DecodedImage decode_png(std::span<const std::byte> file, TransparentColor transparent_color);

}  // namespace longshore::data
