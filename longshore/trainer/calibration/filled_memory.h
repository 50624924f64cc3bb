// Memory with numbers in it, for kernels and copies that are timed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "longshore/models/ir/types.h"
#include "longshore/offload/backends/backend.h"

namespace longshore::trainer {

enum class Contents {
  ordinary,  // floats as ordinary_numbers() gives them, which products take as long for as in
             // training
  small,     // small positive floats, which every op accepts
};

// Memory of one kind that is freed at the end of its scope.
class FilledMemory {
 public:
  // Numbers of the type's dtype fill `bytes` bytes, if that is float32, bfloat16 or, as ids of
  // tokens, int32. Else all bytes are 0.
  FilledMemory(offload::Backend& backend, offload::MemoryKind kind, models::Dtype dtype,
               int64_t bytes, Contents contents);
  FilledMemory(FilledMemory&& other) noexcept;
  FilledMemory& operator=(FilledMemory&&) = delete;
  ~FilledMemory();

  std::byte* get() const { return memory_; }

 private:
  offload::Backend& backend_;
  offload::MemoryKind kind_;
  std::byte* memory_;
};

}  // namespace longshore::trainer
