// Memory planning as a pure function: offsets in an arena for buffers whose lifetimes are known.
#pragma once

#include <cstdint>
#include <span>

namespace longshore::offload {

// The size and the lifetime of a buffer, or of several that share their place, and that place.
struct BufferLifetime {
  int64_t bytes = 0;
  // The first and the last instruction of its life. With first > last it lives from the beginning
  // to `last`, and again from `first` to the end.
  int first = 0, last = 0;
  int64_t offset = 0;     // bytes from the arena's start, aligned: the result, unless it is fixed
  bool is_fixed = false;  // whether the offset is given and must stay
};

// Gives every buffer an offset such that buffers that are live at the same time never overlap;
// returns the arena's size in bytes. Greedy: each buffer in turn is put at the lowest offset that
// is free throughout its life (cf. Pisarchyk & Lee 2020, arXiv 2001.03288). Three orders are tried,
// and the smallest arena is taken: by bytes times length of life, by birth, and by bytes.
int64_t assign_offsets(std::span<BufferLifetime> buffers);

}  // namespace longshore::offload
