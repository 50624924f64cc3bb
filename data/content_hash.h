// A hash that tells whether bytes are still what they were: XXH3 of 128 bits
// (https://github.com/Cyan4973/xxHash), which is as fast as memory. It is no defence against
// intent.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace longshore::data {

// 32 hexadecimal digits, the same that `xxhsum -H2` prints.
std::string content_hash(std::span<const std::byte> bytes);

// Of a whole file. Throws a DataError that names the path when it cannot be opened.
std::string file_hash(const std::filesystem::path& path);

}  // namespace longshore::data
