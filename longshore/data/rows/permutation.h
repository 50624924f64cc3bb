// A random-looking order of [0, size) that needs no memory: place i of the order is computed from
// i. This is what lets a run of any length shuffle, and resume in the middle, without a table.
#pragma once

#include <array>
#include <cstdint>

#include "longshore/base/philox.h"

namespace longshore::data {

class Permutation {
 public:
  // What is ordered: something that has an order of its own beside others, and of that which part.
  struct Of {
    RandomUse use = RandomUse::data_order;
    uint64_t part = 0;  // below 2^62
  };

  // The order of epoch `epoch` (below 2^32) under `seed`. `size` is from 1 to 2^62.
  Permutation(uint64_t size, uint64_t seed, uint64_t epoch, Of of);
  Permutation(uint64_t size, uint64_t seed, uint64_t epoch)
      : Permutation(size, seed, epoch, Of{}) {}

  // A bijection of [0, size): which element stands at place `index` < size.
  uint64_t operator()(uint64_t index) const;

 private:
  uint64_t scramble(uint64_t value) const;

  static constexpr int kRounds = 8;

  uint64_t size_;
  int half_bits_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace longshore::data
