#include "longshore/data/text/csv_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "longshore/base/error.h"
#include "longshore/base/printable.h"
#include "longshore/base/text.h"
#include "longshore/base/utf8.h"
#include "longshore/data/tokenizers/tokenizer.h"

namespace longshore::data {

CsvReader::CsvReader(const std::filesystem::path& path, char separator)
    : lines_(path), separator_(separator) {
  if (!next_row(columns_)) return;
  std::set<std::string> names;
  for (const std::string& column : columns_) {
    if (const std::string fault = utf8_fault(column); !fault.empty()) fail(fault);
    if (column.empty())
      fail("found a column without a name, expected the names of all columns in the first row");
    if (!names.insert(column).second)
      fail("found the column " + in_quotes(column) + " again, expected each name once");
  }
}

bool CsvReader::next(std::string& record) {
  std::vector<std::string> fields;
  if (!next_row(fields)) return false;
  if (fields.size() > columns_.size())
    fail("found " + plural(std::ssize(fields), "field") + ", expected at most " +
         std::to_string(columns_.size()) + ", one for each column");
  fields.resize(columns_.size());
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  auto& values = object.get_ref<nlohmann::ordered_json::object_t&>();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (const std::string fault = utf8_fault(fields[i]); !fault.empty()) fail(fault);
    // By the object itself each would be compared with all before.
    values.emplace_back(columns_[i], fields[i].empty() ? nlohmann::ordered_json()
                                                       : nlohmann::ordered_json(fields[i]));
  }
  record = object.dump();
  return true;
}

bool CsvReader::next_row(std::vector<std::string>& fields) {
  do
    if (!lines_.next(line_)) return false;
  while (is_blank(line_));
  first_line_ = lines_.line_number();
  fields.clear();
  for (size_t at = 0; at <= line_.size();) {
    std::string field;
    if (at < line_.size() && line_[at] == '"') {
      at = quoted_field(at, field);
    } else {
      const size_t end = std::min(line_.find(separator_, at), line_.size());
      field = line_.substr(at, end - at);
      at = end;
    }
    fields.push_back(std::move(field));
    ++at;  // behind the separator, or the line's end
  }
  return true;
}

size_t CsvReader::quoted_field(size_t begin, std::string& field) {
  size_t at = begin + 1;
  while (true) {
    const size_t quote = line_.find('"', at);
    if (quote == line_.npos) {
      field.append(line_, at).append("\n");
      if (field.size() > kMaxTextBytes)
        fail("found a field of more than " + std::to_string(kMaxTextBytes) +
             " bytes; is a quotation mark missing?");
      if (!lines_.next(line_)) fail("found no end of a field that begins with a quotation mark");
      at = 0;
      continue;
    }
    field.append(line_, at, quote - at);
    at = quote + 1;
    if (at == line_.size() || line_[at] == separator_) return at;
    if (line_[at] != '"')
      fail(
          "found text behind the quotation mark that ends a field, expected two marks for one in "
          "it, or the next field");
    field += '"';
    ++at;
  }
}

void CsvReader::fail(const std::string& what) const {
  throw DataError(at_line(lines_.path(), std::max(first_line_, int64_t{1}), what));
}

}  // namespace longshore::data
