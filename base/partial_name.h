// Names of files and folders that are not finished.
#pragma once

#include <filesystem>

namespace longshore {

// Next to `path`, and this process's own.
std::filesystem::path partial_name(const std::filesystem::path& path);

// Removes what killed processes left in `folder` under such names, and under such names with a
// number behind them. No other process may be writing there. Throws FileError where the file system
// refuses.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace longshore
