// Any bytes as an image: refused with a DataError, or a picture of the size that its header says,
// upright or on its side, which can be resized. So that not all of a changed PNG is refused, its
// chunks first get the sums that they should have.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/data/images/decode_image.h"
#include "longshore/data/images/resize_image.h"

namespace longshore::data {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

uint32_t crc(std::span<const uint8_t> bytes) {
  uint32_t sum = ~uint32_t{0};
  for (uint8_t byte : bytes) {
    sum ^= byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320 : 0);
  }
  return ~sum;
}

void correct_sums(std::span<uint8_t> file) {
  constexpr size_t kSignature = 8, kLength = 4, kType = 4, kSum = 4;
  for (size_t at = kSignature; at + kLength + kType + kSum <= file.size();) {
    size_t length = 0;
    for (size_t i = 0; i < kLength; ++i) length = length << 8 | file[at + i];
    const auto rest = file.subspan(at + kLength);
    if (rest.size() - kType - kSum < length) return;
    const uint32_t sum = crc(rest.first(kType + length));
    for (size_t i = 0; i < kSum; ++i)
      rest[kType + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += kLength + kType + length + kSum;
  }
}

void check_image(const Image& image) {
  require(image.width > 0 && image.height > 0);
  require(static_cast<int64_t>(image.pixels.size()) == image.width * image.height * kChannels);
  for (Resample resample : {Resample::bilinear, Resample::bicubic}) {
    const Image resized = resize_image(image, {5, 3}, resample);
    require(resized.pixels.size() == 5 * 3 * kChannels);
  }
}

void check(std::span<const std::byte> file) {
  for (TransparentColor color : {TransparentColor::white, TransparentColor::kept}) try {
      const Image image = decode_image(file, {.max_pixels = 1 << 16, .transparent_color = color});
      check_image(image);
      const ImageSize stored = image_size(file), upright = image;
      require(stored == upright || stored == ImageSize{upright.height, upright.width});
    } catch (const DataError& error) {
      // What a message quotes of the file is printable.
      require(std::string_view(error.what()).find('\n') == std::string_view::npos);
    }
}

}  // namespace
}  // namespace longshore::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> file(data, data + size);
  longshore::data::check(std::as_bytes(std::span(file)));
  if (size > 1 && file[1] == 'P') {
    longshore::data::correct_sums(file);
    longshore::data::check(std::as_bytes(std::span(file)));
  }
  return 0;
}
