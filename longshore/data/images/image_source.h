// An ImageSource says where an image's file is: under a path, or within the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace longshore::data {

struct ImageSource {
  enum class Kind : uint8_t { path, embedded };

  Kind kind = Kind::path;
  std::string path;              // of a file
  std::vector<std::byte> bytes;  // or what it holds
};

// Of what a line of JSON says of an image: a URI "data:image/png;base64,...", the base64 of a PNG
// or JPEG file by itself, which begins with "iVBORw0KGgo" or "/9j/", or else a path. Throws a
// DataError on base64 that is none, on a URL and on what can be no path.
ImageSource parse_image_source(std::string_view text);

}  // namespace longshore::data
