// JPEG, with libjpeg-turbo. See decode_image.h for what becomes of colors.
#pragma once

#include <cstddef>
#include <span>

#include "longshore/data/images/decoded_image.h"

namespace longshore::data {

// A scan passes over the whole picture, however short it is in the file; encoders make about ten.
inline constexpr int kMaxJpegScans = 100;

// Throw a DataError.
ImageSize jpeg_size(std::span<const std::byte> file);
DecodedImage decode_jpeg(std::span<const std::byte> file);

}  // namespace longshore::data
