// Counts in sentences.
#pragma once

#include <cstdint>
#include <string>

namespace longshore {

// "1 token", "2 tokens": for nouns that take an s.
inline std::string plural(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace longshore
