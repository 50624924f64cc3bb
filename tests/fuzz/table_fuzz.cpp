// Any bytes as a Parquet file or one of Arrow's: refused with a DataError, or read to its end as
// objects of JSON that have the same columns, also where only some are wanted.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "longshore/base/error.h"
#include "longshore/base/json_tree.h"
#include "longshore/data/text/table_library.h"

namespace {

using Json = nlohmann::json;

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> all;
  for (const auto& [key, value] : object.items()) all.push_back(key);
  return all;
}

void read(const longshore::data::TableFile& file) {
  try {
    const std::unique_ptr<longshore::data::RecordReader> reader(longshore_open_table(file));
    int64_t rows = 0;
    std::vector<std::string> columns;
    for (std::string record; reader->next(record);) {
      require(reader->line_number() == ++rows);
      const Json row = longshore::json_tree(record);
      require(row.is_object());
      if (rows == 1) columns = keys(row);
      require(keys(row) == columns);
    }
  } catch (const longshore::DataError& error) {
    // What a message quotes of the file is printable.
    require(std::string_view(error.what()).find('\n') == std::string_view::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  longshore::data::TableFile file{
      .bytes = bytes, .name = "table", .is_parquet = bytes.starts_with("PAR1")};
  read(file);
  const std::vector<std::string> some{"messages", "text"};
  file.columns = &some;
  read(file);
  return 0;
}
