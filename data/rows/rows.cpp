#include "data/rows/rows.h"

namespace longshore::data {

void Row::put(int64_t at, int32_t segment, std::span<const int32_t> sequence,
              std::span<const uint8_t> carries_loss) const {
  for (size_t i = 0; i + 1 < sequence.size(); ++i) {
    const size_t to = static_cast<size_t>(at) + i;
    tokens[to] = sequence[i];
    targets[to] = carries_loss[i + 1] ? sequence[i + 1] : kIgnoredTarget;
    positions[to] = static_cast<int32_t>(i);
    segments[to] = segment;
  }
}

}  // namespace longshore::data
