// AddedRows says which rows of a vocabulary's matrices add_tokens adds.
#pragma once

#include <cstdint>

namespace longshore::trainer {

// The rows of `count` tokens from `first` on. A folder lacks them, or has them for no token.
struct AddedRows {
  int64_t first = 0, count = 0;

  int64_t end() const { return first + count; }
  bool operator==(const AddedRows&) const = default;
};

}  // namespace longshore::trainer
