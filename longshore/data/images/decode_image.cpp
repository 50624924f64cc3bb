#include "longshore/data/images/decode_image.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/images/decode_jpeg.h"
#include "longshore/data/images/decode_png.h"
#include "longshore/data/images/turn_image.h"

namespace longshore::data {
namespace {

using Bytes = std::span<const std::byte>;
using namespace std::string_view_literals;

constexpr auto kPng = "\x89PNG\r\n\x1a\n"sv, kJpeg = "\xff\xd8\xff"sv;

// What else is called an image, or is found where one should be.
struct Magic {
  size_t at;
  std::string_view text;
  const char* name;
};
constexpr std::array kOthers = std::to_array<Magic>({
    {0, "GIF8", "GIF"},
    {8, "WEBP", "WebP"},
    {0, "BM", "BMP"},
    {0, "II*\0"sv, "TIFF"},
    {0, "MM\0*"sv, "TIFF"},
    {4, "ftypavif", "AVIF"},
    {4, "ftyp", "HEIF or a video"},
    {0, "\xff\x0a", "JPEG XL"},
    {4, "JXL \r\n", "JPEG XL"},
    {4, "jP  \r\n", "JPEG 2000"},
    {0, "\xff\x4f\xff\x51", "JPEG 2000"},
    {0, "\0\0\1\0"sv, "an icon"},
    {0, "8BPS", "a Photoshop file"},
    {0, "%PDF", "PDF"},
    {0, "<svg", "SVG"},
    {0, "<?xml", "XML"},
    {0, "<!DOCTYPE", "HTML"},
    {0, "<!doctype", "HTML"},
    {0, "<html", "HTML"},
    {0, "version https://git-lfs", "a pointer of Git LFS, not the file itself"},
});

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void refuse_format(std::string_view file) {
  constexpr size_t kMostShown = 16;
  std::string found = file.empty() ? "nothing" : in_quotes(file.substr(0, kMostShown));
  for (const Magic& magic : kOthers)
    if (file.size() > magic.at && file.substr(magic.at).starts_with(magic.text)) {
      found = magic.name;
      break;
    }
  throw DataError("found " + found + ", expected PNG or JPEG");
}

// Or else JPEG.
bool is_png(Bytes file) {
  if (text_of(file).starts_with(kPng)) return true;
  if (text_of(file).starts_with(kJpeg)) return false;
  refuse_format(text_of(file));
}

std::string text(ImageSize size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height) + " pixels";
}

void check_sides(ImageSize size) {
  for (int64_t side : {size.width, size.height})
    if (side < 1 || side > kMaxImageSide)
      throw DataError("found " + text(size) + ", expected sides from 1 to " +
                      std::to_string(kMaxImageSide));
}

}  // namespace

ImageSize image_size(Bytes file) {
  const ImageSize size = is_png(file) ? png_size(file) : jpeg_size(file);
  check_sides(size);
  return size;
}

Image decode_image(Bytes file, const DecodeOptions& options) {
  const ImageSize size = image_size(file);
  if (size.width * size.height > options.max_pixels)
    throw DataError("found " + text(size) + ", expected at most " +
                    std::to_string(options.max_pixels) + " pixels");
  DecodedImage decoded =
      is_png(file) ? decode_png(file, options.transparent_color) : decode_jpeg(file);
  return turn_image(std::move(decoded.image), decoded.orientation);
}

}  // namespace longshore::data
