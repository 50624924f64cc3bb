// Reads files that are small by their nature, whatever others put there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace longshore::data {

// The text of a regular file. Throws a DataError that names it where it cannot be read or has more
// than so many MiB.
std::string read_small_file(const std::filesystem::path& path, uint64_t most_mib);

}  // namespace longshore::data
