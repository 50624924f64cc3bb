// CRC-32C (Castagnoli; RFC 3720, appendix B.4), with which records of event files are checked.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace longshore::data {

constexpr uint32_t crc32c(std::string_view bytes) {
  constexpr auto kTable = [] {
    constexpr uint32_t kPolynomial = 0x82f63b78;  // its bits in reverse
    std::array<uint32_t, 256> table{};
    for (uint32_t byte = 0; byte < table.size(); ++byte) {
      table[byte] = byte;
      for (int bit = 0; bit < 8; ++bit)
        table[byte] = table[byte] >> 1 ^ (table[byte] & 1 ? kPolynomial : 0);
    }
    return table;
  }();
  uint32_t crc = ~uint32_t{0};
  for (char byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

}  // namespace longshore::data
