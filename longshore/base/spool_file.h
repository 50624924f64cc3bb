// A SpoolFile holds bytes on the disk until they are wanted: in a file without a name, which nobody
// sees and which is gone with the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "longshore/base/file_descriptor.h"

namespace longshore {

class SpoolFile {
 public:
  // In the folder of `path`, which messages name; made when there is something to write.
  explicit SpoolFile(std::filesystem::path path) : path_(std::move(path)) {}

  // Throw FileError where the file system refuses.
  void append(std::span<const std::byte> bytes);
  // Hands all bytes over, piece by piece.
  void read(const std::function<void(std::span<const std::byte>)>& take);

  int64_t bytes() const { return bytes_; }

 private:
  void flush();
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  FileDescriptor writing_, reading_;  // the same file; open from the first flush on
  std::string buffer_;                // not yet in the file
  int64_t bytes_ = 0;
};

}  // namespace longshore
