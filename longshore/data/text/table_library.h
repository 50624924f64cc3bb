// longshore_open_table() reads Parquet and Arrow files: all that the library liblongshore_tables.so
// exports, which is loaded when such a file is opened. It is apart since it links Arrow's
// libraries, which are only there for those who asked for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "longshore/data/text/record_reader.h"

namespace longshore::data {

struct TableFile {
  std::string_view bytes;  // of the whole file; they must outlive the reader
  std::string name;        // as messages give it
  bool is_parquet = false;
  // Those to read, where they are there; nullptr for all. Others have null in every record.
  const std::vector<std::string>* columns = nullptr;
};

}  // namespace longshore::data

// A row is a record, whose line_number() is that of the row. Columns that are not read take neither
// memory nor time. The caller deletes the reader. Throws a DataError that names the file, and where
// it lies in one, row and column, on one that is damaged, or has what JSON has no form for.
extern "C" longshore::data::RecordReader* longshore_open_table(
    const longshore::data::TableFile& file);
