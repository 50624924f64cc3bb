// Names of files and folders that are not finished.
#pragma once

#include <filesystem>

#include "base/file_descriptor.h"

namespace longshore {

// Next to `path`, and this process's own.
std::filesystem::path partial_name(const std::filesystem::path& path);

struct PartialFile {
  std::filesystem::path path;
  FileDescriptor descriptor;
};

// A new file under such a name with a number behind it: of processes that share a file system, two
// may have the same number. Files that killed processes left beside it, for the same `path`, are
// removed; those of living ones are locked, as this one is while it is open. Throws FileError where
// the file system refuses to make it.
PartialFile make_partial_file(const std::filesystem::path& path);

// Removes what killed processes left in `folder` under such names, and under such names with a
// number behind them. No other process may be writing there. Throws FileError where the file system
// refuses.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace longshore
