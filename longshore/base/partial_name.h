// Names of files and folders that are not finished.
#pragma once

#include <filesystem>

#include "longshore/base/file_descriptor.h"

namespace longshore {

// Next to `path`, with this process's number. Of processes that share a file system, two may have
// the same.
std::filesystem::path partial_name(const std::filesystem::path& path);
// With another number after it, of the caller's choice.
std::filesystem::path partial_name(const std::filesystem::path& path, int number);

struct PartialFile {
  std::filesystem::path path;
  FileDescriptor descriptor;
};

// A new file under the first such name that is free. Files that killed processes left beside it,
// for the same `path`, are removed; those of living ones are locked, as this one is while it is
// open. Throws FileError where the file system refuses to make it.
PartialFile make_partial_file(const std::filesystem::path& path);

// A new folder likewise, locked while the descriptor is open; folders that killed processes left
// beside it, for the same `path`, are removed.
PartialFile make_partial_folder(const std::filesystem::path& path);

// Removes what killed processes left in `folder` under such names. No other process may be writing
// there. Throws FileError where the file system refuses.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace longshore
