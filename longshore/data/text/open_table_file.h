// open_table_file() opens a Parquet or Arrow file.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "longshore/data/files/text_format.h"
#include "longshore/data/text/record_reader.h"

namespace longshore::data {

// What reads such files is a library of its own, beside the programs, that a build has for which
// scripts/setup --parquet was run. `columns` are those to read, as open_records() has them. Throws
// a DataError that names the file when it cannot be opened, has no columns, or there is no such
// library.
std::unique_ptr<RecordReader> open_table_file(
    const std::filesystem::path& path, TextFormat format,
    const std::optional<std::vector<std::string>>& columns);

}  // namespace longshore::data
