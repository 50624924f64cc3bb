// A FileMapping maps a file for reading, so that its bytes are read where they lie.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace longshore::data {

// In which order a file's bytes will be read.
enum class Access { from_front_to_back, anywhere };

// A regular file, or a link to one, mapped for reading. While it is mapped it may be replaced (by
// rename). If it is shortened, reading what is gone ends the process with a message that names the
// file, and exit code 1: the kernel's signal comes to whatever thread reads, in the midst of a
// kernel or a library, so that there is nothing to go back to. Movable; the bytes stay where they
// are.
class FileMapping {
 public:
  // Throws a DataError that names the path when it cannot be opened or is no regular file.
  FileMapping(const std::filesystem::path& path, Access access);
  ~FileMapping();
  FileMapping(FileMapping&& other) noexcept;
  FileMapping& operator=(FileMapping&&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace longshore::data
