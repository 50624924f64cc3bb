// conversion_command() gives the shell command that unpacks a file which is not read as it is.
#pragma once

#include <filesystem>
#include <string>

namespace longshore::data {

// The command that makes a file of what a compressed one holds, by its name, where text_format()
// does not know that; "" for other names.
std::string conversion_command(const std::filesystem::path& path);

}  // namespace longshore::data
