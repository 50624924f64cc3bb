// Writes GGUF files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/data/gguf/gguf.h"

namespace longshore::data {

// One file. What it will hold is known first, so that the head can be written first; the data
// follows in the tensors' order, in pieces of any size. The file appears under its name whole or
// not at all (see AtomicFile).
//
// Throws FileError where the file system refuses. InternalErrors: keys and names that are not
// unique, not UTF-8, empty or longer than llama.cpp has room for; tensors without elements, of more
// than four dimensions, or whose rows are no whole blocks; data that does not fit what was
// announced.
class GgufWriter {
 public:
  GgufWriter(std::filesystem::path path, std::span<const GgufEntry> entries,
             std::vector<GgufTensorInfo> tensors);

  // The next bytes of tensor `name`, which must be the one whose turn it is.
  void append(std::string_view name, std::span<const std::byte> bytes);

  // Puts the file under its name, for good. All data must have been appended.
  void finish();

 private:
  [[noreturn]] void fail(const std::string& what) const;

  AtomicFile file_;
  std::vector<GgufTensorInfo> tensors_;
  size_t next_ = 0;         // the tensor whose turn it is
  int64_t next_bytes_ = 0;  // what it still lacks
};

}  // namespace longshore::data
