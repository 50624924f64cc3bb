// Images within text, as JSON has to hold them.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace longshore::data {

// The bytes that base64 (RFC 4648, section 4, with padding) stands for. Throws a DataError on
// anything else: spaces and line breaks, missing padding, bits that belong to no byte.
std::vector<std::byte> decode_base64(std::string_view text);

// Of an image's text, which may begin with "data:image/png;base64," or the same of JPEG.
std::vector<std::byte> decode_base64_image(std::string_view text);

}  // namespace longshore::data
