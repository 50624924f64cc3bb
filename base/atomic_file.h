// Files that are there whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace longshore {

// Written beside its name and renamed: any number of appends, then finish(). Without finish()
// nothing is left behind, and what stood under the name stays. Trouble with the file system is a
// DataError.
class AtomicFile {
 public:
  // Throws where a folder has the name, before there is anything to write.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text);

  // In the place of the first bytes, which must have been appended.
  void overwrite_start(std::span<const std::byte> bytes);

  // Puts the file under its name, for good: contents and name are synced to the disk.
  void finish();

 private:
  void flush();
  void write_out(std::span<const std::byte> bytes);
  [[noreturn]] void fail(std::string_view what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_path_;
  int file_ = -1;
  int64_t written_ = 0;       // bytes
  int64_t on_their_way_ = 0;  // of these, from the first on, to the disk
  std::vector<std::byte> buffer_;
};

// A file whose contents are there already, as an AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view contents);

// Throws a ConfigError where `output` is, or leads to, one of the files that what is written is
// made from.
void require_no_input(const std::filesystem::path& output,
                      std::span<const std::filesystem::path> inputs);

}  // namespace longshore
