// split_mix() mixes the bits of a number.
#pragma once

#include <cstdint>

namespace longshore {

// One to one, and every bit depends on all: the finisher of SplitMix64 (Steele, Lea and Flood
// 2014).
constexpr uint64_t split_mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace longshore
