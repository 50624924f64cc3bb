// open_records() opens a file of records by what its name says of it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/record_reader.h"

namespace longshore::data {

// See TextFormat. `columns` are those that will be looked at, by default all: the values of others
// may be null in the place of what the file has, which spares reading them. Throws a DataError that
// names the file when it cannot be opened, and, with the line, where a table's first row names no
// columns.
std::unique_ptr<RecordReader> open_records(
    const std::filesystem::path& path,
    const std::optional<std::vector<std::string>>& columns = std::nullopt);

}  // namespace longshore::data
