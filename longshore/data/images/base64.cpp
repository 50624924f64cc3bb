#include "longshore/data/images/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"

namespace longshore::data {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kNoDigit = 255;

constexpr std::array<uint8_t, 256> kValues = [] {
  std::array<uint8_t, 256> values{};
  values.fill(kNoDigit);
  for (size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<uint8_t>(i);
  return values;
}();

constexpr size_t kGroup = 4;  // digits that make three bytes

[[noreturn]] void refuse(const std::string& fault) { throw DataError("base64: " + fault); }

uint32_t value_at(std::string_view text, size_t at) {
  const uint8_t value = kValues[static_cast<uint8_t>(text[at])];
  if (value == kNoDigit)
    refuse("found " + in_quotes(text.substr(at, 1)) + " at character " + std::to_string(at + 1) +
           ", expected A-Z, a-z, 0-9, + or /, and = at the end alone");
  return value;
}

}  // namespace

std::vector<std::byte> decode_base64(std::string_view text) {
  if (text.size() % kGroup != 0)
    refuse("found " + std::to_string(text.size()) +
           " characters, expected a multiple of 4: cut off, or without its padding (=)");
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  const size_t digits = text.size() - padding;
  std::vector<std::byte> bytes;
  bytes.reserve(text.size() / kGroup * 3);
  for (size_t at = 0; at < digits; at += kGroup) {
    const size_t count = std::min(kGroup, digits - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < kGroup; ++i) bits = bits << 6 | (i < count ? value_at(text, at + i) : 0);
    for (size_t i = 0; i + 1 < count; ++i)
      bytes.push_back(static_cast<std::byte>(bits >> (16 - 8 * i)));
    if ((bits & ((1u << (8 * (kGroup - count))) - 1)) != 0)
      refuse("found bits beyond the last byte, expected zeros: damaged");
  }
  return bytes;
}

std::vector<std::byte> decode_base64_image(std::string_view text) {
  constexpr std::string_view kData = "data:", kMark = ";base64,";
  if (!text.starts_with(kData)) return decode_base64(text);
  for (std::string_view type : {"image/png", "image/jpeg", "image/jpg"}) {
    std::string_view rest = text.substr(kData.size());
    if (!rest.starts_with(type)) continue;
    rest.remove_prefix(type.size());
    if (rest.starts_with(kMark)) return decode_base64(rest.substr(kMark.size()));
  }
  constexpr size_t kMostShown = 40;
  throw DataError("found " + in_quotes(text.substr(0, std::min(text.find(','), kMostShown))) +
                  ", expected data:image/png;base64, or data:image/jpeg;base64,");
}

}  // namespace longshore::data
