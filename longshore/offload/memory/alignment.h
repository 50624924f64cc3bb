// align_up() aligns places in memory: what a backend allocates, and what lies in an arena.
#pragma once

#include <cstdint>

#include "longshore/base/round_up.h"

namespace longshore::offload {

inline constexpr int64_t kArenaAlignment = 256;

constexpr int64_t align_up(int64_t bytes) { return round_up(bytes, kArenaAlignment); }

}  // namespace longshore::offload
