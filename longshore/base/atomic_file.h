// An AtomicFile appears under its name whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "longshore/base/file_descriptor.h"

namespace longshore {

// Whether a name may be a link, as a user may make of an output's; then the file that it leads to
// is written, be it there or not. In a folder of others, such as a resumed run's, it may not.
enum class Links { followed, refused };

// A file that is written next to its final name and then renamed: any number of appends, then
// finish(). Without finish() nothing is left over, unless the process is killed, and what had the
// name before stays. Throws FileError where the file system refuses.
class AtomicFile {
 public:
  // Throws FileError where something else than a file has the name, as a folder, before the caller
  // has made anything to write.
  explicit AtomicFile(std::filesystem::path path, Links links = Links::followed);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text);

  // Replaces the first bytes, which must have been appended.
  void overwrite_start(std::span<const std::byte> bytes);

  // Gives the file its name. Its contents and its name are then synced to the disk.
  void finish();

 private:
  void flush();
  void write_out(std::span<const std::byte> bytes);
  [[noreturn]] void fail(std::string_view what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_path_;
  FileDescriptor file_;
  int64_t written_ = 0;       // bytes
  int64_t on_their_way_ = 0;  // the first bytes, whose writing to the disk has begun
  std::vector<std::byte> buffer_;
};

// Writes an AtomicFile whose contents are known as a whole.
void write_file(const std::filesystem::path& path, std::string_view contents,
                Links links = Links::followed);

// Syncs the names in `folder` to the disk where the file system can. Files that were synced are
// complete either way.
void sync_folder(const std::filesystem::path& folder);

// Throws a ConfigError where `output` is, or links to, one of the files that it is made from.
void require_no_input(const std::filesystem::path& output,
                      std::span<const std::filesystem::path> inputs);

}  // namespace longshore
