// Files that are read where they lie.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace longshore::data {

// A regular file, or a link to one, mapped for reading from front to back. While it is mapped it
// may be replaced (by rename), but not be shortened. Movable; the bytes stay where they are.
class FileMapping {
 public:
  // Throws a DataError that names the path when it cannot be opened or is no regular file.
  explicit FileMapping(const std::filesystem::path& path);
  ~FileMapping();
  FileMapping(FileMapping&& other) noexcept;
  FileMapping& operator=(FileMapping&&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace longshore::data
