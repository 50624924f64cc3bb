// Folders that are there whole or not at all.
#pragma once

#include <filesystem>

namespace longshore {

// Made beside its name and renamed: files are written into directory(), then finish(). Without
// finish() nothing is left behind. Trouble with the file system is a DataError.
class AtomicFolder {
 public:
  // Throws a ConfigError when there is something under the name, other than an empty folder; it
  // names the nearest that is free. Folders above it are made if need be.
  explicit AtomicFolder(const std::filesystem::path& path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where it is until finish().
  const std::filesystem::path& directory() const { return temporary_path_; }

  // Puts the folder under its name, for good: the names are synced to the disk, the files are to be
  // already (as AtomicFile's are).
  void finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_path_;
  bool is_finished_ = false;
};

// Removes what processes that were killed left of their AtomicFiles and AtomicFolders in `folder`,
// where nobody else may be writing. Trouble with the file system is a DataError.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace longshore
