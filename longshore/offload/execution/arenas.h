// Memory that plans use in turn for their temporaries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "longshore/offload/backends/backend.h"
#include "longshore/offload/plan/plan.h"

namespace longshore::offload {

// Memory of one kind.
class Arena {
 public:
  Arena(Backend& backend, MemoryKind kind, int64_t bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* memory() const { return memory_; }
  int64_t bytes() const { return bytes_; }

 private:
  Backend& backend_;
  MemoryKind kind_;
  int64_t bytes_;
  std::byte* memory_;
};

// An arena of each kind that has temporaries: `device` and `pinned_host`.
class Arenas {
 public:
  // Each arena is as large as the largest of these plans needs. The backend must outlive this
  // object.
  Arenas(Backend& backend, const std::vector<const Plan*>& plans);

  const Arena& of(MemoryKind kind) const {
    return kind == MemoryKind::device ? device_ : pinned_host_;
  }

 private:
  Arena device_, pinned_host_;
};

}  // namespace longshore::offload
