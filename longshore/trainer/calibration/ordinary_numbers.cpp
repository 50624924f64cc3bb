#include "longshore/trainer/calibration/ordinary_numbers.h"

#include <utility>

namespace longshore::trainer {

std::vector<uint32_t> ordinary_numbers(models::Dtype dtype, int64_t bytes) {
  std::vector<uint32_t> words(static_cast<size_t>((bytes + 3) / 4));
  // The random bits are sign and mantissa. A word holds one float32 or two bfloat16.
  const auto [random_bits, exponent] = dtype == models::Dtype::bfloat16
                                           ? std::pair{0x807f807fu, 0x3f003f00u}
                                           : std::pair{0x807fffffu, 0x3f000000u};
  uint32_t state = 12345;
  for (uint32_t& word : words) {
    state = state * 1664525 + 1013904223;
    word = ((state ^ state >> 15) & random_bits) | exponent;
  }
  return words;
}

}  // namespace longshore::trainer
