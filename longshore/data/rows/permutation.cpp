#include "longshore/data/rows/permutation.h"

#include <algorithm>
#include <bit>
#include <string>

#include "longshore/base/error.h"
#include "longshore/base/split_mix.h"

namespace longshore::data {

Permutation::Permutation(uint64_t size, uint64_t seed, uint64_t epoch, Of of) : size_(size) {
  if (size < 1 || size > uint64_t{1} << 62 || epoch >> 32)
    throw InternalError("permutation of " + std::to_string(size) + " elements in epoch " +
                        std::to_string(epoch));
  half_bits_ = std::max(1, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2);
  for (uint64_t i = 0; i < kRounds / 2; ++i) {
    const PhiloxBlock random =
        philox(seed, of.use, static_cast<uint32_t>(epoch), of.part * (kRounds / 2) + i);
    keys_[2 * i] = uint64_t{random[0]} << 32 | random[1];
    keys_[2 * i + 1] = uint64_t{random[2]} << 32 | random[3];
  }
}

// A Feistel network: a bijection of [0, 4^half_bits_), whatever its round function is.
uint64_t Permutation::scramble(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t key : keys_) {
    const uint64_t next = left ^ (split_mix(right ^ key) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

uint64_t Permutation::operator()(uint64_t index) const {
  if (index >= size_)
    throw InternalError("place " + std::to_string(index) + " of " + std::to_string(size_));
  // The network's domain is less than four times too large. Simulating the cycle until it is back
  // in range keeps the bijection, and takes less than four steps on average.
  do {
    index = scramble(index);
  } while (index >= size_);
  return index;
}

}  // namespace longshore::data
