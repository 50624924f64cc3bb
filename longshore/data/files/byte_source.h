// A ByteSource reads a file's bytes from front to back, and unpacks those of gzip and zstd, by the
// file's name.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace longshore::data {

// Memory does not grow with the file, however much is packed into it.
class ByteSource {
 public:
  // Throws a DataError that names the file when it cannot be opened, or is no regular file.
  static std::unique_ptr<ByteSource> open(const std::filesystem::path& path);
  virtual ~ByteSource() = default;

  // Fills `to`, as far as the file goes, and says how much that was: 0 at its end. Throws a
  // DataError that names the file when it cannot be read or unpacked, or ends in the middle.
  virtual size_t read(std::span<char> to) = 0;
};

}  // namespace longshore::data
