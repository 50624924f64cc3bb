#include "longshore/data/images/image_source.h"

#include <algorithm>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/images/base64.h"

namespace longshore::data {
namespace {

// "https" of "https://a/b.png", in the form of a URL's scheme; "" where there is none.
std::string_view scheme_of(std::string_view text) {
  const std::string_view scheme = text.substr(0, std::min(text.find("://"), text.size()));
  constexpr size_t kMostOfScheme = 16;
  const bool is_scheme =
      scheme.size() < text.size() && scheme.size() <= kMostOfScheme && !scheme.empty() &&
      std::ranges::all_of(scheme, [](char c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; });
  return is_scheme ? scheme : std::string_view();
}

}  // namespace

ImageSource parse_image_source(std::string_view text) {
  for (const char* begin : {"data:", "iVBORw0KGgo", "/9j/"})
    if (text.starts_with(begin))
      return {.kind = ImageSource::Kind::embedded, .path = {}, .bytes = decode_base64_image(text)};
  if (!scheme_of(text).empty())
    throw DataError("found " + in_quotes(text) +
                    ", expected the path of a file here, or base64: nothing is downloaded");
  if (text.empty() || text.find('\0') != text.npos)
    throw DataError("found " + in_quotes(text) + ", expected the path of a file, or base64");
  return {.kind = ImageSource::Kind::path, .path = std::string(text), .bytes = {}};
}

}  // namespace longshore::data
