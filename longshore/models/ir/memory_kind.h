// A MemoryKind says which of a machine's memories values are in.
#pragma once

#include <array>
#include <cstdint>

namespace longshore::models {

// Copies to and from `pinned_host` run at the same time as kernels; `unpinned_host` is ordinary,
// pageable host memory.
enum class MemoryKind : uint8_t { device, pinned_host, unpinned_host };
inline constexpr std::array kMemoryKinds{MemoryKind::device, MemoryKind::pinned_host,
                                         MemoryKind::unpinned_host};

const char* name(MemoryKind kind);

}  // namespace longshore::models
