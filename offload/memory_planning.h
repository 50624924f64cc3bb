// Memory planning as a pure function: places for blocks whose lifetimes are known.
#pragma once

#include <cstdint>
#include <span>

namespace longshore::offload {

struct Block {
  int64_t bytes = 0;
  int first = 0, last = 0;  // both included; first > last: to the end, and from the beginning
  int64_t offset = 0;       // the result, aligned
  bool is_fixed = false;    // the offset is given, and stays
};

// Gives every block an offset such that blocks alive at the same time never overlap; returns the
// arena's size. Greedy, each block at the lowest place that is free throughout its life (cf.
// Pisarchyk & Lee 2020, arXiv 2001.03288), in several orders, of which the best counts: by bytes
// times life, by birth, by bytes.
int64_t place(std::span<Block> blocks);

}  // namespace longshore::offload
