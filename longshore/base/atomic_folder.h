// An AtomicFolder appears under its name whole or not at all.
#pragma once

#include <filesystem>

#include "longshore/base/partial_name.h"

namespace longshore {

// A folder that is made next to its final name and then renamed: files are written into
// directory(), then finish(). Without finish() nothing is left over, and of what was killed nothing
// once the same folder is made again. Throws FileError where the file system refuses.
class AtomicFolder {
 public:
  // Throws a ConfigError where something other than an empty folder has the name; its message
  // suggests the nearest name that is free. Missing parent folders are made.
  explicit AtomicFolder(const std::filesystem::path& path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where the files go until finish().
  const std::filesystem::path& directory() const { return temporary_.path; }

  // Gives the folder its name. The names are then synced to the disk; the files have to be synced
  // before, as an AtomicFile is.
  void finish();

 private:
  std::filesystem::path path_;
  PartialFile temporary_;
  bool is_finished_ = false;
};

}  // namespace longshore
