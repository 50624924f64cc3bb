#include "longshore/models/ir/memory_kind.h"

#include <cstddef>

namespace longshore::models {

const char* name(MemoryKind kind) {
  static constexpr std::array kNames{"device", "pinned_host", "unpinned_host"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace longshore::models
