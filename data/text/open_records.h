// open_records() opens a file of records by what its name says of it.
#pragma once

#include <filesystem>
#include <memory>

#include "data/text/record_reader.h"

namespace longshore::data {

// See TextFormat. Throws a DataError that names the file when it cannot be opened, and, with the
// line, where a table's first row names no columns.
std::unique_ptr<RecordReader> open_records(const std::filesystem::path& path);

}  // namespace longshore::data
