// open_records() opens a file of records by what its name says of it; each_record() goes through
// one.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/text/record_reader.h"

namespace longshore::data {

// See TextFormat. `columns` are those that will be looked at, by default all: the values of others
// may be null in the place of what the file has, which spares reading them. Throws a DataError that
// names the file when it cannot be opened, and, with the line, where a table's first row names no
// columns.
std::unique_ptr<RecordReader> open_records(
    const std::filesystem::path& path,
    const std::optional<std::vector<std::string>>& columns = std::nullopt);

// Gives `take` what `read` makes of each record, and the record's place, "FILE:LINE". Throws as
// open_records() does; a DataError of `read` gets the place before it.
template <typename Record>
void each_record(const std::filesystem::path& path, const std::vector<std::string>& columns,
                 Record (*read)(std::string_view),
                 const std::function<void(Record, const std::string&)>& take) {
  const auto reader = open_records(path, columns);
  for (std::string text; reader->next(text);) {
    const std::string place = path_text(path) + ":" + std::to_string(reader->line_number());
    Record record;
    try {
      record = read(text);
    } catch (const DataError& error) {
      throw DataError(place + ": " + error.what());
    }
    take(std::move(record), place);
  }
}

}  // namespace longshore::data
