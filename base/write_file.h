// Files that are there whole or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace longshore {

// Through a temporary name beside it. Throws Error, and leaves what was there, when it cannot be
// written.
void write_file(const std::filesystem::path& path, const std::string& content);

}  // namespace longshore
