// A CsvReader reads the rows of a table of text (RFC 4180).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/text/line_reader.h"
#include "longshore/data/text/record_reader.h"

namespace longshore::data {

// The first row names the columns. A field within quotation marks may have the separator, line
// breaks, which become "\n", and, twice each, quotation marks in it. Blank lines are no rows.
// Fields that a row lacks at its end are null.
class CsvReader final : public RecordReader {
 public:
  CsvReader(const std::filesystem::path& path, char separator);

  [[nodiscard]] bool next(std::string& record) override;
  int64_t line_number() const override { return first_line_; }

 private:
  [[nodiscard]] bool next_row(std::vector<std::string>& fields);
  // Where it ends within the line; reads on where it has line breaks.
  size_t quoted_field(size_t begin, std::string& field);
  [[noreturn]] void fail(const std::string& what) const;

  LineReader lines_;
  char separator_;
  std::vector<std::string> columns_;
  std::string line_;
  int64_t first_line_ = 0;
};

}  // namespace longshore::data
