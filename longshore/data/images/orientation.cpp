#include "longshore/data/images/orientation.h"

#include <array>

namespace longshore::data {
namespace {

using Bytes = std::span<const std::byte>;

// Other numbers change nothing.
Orientation orientation_of(uint32_t number) {
  return number >= 1 && number <= 8 ? Orientation{static_cast<uint8_t>(number)}
                                    : Orientation::upright;
}

bool starts_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() &&
         std::string_view(reinterpret_cast<const char*>(bytes.data()), text.size()) == text;
}

// Numbers of a TIFF file, in its order of bytes; 0 for what is not in the file.
class TiffNumbers {
 public:
  TiffNumbers(Bytes tiff, bool is_big_endian) : tiff_(tiff), is_big_endian_(is_big_endian) {}

  bool has(uint64_t at, uint64_t size) const {
    return size <= tiff_.size() && at <= tiff_.size() - size;
  }
  uint32_t one(uint64_t at) const { return number(at, 1); }
  uint32_t two(uint64_t at) const { return number(at, 2); }
  uint32_t four(uint64_t at) const { return number(at, 4); }

 private:
  uint32_t number(uint64_t at, uint64_t size) const {
    if (!has(at, size)) return 0;
    uint32_t value = 0;
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t next = is_big_endian_ ? i : size - 1 - i;
      value = value << 8 | std::to_integer<uint32_t>(tiff_[at + next]);
    }
    return value;
  }

  Bytes tiff_;
  bool is_big_endian_;
};

// Bytes of a value of each TIFF type; 0 for those that there are not.
constexpr std::array<uint64_t, 14> kTypeBytes = {0, 1, 1, 2, 4, 8, 1, 1, 2, 4, 8, 4, 8, 4};

// The directory's entry at `at`, unless its value is empty or not all there.
std::optional<Orientation> read_entry(const TiffNumbers& tiff, uint64_t at) {
  const uint32_t type = tiff.two(at + 2), count = tiff.four(at + 4);
  const uint64_t unit = type < kTypeBytes.size() ? kTypeBytes[type] : 0, bytes = unit * count;
  // Four bytes are kept in place of their offset.
  const uint64_t value = bytes <= 4 ? at + 8 : tiff.four(at + 8);
  if (bytes == 0 || !tiff.has(value, bytes)) return std::nullopt;
  constexpr uint32_t kShort = 3, kLong = 4, kSignedByte = 6, kSignedShort = 8, kSignedLong = 9,
                     kDirectory = 13;
  switch (type) {
    case kSignedByte:
      return orientation_of(tiff.one(value));
    case kShort:
    case kSignedShort:
      return orientation_of(tiff.two(value));
    case kLong:
    case kSignedLong:
    case kDirectory:
      return orientation_of(tiff.four(value));
    default:
      return Orientation::upright;  // as with a number out of range
  }
}

}  // namespace

std::optional<Orientation> exif_orientation(Bytes exif) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  // Some write it twice.
  for (int i = 0; i < 2; ++i)
    if (starts_with(exif, kPrefix)) exif = exif.subspan(kPrefix.size());
  const bool is_big_endian = starts_with(exif, "MM");
  if (!is_big_endian && !starts_with(exif, "II")) return std::nullopt;
  const TiffNumbers tiff(exif, is_big_endian);
  constexpr uint32_t kMagic = 42, kSwappedMagic = 42 << 8, kOrientation = 274;
  if (tiff.two(2) != kMagic && tiff.two(2) != kSwappedMagic) return std::nullopt;
  constexpr uint64_t kCountBytes = 2, kEntryBytes = 12;
  const uint64_t directory = tiff.four(4);
  const uint64_t count = tiff.two(directory);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = directory + kCountBytes + i * kEntryBytes;
    if (!tiff.has(at, kEntryBytes)) break;
    if (tiff.two(at) != kOrientation) continue;
    if (const auto orientation = read_entry(tiff, at)) return orientation;
  }
  return std::nullopt;
}

std::optional<Orientation> xmp_orientation(std::string_view xmp) {
  constexpr std::string_view kKey = "tiff:Orientation";
  // An attribute or an element.
  for (size_t at = xmp.find(kKey); at != xmp.npos; at = xmp.find(kKey, at)) {
    at += kKey.size();
    std::string_view rest = xmp.substr(at);
    if (rest.starts_with("=\""))
      rest.remove_prefix(2);
    else if (rest.starts_with('>'))
      rest.remove_prefix(1);
    else
      continue;
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9')
      return orientation_of(static_cast<uint32_t>(rest[0] - '0'));
  }
  return std::nullopt;
}

}  // namespace longshore::data
