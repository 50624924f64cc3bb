#include "longshore/data/text/open_records.h"

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/data/files/text_format.h"
#include "longshore/data/text/csv_reader.h"
#include "longshore/data/text/json_list_reader.h"
#include "longshore/data/text/line_reader.h"
#include "longshore/data/text/open_table_file.h"

namespace longshore::data {
namespace {

class JsonLineReader final : public RecordReader {
 public:
  explicit JsonLineReader(const std::filesystem::path& path) : lines_(path) {}

  bool next(std::string& record) override {
    while (lines_.next(record))
      if (!is_blank(record)) return true;
    return false;
  }
  int64_t line_number() const override { return lines_.line_number(); }

 private:
  LineReader lines_;
};

}  // namespace

std::unique_ptr<RecordReader> open_records(const std::filesystem::path& path,
                                           const std::optional<std::vector<std::string>>& columns) {
  const TextFormat format = text_format(path).value_or(TextFormat::paragraphs);
  switch (format) {
    case TextFormat::json_lines:
      return std::make_unique<JsonLineReader>(path);
    case TextFormat::json:
      if (is_json_list(path)) return std::make_unique<JsonListReader>(path);
      return std::make_unique<JsonLineReader>(path);
    case TextFormat::csv:
      return std::make_unique<CsvReader>(path, ',');
    case TextFormat::tsv:
      return std::make_unique<CsvReader>(path, '\t');
    case TextFormat::parquet:
    case TextFormat::arrow:
      return open_table_file(path, format, columns);
    case TextFormat::paragraphs:
      break;
  }
  throw InternalError(path_text(path) + " has no records");
}

}  // namespace longshore::data
