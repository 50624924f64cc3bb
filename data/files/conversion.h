// conversion_command() gives the shell command that makes text for training of a file in another
// format.
#pragma once

#include <filesystem>
#include <string>

namespace longshore::data {

// The command that makes a .jsonl, or what a compressed file holds, of a file whose name says that
// it has another format than text_format() knows; "" for other names. Those for Parquet and Arrow
// need pandas and pyarrow.
std::string conversion_command(const std::filesystem::path& path);

}  // namespace longshore::data
