// Writes safetensors files, byte for byte as the safetensors library writes the same tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "longshore/base/atomic_file.h"
#include "longshore/data/safetensors/safetensors.h"

namespace longshore::data {

// The order in which the safetensors library stores tensors: dtypes from int64 down to boolean (so
// that all data is aligned), equal ones by name.
std::vector<SafetensorsInfo> sorted_as_safetensors(std::vector<SafetensorsInfo> tensors);

// One file. What it will hold is known first, so that the header can be written first; the data
// follows in that order, in pieces of any size. The metadata is {"format": "pt"}, which
// transformers asks for. The file appears under its name whole or not at all (see AtomicFile).
//
// Throws FileError where the file system refuses; names that are not unique, not UTF-8 or
// "__metadata__", and data that does not fit what was announced, are InternalErrors.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::filesystem::path path, std::vector<SafetensorsInfo> tensors,
                    Links links = Links::followed);

  // The next bytes of tensor `name`, which must be the one whose turn it is.
  void append(std::string_view name, std::span<const std::byte> bytes);

  // Puts the file under its name, for good. All data must have been appended.
  void finish();

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void skip_complete();

  AtomicFile file_;
  std::vector<SafetensorsInfo> tensors_;
  size_t next_ = 0;         // the tensor whose turn it is
  int64_t next_bytes_ = 0;  // what it still lacks
};

}  // namespace longshore::data
